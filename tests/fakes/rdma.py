"""RDMA devices of the kernel in memory, tests.fakes.kernel."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from errno import EEXIST, ENODEV, EOPNOTSUPP
from itertools import count
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.find_rdma import VisibleRdma, find_rdma
from dranet_nri.linux.rdma.types import RdmaDevice
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    CharDevice,
    Link,
    NetnsId,
    Ns,
    ObservedRdma,
    RdmaLink,
    RdmaMode,
)
from dranet_nri.plan.identity import RdmaIdentity
from dranet_nri.plan.ops import MoveRdma, RenameRdma

IB_MAJOR: Final = 231  # Documentation/admin-guide/devices.txt
FIRST_MINOR: Final = {"uverbs": 192, "umad": 0, "issm": 64}
RDMA_CM: Final = CharDevice("/dev/infiniband/rdma_cm", 10, 122)


@dataclass(slots=True, eq=False)
class FakeRdma:
    """One RDMA device.

    Attributes:
        bus, parent: what it hangs on ("pci", "0000:8a:00.0"), parent "" for a software device.
        nic: parent of the NIC whose net device is its port's; InfiniBand's ports have none.
        netns: where it is.
        movable: its driver can move it between namespaces.
        slot: what its character devices are numbered by.
        part_of: name of the device whose sub-device it is, "" if none.
        ends: its driver ends it when its NIC changes namespace.
    """

    link: RdmaLink
    bus: str
    parent: str
    netns: NetnsId
    movable: bool
    slot: int
    nic: str
    part_of: str = ""
    ends: bool = False


@dataclass(slots=True)
class FakeRdmaCore:
    """The machine's RDMA devices.

    Attributes:
        mode: None: the kernel has no RDMA.
        host: the host's namespace.
        kinds: the character devices whose modules are loaded.
        remade: told of a device that moved, and where from and to: IPoIB links go and come.
        pkeys: the P_Key table of each device and port that has one.
        broken_chars: errno with which character devices can't be resolved, 0 if they can.
        before_chars: done when they are asked for.
    """

    host: NetnsId
    remade: Callable[[str, NetnsId, NetnsId], None]
    mode: RdmaMode | None = None
    kinds: tuple[str, ...] = ("uverbs", "rdma_cm")
    devices: list[FakeRdma] = field(default_factory=list)
    pkeys: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    broken_chars: int = 0
    before_chars: Callable[[], None] = lambda: None
    _indexes: Iterator[int] = field(default_factory=count)

    def clear_faults(self) -> None:
        """Remove every injected failure."""
        self.broken_chars = 0
        self.before_chars = lambda: None

    def add(
        self, name: str, above: tuple[str, str], guid: str, *, movable: bool, nic: str
    ) -> FakeRdma:
        """Let a driver make a device; it is born on the host."""
        link = RdmaLink(next(self._indexes), name, guid)
        made = FakeRdma(link, *above, self.host, movable, self._free_slot(), nic)
        self.devices.append(made)
        return made

    def remove(self, name: str) -> None:
        """Let a driver take its device away."""
        self.devices = [device for device in self.devices if device.link.name != name]

    def nic_moved(self, nic: str) -> None:
        """Let drivers do what they do when a NIC changes namespace (NETDEV_UNREGISTER)."""
        self.devices = [
            device for device in self.devices if not (device.ends and device.nic == nic)
        ]

    def names(self, netns: NetnsId) -> list[str]:
        """Return what a process in the namespace sees."""
        everywhere = self.mode is RdmaMode.SHARED
        return [device.link.name for device in self.devices if everywhere or device.netns == netns]

    def move(self, op: MoveRdma, spaces: Mapping[Ns, NetnsId]) -> None:
        """Do what RDMA_NLDEV_CMD_SET with a namespace does."""
        what = str(op)
        source, target = spaces[op.source], spaces[op.target]
        if self.mode is not RdmaMode.EXCLUSIVE:
            raise KernelError(what, EOPNOTSUPP, "the system is in shared mode")
        device = self._at(what, op.index)
        if device.netns == target:
            return
        if device.netns != source:
            raise KernelError(what, ENODEV, "it is in another namespace")
        if not device.movable:
            raise KernelError(what, EOPNOTSUPP, "its driver cannot")
        self.carry(device, target)

    def carry(self, device: FakeRdma, target: NetnsId) -> None:
        """Move it; its clients go and come back, under the lowest free numbers."""
        source, device.netns, device.slot = device.netns, target, -1
        device.slot = self._free_slot()
        self.remade(device.parent, source, target)

    def rename(self, op: RenameRdma, spaces: Mapping[Ns, NetnsId]) -> None:
        """Rename it; a name is unique in the whole system (before Linux 7.3)."""
        device = self._at(str(op), op.index)
        if device.netns != spaces[op.ns]:
            raise KernelError(str(op), ENODEV, "it is in another namespace")
        if any(other.link.name == op.name and other is not device for other in self.devices):
            raise KernelError(str(op), EEXIST, f"the name {op.name} is in use")
        device.link = replace(device.link, name=op.name)

    def destroy_namespace(self, netns: NetnsId) -> None:
        """Return to the host what was in a namespace that ends."""
        for device in self.devices:
            if device.netns == netns:
                self.carry(device, self.host)

    def observe(
        self,
        identity: RdmaIdentity,
        pod: NetnsId | None,
        links: Callable[[NetnsId], Sequence[Link]],
    ) -> ObservedRdma:
        """Return where the devices are; links returns those of a namespace."""
        if self.mode is None:
            return ObservedRdma()
        shared = self.mode is RdmaMode.SHARED
        spaces = {Ns.HOST: self.host} | ({Ns.POD: pod} if pod else {})

        def netdevs(ns: Ns, rdma_devices: Sequence[RdmaDevice]) -> dict[int, frozenset[int]]:
            there = [link for link in links(spaces[ns]) if link.arphrd != ARPHRD_INFINIBAND]
            return {
                rdma.index: frozenset(link.index for link in there if link.parent == device.nic)
                for rdma in rdma_devices
                for device in self.devices
                if device.link.index == rdma.index and device.nic
            }

        shown = VisibleRdma(
            self.mode,
            host=[_as_facts(e) for e in self.devices if shared or e.netns == self.host],
            pod=[_as_facts(e) for e in self.devices if not shared and e.netns == pod],
            parents={e.link.name: (e.bus, e.parent) for e in self.devices},
            netdevs=netdevs,
            ports=frozenset(_ports(links(self.host), identity.key.name)),
        )
        return find_rdma(shown, identity)

    def chars(self, netns: NetnsId, link: RdmaLink, kinds: Sequence[str]) -> tuple[CharDevice, ...]:
        """Return the character devices of a device that a process in netns sees."""
        self.before_chars()
        if self.broken_chars:
            raise KernelError(f"resolve character devices of {link.name}", self.broken_chars)
        device = self._at("resolve character devices", link.index)
        if self.mode is not RdmaMode.SHARED and device.netns != netns:
            raise KernelError("resolve character devices", ENODEV, "it is in another namespace")
        found = [_char(kind, device.slot) for kind in kinds if kind in self.kinds]
        return tuple(sorted(found, key=lambda char_device: char_device.path))

    def _at(self, what: str, index: int) -> FakeRdma:
        device = next((device for device in self.devices if device.link.index == index), None)
        if device is None:
            raise KernelError(what, ENODEV, f"no RDMA device {index}")
        return device

    def _free_slot(self) -> int:
        used = {device.slot for device in self.devices}
        return next(number for number in count() if number not in used)


def _ports(links: Sequence[Link], name: str) -> Iterator[tuple[str, str]]:
    """Yield the parents of a bond's ports."""
    bonds = {link.index for link in links if (link.name, link.kind) == (name, "bond")}
    return ((link.bus, link.parent) for link in links if link.master in bonds)


def _as_facts(device: FakeRdma) -> RdmaDevice:
    link = device.link
    return RdmaDevice(link.index, link.name, node_guid=link.node_guid, parent=device.part_of)


def _char(kind: str, slot: int) -> CharDevice:
    if kind == "rdma_cm":
        return RDMA_CM
    return CharDevice(f"/dev/infiniband/{kind}{slot}", IB_MAJOR, FIRST_MINOR[kind] + slot)
