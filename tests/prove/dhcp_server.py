"""DHCP server at the other end of a wire, as a process in the namespace of that end."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.box.nics import SWITCH, ip
from tests.fakes.dhcp import GIVEN, FakeDhcpServer

WIRE: Final = "wire0"  # the end of the first NIC
_READY: Final = "ready\n"
_SERVER_PORT, _CLIENT_PORT = 67, 68
_LONGEST: Final = 4096  # bytes of a message


@contextmanager
def served() -> Iterator[None]:
    """Run a server for the first wire for the length of a block."""
    ip("-n", SWITCH, "addr", "replace", f"{GIVEN.server}/24", "dev", WIRE)
    command = ("ip", "netns", "exec", SWITCH, sys.executable, "-m", __name__)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == _READY
            yield
        finally:
            process.terminate()
            ip("-n", SWITCH, "addr", "flush", "dev", WIRE, "scope", "global")


def serve() -> None:
    """Answer until the process is terminated."""
    server = FakeDhcpServer()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, WIRE.encode())
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        udp.bind(("", _SERVER_PORT))
        sys.stdout.write(_READY)
        sys.stdout.flush()
        while True:
            payload, (source, _) = udp.recvfrom(_LONGEST)
            server.send(payload, source, "")
            for answer, _ in server.pending():
                udp.sendto(answer, ("255.255.255.255", _CLIENT_PORT))


if __name__ == "__main__":
    serve()
