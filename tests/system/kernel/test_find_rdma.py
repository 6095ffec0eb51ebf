"""Ownership of RDMA devices in the kernel port: equal to that of the inventory.

sysfs is a tree of files, and what NETLINK_RDMA answers is told: no machine has all this hardware.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from errno import EIO, ENODEV
from pathlib import Path

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.facts import sysfs
from dranet_nri.facts.infiniband import RdmaNetlinkFacts, rdma_devices
from dranet_nri.inventory import HostFacts, NetDevice, inventory_from_facts
from dranet_nri.kernel import rdma
from dranet_nri.linux.dirfd import DirFd
from dranet_nri.linux.rdma.types import RdmaDevice, RdmaPort, RdmaSystem
from dranet_nri.model import Device, DeviceKey, Link, ObservedRdma, RdmaLink, RdmaMode
from dranet_nri.plan.identity import RdmaIdentity
from tests.fakes.sysfs import FakeSysfs
from tests.system.kernel.namespaces import new_netns

PF, APART = "0000:8a:00.0", "0000:8b:00.0"


@dataclass
class Machine:
    """A host, and a pod.

    Attributes:
        host, pod: descriptors of their namespaces.
        links: net devices of the host.
        ports: (RDMA device, net device) of each port.
        moved: RDMA devices that are in the pod.
        there: ifindexes of net devices that are in the pod.
        error: what asking for ports fails with, 0: nothing.
    """

    tree: FakeSysfs
    host: int
    pod: int
    mode: RdmaMode = RdmaMode.EXCLUSIVE
    links: list[Link] = field(default_factory=list)
    ports: list[tuple[str, str]] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    there: set[int] = field(default_factory=set)
    error: int = 0

    def net(self, name: str, bus: str = "", parent: str = "", **rest: object) -> None:
        link = Link(2 + len(self.links), name, bus=bus, parent=parent)
        self.tree.net(name, (bus, parent) if parent else None)
        self.links.append(replace(link, **rest))  # type: ignore[arg-type]

    def rdma(self, name: str, above: tuple[str, str] | None = None, netdev: str = "") -> None:
        layer = "Ethernet" if netdev else "InfiniBand"
        self.tree.rdma(name, above, layers=(layer,), guid=f"0200:00ff:fe00:{len(self.ports):04x}")
        self.ports.append((name, netdev))

    def index(self, netdev: str) -> int:
        return next((link.index for link in self.links if link.name == netdev), 0)

    def published(self) -> tuple[Device, ...]:
        """Return the devices of the inventory, from the same answers as the kernel port."""
        reported = RdmaNetlinkFacts(
            {name: RdmaDevice(at, name) for at, (name, _) in enumerate(self.ports)},
            {
                (name, 1): RdmaPort(at, name, 1, netdev_index=self.index(nic), netdev=nic)
                for at, (name, nic) in enumerate(self.ports)
            },
        )
        found = rdma_devices(self.tree.root, reported)
        with DirFd(self.tree.root) as folder:
            parents = [sysfs.net_parent(folder, link) for link in self.links]
        netdevs = tuple(
            NetDevice(link, pci=parent.pci, virtual=parent.virtual, dev_port=parent.dev_port)
            for link, parent in zip(self.links, parents, strict=True)
        )
        above = frozenset(device.pci for device in found if device.pci)
        functions = tuple(sysfs.pci_functions(self.tree.root, above, lambda _: {}))
        return inventory_from_facts(HostFacts(functions, netdevs, found)).devices

    def observe(self, device: Device, *before: RdmaLink, pod_netdev: int = 0) -> ObservedRdma:
        """Look for the device's RDMA devices as an attach does."""
        index = 0 if pod_netdev else self.index(device.key.name)
        identity = RdmaIdentity(device.key, device.rdma_devices, before, "", index, pod_netdev)
        return rdma.observe(self.host, self.pod, str(self.tree.root), identity)

    def open(self) -> "Socket":
        """Open a socket in the calling thread's namespace."""
        own = Path("/proc/thread-self/ns/net").stat()
        return Socket(self, in_pod=os.path.samestat(own, os.fstat(self.pod)))


@dataclass
class Socket:
    """The answers of one namespace."""

    machine: Machine
    in_pod: bool

    def system(self) -> RdmaSystem:
        return RdmaSystem(self.machine.mode)

    def devices(self, _: str) -> tuple[RdmaDevice, ...]:
        return tuple(
            RdmaDevice(at, name, node_guid=f"0200:00ff:fe00:{at:04x}")
            for at, (name, _) in enumerate(self.machine.ports)
            if self.machine.mode is RdmaMode.SHARED or (name in self.machine.moved) == self.in_pod
        )

    def ports(self, what: str, index: int) -> tuple[RdmaPort, ...]:
        if self.machine.error:
            raise KernelError(what, self.machine.error)
        name, netdev = self.machine.ports[index]
        at = self.machine.index(netdev)
        shown = at if (at in self.machine.there) == self.in_pod else 0
        return (RdmaPort(index, name, 1, netdev_index=shown),)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    host, pod = new_netns(), new_netns()
    made = Machine(FakeSysfs(tmp_path), host, pod)
    made.tree.pci(PF, driver="mlx5_core")
    (made.tree.root / "module/ib_core").mkdir(parents=True)
    monkeypatch.setattr(rdma, "open_here", made.open)
    yield made
    os.close(host)
    os.close(pod)


def subfunction(machine: Machine) -> None:
    machine.tree.child("auxiliary", "mlx5_core.sf.2", ("pci", PF))
    machine.net("eth1", "pci", PF)
    machine.net("eth1s88", "auxiliary", "mlx5_core.sf.2")
    machine.rdma("mlx5_0", ("pci", PF), "eth1")
    machine.rdma("mlx5_2", ("auxiliary", "mlx5_core.sf.2"), "eth1s88")


def erdma(machine: Machine) -> None:
    machine.tree.pci(APART, driver="virtio-pci")
    machine.tree.child("virtio", "virtio3", ("pci", APART))
    machine.net("eth1", "virtio", "virtio3")
    machine.rdma("erdma_0", ("pci", PF), "eth1")


def infiniband(machine: Machine) -> None:
    machine.tree.pci(APART, driver="mlx5_core", physical=PF)
    machine.net("ibs1", "pci", APART)
    machine.rdma("mlx5_0", ("pci", PF))
    machine.rdma("mlx5_1", ("pci", APART))


def software(machine: Machine) -> None:
    machine.net("eth1", "pci", PF)
    machine.net("eth1.5", kind="vlan", lower=2)
    machine.rdma("mlx5_0", ("pci", PF), "eth1")
    machine.rdma("rxe0", None, "eth1")
    machine.rdma("rxe1", None, "eth1.5")


def lagging(machine: Machine) -> None:
    """One RDMA device for two functions; the kernel names the active one's net device."""
    machine.tree.pci(APART, driver="mlx5_core")
    machine.net("eth1", "pci", PF)
    machine.net("eth2", "pci", APART)
    machine.rdma("mlx5_bond_0", ("pci", PF), "eth2")


def synthetic(machine: Machine) -> None:
    machine.tree.device("vmbus", "f8615163", "LNXSYSTM:00/VMBUS:00")
    machine.net("eth0", "vmbus", "f8615163", mac="02:00:00:00:00:01")
    machine.rdma("mlx5_0", ("pci", PF), "eth0")


MACHINES: dict[Callable[[Machine], None], dict[str, tuple[str, ...]]] = {
    subfunction: {"eth1s88": ("mlx5_2",), "pci-0000-8a-00-0": ("mlx5_0",)},
    erdma: {"pci-0000-8a-00-0": ("erdma_0",), "pci-0000-8b-00-0": ("erdma_0",)},
    infiniband: {"pci-0000-8a-00-0": ("mlx5_0",), "pci-0000-8b-00-0": ("mlx5_1",)},
    software: {"net-mv2gqmjogu": ("rxe1",), "pci-0000-8a-00-0": ("mlx5_0", "rxe0")},
    lagging: {"pci-0000-8a-00-0": ("mlx5_bond_0",), "pci-0000-8b-00-0": ("mlx5_bond_0",)},
    synthetic: {"eth0": ()},
}


@pytest.mark.parametrize("mode", RdmaMode)
@pytest.mark.parametrize("made", MACHINES, ids=lambda made: made.__name__)
def test_attached_rdma_devices_are_the_published_ones(
    machine: Machine, made: Callable[[Machine], None], mode: RdmaMode
) -> None:
    machine.mode = mode
    made(machine)

    devices = machine.published()
    taken = {device.name: tuple(e.name for e in machine.observe(device).host) for device in devices}

    assert {device.name: device.rdma_devices for device in devices} == MACHINES[made]
    assert taken == MACHINES[made]


def on_eth1(machine: Machine) -> Device:
    return next(device for device in machine.published() if device.key.name == "eth1")


def test_shared_rdma_device_of_another_function_is_found_while_its_nic_is_in_the_pod(
    machine: Machine,
) -> None:
    erdma(machine)
    machine.rdma("erdma_1", ("pci", PF), "eth7")
    machine.mode = RdmaMode.SHARED
    device, machine.there = on_eth1(machine), {2}

    observed = machine.observe(device, pod_netdev=2)

    assert [rdma_device.name for rdma_device in observed.host] == ["erdma_0"]
    assert observed.taken_host_names == {"erdma_1"}


def test_rdma_device_returned_before_its_nic_is_found(machine: Machine) -> None:
    erdma(machine)
    device, machine.there = on_eth1(machine), {2}
    left = RdmaLink(0, "erdma_0", "0200:00ff:fe00:0000")

    observed = machine.observe(device, left, pod_netdev=2)

    assert (observed.host, observed.pod) == ((left,), ())
    assert machine.observe(device, replace(left, index=7), pod_netdev=2).host == ()


def test_rdma_device_in_a_pod_is_identified_by_its_nic(
    machine: Machine,
) -> None:
    subfunction(machine)
    machine.moved, machine.there = {"mlx5_0", "mlx5_2"}, {2, 3}
    key = DeviceKey("pci", PF, "eth1", PF)

    observed = machine.observe(Device("nic", key, rdma_devices=("mlx5_2",)), pod_netdev=2)

    assert [rdma_device.name for rdma_device in observed.pod] == ["mlx5_0"], (
        "mlx5_2 has the net device of another"
    )
    assert observed.taken_pod_names == {"mlx5_2"}


def test_rdma_device_in_a_pod_is_identified_by_name_without_port_net_devices(
    machine: Machine,
) -> None:
    infiniband(machine)
    machine.moved = {"mlx5_0", "mlx5_1"}
    (_, device) = machine.published()

    assert [rdma_device.name for rdma_device in machine.observe(device, pod_netdev=2).pod] == [
        "mlx5_1"
    ]


def test_software_rdma_device_without_a_visible_nic_is_identified_by_name(machine: Machine) -> None:
    software(machine)
    device, machine.there = on_eth1(machine), {2}
    machine.moved = {"mlx5_0"}

    assert [rdma_device.name for rdma_device in machine.observe(device).host] == ["rxe0"]


def test_software_rdma_devices_are_those_without_a_parent_in_sysfs(machine: Machine) -> None:
    software(machine)
    device = on_eth1(machine)

    assert machine.observe(device).software == ("rxe0",)
    (machine.tree.root / "class/infiniband/rxe0").unlink()
    observed = machine.observe(device)
    assert ([rdma_device.name for rdma_device in observed.host], observed.software) == (
        ["mlx5_0", "rxe0"],
        (),
    )


def test_rdma_device_removed_during_the_query_has_no_net_device(machine: Machine) -> None:
    erdma(machine)
    device, machine.error = on_eth1(machine), ENODEV

    assert machine.observe(device).host == ()


def test_other_kernel_failures_are_raised(machine: Machine) -> None:
    erdma(machine)
    device, machine.error = on_eth1(machine), EIO

    with pytest.raises(KernelError, match="net devices of RDMA device 0"):
        machine.observe(device)


def test_kernel_without_rdma_is_not_queried(machine: Machine) -> None:
    machine.net("eth0", "pci", "0000:8a:00.0")
    machine.rdma("mlx5_0", ("pci", "0000:8a:00.0"), "eth0")
    (device,) = machine.published()
    (machine.tree.root / "module/ib_core").rmdir()

    assert machine.observe(device) == ObservedRdma()
