"""The NICs without hardware of a User Mode Linux machine, as hack/box/uml/boxnic makes them.

What a test sets in debugfs it sets by `setting`, which puts the old value back.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.box.nics import ip

DEBUG: Final = Path("/sys/kernel/debug/boxnic")
PCI: Final = Path("/sys/bus/pci")
PARAMETERS: Final = Path("/sys/module/boxnic/parameters")
ETHERTYPE: Final = 0x88B5  # for local experiments
BROADCAST: Final = "ff:ff:ff:ff:ff:ff"
# A virtual function as it is when it is made.
DEFAULTS: Final = (
    *("mac", "00:00:00:00:00:00", "vlan", "0", "max_tx_rate", "0", "min_tx_rate", "0"),
    *("trust", "off", "spoofchk", "on", "state", "auto"),
)
ETH_P_ALL: Final = 3  # linux/if_ether.h
ETH_P_8021Q: Final = 0x8100  # linux/if_ether.h
SOL_PACKET: Final = 263  # linux/socket.h
PACKET_AUXDATA: Final = 8  # linux/if_packet.h
TP_STATUS_VLAN_VALID: Final = 1 << 4  # linux/if_packet.h
AUXDATA: Final = struct.Struct("IIIHHHH")  # struct tpacket_auxdata
DEADLINE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Function:
    """A PCI function, physical or virtual, by its address."""

    address: str

    @property
    def device(self) -> Path:
        """Return its PCI device."""
        return PCI / "devices" / self.address

    @property
    def driver(self) -> str:
        """Return the driver that it is made for."""
        return "igb" if self.address.endswith(":00.0") else "igbvf"

    @property
    def name(self) -> str:
        """Return the name of its interface on the host, "" if there is none."""
        return next((path.name for path in self.device.glob("net/*")), "")

    def interface(self, attribute: str) -> str:
        """Return an attribute of its interface in sysfs."""
        return (self.device / "net" / self.name / attribute).read_text().strip()

    def mac(self) -> str:
        """Return the address of its interface."""
        return self.interface("address")

    def has_carrier(self) -> bool:
        """Whether its interface, which is up, has a carrier."""
        return self.interface("carrier") == "1"

    def read(self, file: str) -> str:
        """Return the content of one of its files in debugfs."""
        return (DEBUG / self.address / file).read_text().strip()

    def write(self, file: str, text: object) -> None:
        """Write one of its files in debugfs."""
        write(DEBUG / self.address / file, str(text))

    @contextmanager
    def setting(self, file: str, value: object) -> Iterator[None]:
        """Have a value in one of its files in debugfs."""
        before = self.read(file)
        self.write(file, value)
        try:
            yield
        finally:
            self.write(file, before)

    @contextmanager
    def failing(self, operation: str, number: int, calls: int = 1) -> Iterator[None]:
        """Have the next calls of an operation fail with an error number."""
        self.write("fail", f"{operation} {number} {calls}")
        try:
            yield
        finally:
            self.write("fail", f"{operation} {number} 0")

    def count(self, counter: str) -> int:
        """Return one of the driver's own counters."""
        rows = (row.split(": ") for row in ethtool("-S", self.name).splitlines() if ": " in row)
        return {key.strip(): int(value) for key, value in rows}[counter]

    def bind(self) -> None:
        """Bind its driver."""
        write(PCI / "drivers" / self.driver / "bind", self.address)
        settle()

    def unbind(self) -> None:
        """Unbind its driver."""
        write(PCI / "drivers" / self.driver / "unbind", self.address)

    def make_virtual(self, count: int) -> tuple[Function, ...]:
        """Make that many virtual functions, all up."""
        write(self.device / "sriov_numvfs", str(count))
        settle()
        links = (self.device / f"virtfn{number}" for number in range(count))
        made = tuple(Function(link.resolve().name) for link in links)
        for function in made:
            ip("link", "set", function.name, "up")
        return made

    def remove_virtual(self) -> None:
        """Remove all virtual functions."""
        write(self.device / "sriov_numvfs", "0")

    def reset(self) -> None:
        """Reset the function as PCI does."""
        write(self.device / "reset", "1")


def write(file: Path, text: str) -> None:
    """Write a file of the kernel by one system call: a buffered file that fails writes twice."""
    with file.open("wb", buffering=0) as opened:
        opened.write(text.encode())


def settle() -> None:
    """Return once udev has named the interfaces."""
    subprocess.run(("udevadm", "settle", "--timeout=60"), check=True)


def ethtool(*arguments: str) -> str:
    """Run ethtool and return what it printed."""
    done = subprocess.run(("ethtool", *arguments), check=True, capture_output=True, text=True)
    return done.stdout


def physical_functions() -> tuple[Function, ...]:
    """Return the physical functions, by address."""
    return tuple(Function(path.name) for path in sorted((PCI / "drivers/igb").glob("0000:*")))


def virtual_of(physical: Function, number: int) -> Function:
    """Return a virtual function by its number."""
    return Function((physical.device / f"virtfn{number}").resolve().name)


def set_vf(physical: Function, *settings: str, number: int = 0) -> None:
    """Set what a physical function sets for a virtual one."""
    ip("link", "set", physical.name, "vf", str(number), *settings)


def shown(physical: Function, number: int = 0) -> dict[str, Any]:
    """Return what `ip link show` shows of a virtual function."""
    (row,) = json.loads(ip("-j", "-d", "-s", "link", "show", physical.name))
    settings: dict[str, Any] = row["vfinfo_list"][number]
    return settings


@contextmanager
def promiscuous(function: Function) -> Iterator[None]:
    """Have an interface promiscuous."""
    name = function.name
    ip("link", "set", name, "promisc", "on")
    try:
        yield
    finally:
        ip("link", "set", name, "promisc", "off")


@contextmanager
def refused(number: int) -> Iterator[None]:
    """Expect the kernel to answer a program or a write with an error number."""
    with pytest.raises((subprocess.CalledProcessError, OSError)) as error:
        yield
    if isinstance(error.value, subprocess.CalledProcessError):
        assert os.strerror(number) in error.value.stderr
    else:
        assert isinstance(error.value, OSError)
        assert error.value.errno == number


def run(*command: str) -> None:
    """Run a command."""
    subprocess.run(command, check=True, capture_output=True)


def load(**parameters: str) -> None:
    """Load the module."""
    given = (f"{key}={value}" for key, value in parameters.items())
    subprocess.run(("insmod", os.environ["BOX_BOXNIC"], *given), check=True)
    settle()


def unload() -> dict[str, str]:
    """Unload the module and return the parameters that it had."""
    had = {path.name: path.read_text().strip() for path in PARAMETERS.iterdir()}
    subprocess.run(("rmmod", "boxnic"), check=True)
    return had


def send(name: str, to: str, text: str, *, source: str = "", vlan: int = 0) -> None:
    """Send one frame with that text, from the interface's own address if no other is given."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((name, 0))
        own = bytes.fromhex(source.replace(":", "")) if source else sender.getsockname()[4]
        tag = struct.pack("!HH", ETH_P_8021Q, vlan) if vlan else b""
        head = bytes.fromhex(to.replace(":", "")) + own + tag + struct.pack("!H", ETHERTYPE)
        sender.send(head + text.encode().ljust(46, b"\0"))


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as it was received: its text, and its VLAN, 0 for none."""

    text: str
    vlan: int = 0


class Listener:
    """What an interface receives of the frames that `send` sends."""

    def __init__(self, name: str) -> None:
        """Listen on the interface, which stays as promiscuous as it is."""
        # The socket of all protocols: only that is before the VLAN's tag is taken off.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self._socket.settimeout(DEADLINE_S)
        self._socket.bind((name, ETH_P_ALL))

    def __enter__(self) -> Listener:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._socket.close()

    def next(self) -> Frame:
        """Return the next frame, once there is one."""
        while True:
            data, extra, _, address = self._socket.recvmsg(2048, socket.CMSG_SPACE(AUXDATA.size))
            if address[1] == ETHERTYPE and address[2] != socket.PACKET_OUTGOING:
                break
        status, *_, vlan, _ = AUXDATA.unpack(extra[0][2])
        text = data[14:].rstrip(b"\0").decode()
        return Frame(text, vlan if status & TP_STATUS_VLAN_VALID else 0)


@pytest.fixture(scope="module")
def debugfs() -> Iterator[None]:
    """Have debugfs mounted."""
    mounted = DEBUG.exists()
    if not mounted:
        run("mount", "-t", "debugfs", "debugfs", str(DEBUG.parent))
    yield
    if not mounted:
        run("umount", str(DEBUG.parent))


@pytest.fixture(scope="module")
def physical(debugfs: None) -> Iterator[Function]:
    """Return a physical function that is up, with two virtual functions that are up."""
    function = physical_functions()[6]
    ip("link", "set", function.name, "up")
    function.make_virtual(2)
    yield function
    function.remove_virtual()
    ip("link", "set", function.name, "down")


@pytest.fixture(scope="module")
def far(debugfs: None) -> Iterator[Function]:
    """Return another physical function that is up."""
    function = physical_functions()[7]
    ip("link", "set", function.name, "up")
    yield function
    ip("link", "set", function.name, "down")


@pytest.fixture
def virtual(physical: Function) -> Iterator[Function]:
    """Return its first virtual function, for which it may set anything."""
    yield virtual_of(physical, 0)
    set_vf(physical, *DEFAULTS)


@pytest.fixture
def rebound(physical: Function, virtual: Function) -> Iterator[Function]:
    """Return the same, whose interface a test may change or remove: its driver is bound anew."""
    yield virtual
    set_vf(physical, *DEFAULTS)
    if (virtual.device / "driver").exists():
        virtual.unbind()
    virtual.bind()
    ip("link", "set", virtual.name, "up")


@pytest.fixture
def netns() -> Iterator[str]:
    """Return the name of a network namespace."""
    ip("netns", "add", "elsewhere")
    yield "elsewhere"
    ip("netns", "del", "elsewhere")
