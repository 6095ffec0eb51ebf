"""A DHCP server of Debian at the other end of a host's NICs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread

from tests.capability import lacking
from tests.system.kernel.rails import Rails

SERVER = "10.77.0.1"
LEASE_S = 120  # the least that dnsmasq gives


class Dnsmasq:
    """A running server, and its log of messages."""

    def __init__(self, host: Rails, folder: Path, *options: str) -> None:
        """Start it on pnic0 and pnic1, and wait until it serves."""
        self._process = host.on_wire(
            "dnsmasq",
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--user=root",
            "--port=0",
            "--log-dhcp",
            "--log-facility=-",
            "--no-ping",
            "--dhcp-authoritative",
            f"--dhcp-leasefile={folder / 'leases'}",
            f"--dhcp-range=10.77.0.50,10.77.0.90,255.255.255.0,{LEASE_S}",
            *options,
        )
        self._lines: Queue[str] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        self.until("DHCP, IP range")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def until(self, text: str) -> str:
        """Return the next line that it logs with this text."""
        while True:
            line = self._lines.get(timeout=20)
            if text in line:
                return line

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def dnsmasq(host: Rails, folder: Path, *options: str) -> Iterator[Dnsmasq]:
    """Run a server on 10.77.0.1 for the length of a block."""
    if shutil.which("dnsmasq") is None:
        lacking("dnsmasq", "apt-get install dnsmasq-base")
    for arguments in (("addr", "add", f"{SERVER}/24", "dev", "pnic0"), ("link", "set", "lo", "up")):
        added = host.on_wire("ip", *arguments)
        added.communicate()
    server = Dnsmasq(host, folder, *options)
    try:
        yield server
    finally:
        server.stop()


def leases(folder: Path) -> list[str]:
    """Return the addresses that a server has given and not taken back."""
    return [line.split()[2] for line in (folder / "leases").read_text().splitlines()]
