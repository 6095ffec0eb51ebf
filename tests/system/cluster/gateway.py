"""The far end of a node's uplink: a network namespace that the tests of the cluster hold open.

`python3 -m tests.system.cluster.gateway SOCKET COMMAND…`, run in a network namespace of its own,
makes it the gateway of a machine whose uplink is the tap device TAP, then becomes COMMAND. Nothing
in there leads anywhere but through the tests (tests/system/cluster/uplink.py).
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Final

from tests.box.nics import ip

ADDRESS: Final = "192.0.2.10"
GATEWAY: Final = "192.0.2.1"  # behind which is the API server
SERVICE: Final = "10.96.0.1"  # of the API server, first of the services' addresses
PODS: Final = "10.88.0.0/16"
TAP: Final = "machine"


def configure_link(link: str, netns: str = "") -> None:
    """Give the link to the node, and its namespace, the addresses that the node looks for.

    Args:
        link: of the gateway.
        netns: the name of the gateway's namespace; this process's own if "".
    """
    where = ("-n", netns) if netns else ()
    for command in (
        ("link", "set", "lo", "up"),
        ("addr", "add", f"{GATEWAY}/24", "dev", link),
        ("addr", "add", f"{SERVICE}/32", "dev", "lo"),
        ("link", "set", link, "up"),
        ("route", "add", PODS, "via", ADDRESS),
    ):
        ip(*where, *command)


def hand_over(namespace: Path, hello: Path) -> None:
    """Give the namespace to the tests that listen at this socket; return when they use it."""
    with socket.socket(socket.AF_UNIX) as tests, namespace.open("rb") as gateway:
        tests.connect(str(hello))
        socket.send_fds(tests, [b"gateway"], [gateway.fileno()])
        tests.recv(1)


def main() -> None:
    """Make this namespace a machine's gateway, then become the command that runs the machine."""
    hello, *command = sys.argv[1:]
    ip("tuntap", "add", "dev", TAP, "mode", "tap")
    configure_link(TAP)
    hand_over(Path("/proc/self/ns/net"), Path(hello))
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
