"""A node for the executor: four NICs, a pod, a journal, and ways to fail and to crash."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    Address,
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    Device,
    DeviceKey,
    EthtoolConfig,
    EthtoolState,
    Failure,
    InterfaceConfig,
    IpoibConfig,
    IpoibMode,
    IpoibState,
    Link,
    LinkState,
    NetnsId,
    NetworkConfig,
    ObjectRef,
    Phase,
    Pod,
    RdmaConfig,
    RdmaMode,
    Route,
    Switches,
    TcxProgram,
    TcxSide,
)
from dranet_nri.plan.ops import MoveLink, MoveRdma, Op, RenameLink, RenameRdma
from tests.dranet_nri.attach.execution.journal import Clock, Journal
from tests.fakes.kernel import FakeKernel
from tests.fakes.world import HOST_NETNS

POD = Pod("sandbox-1", "uid-web", "default", "web", "/run/netns/1")
DATA, STORAGE = "claim-data", "claim-storage"


def pci(number: int) -> Device:
    """Return the number-th NIC."""
    address = f"0000:{number:02x}:00.0"
    key = DeviceKey("pci", address, f"eth{number}", address)
    return Device(f"nic-{number}", key, rdma_devices=(f"mlx5_{number}",))


DUAL = replace(pci(2), rdma_devices=("mlx5_2", "mlx5_20"))
VIRTUAL = Device("dummy", DeviceKey("", "", "dummy0"))
RDMA_ONLY = Device(
    "efa", DeviceKey("pci", "0000:09:00.0", "", "0000:09:00.0"), rdma_devices=("mlx5_9",)
)
NAMED = NetworkConfig(
    InterfaceConfig(name="net1", mtu=9000, hardware_addr="02:00:00:00:00:99"),
    ethtool=EthtoolConfig(Switches(("rx-gro",), ("tso",)), Switches(on=("rx_pause",))),
)


def claim(uid: str, *devices: AllocatedDevice) -> Allocation:
    """Return an allocation of our pod."""
    ref = ObjectRef("default", uid.removeprefix("claim-"), uid)
    return Allocation(ref, ObjectRef("default", "web", "uid-web"), devices, "c0ffee", "8a1f5b1c")


def given(device: Device, config: NetworkConfig = NetworkConfig()) -> AllocatedDevice:
    """Return a device as allocated to a request of its own."""
    return AllocatedDevice(device.name, "node", device, config)


CLAIMS = (
    claim(DATA, given(pci(1), NAMED), given(pci(2))),
    claim(STORAGE, given(pci(3)), replace(given(pci(4)), admin_access=True)),
)
GID_MAC = "80:00:10:29:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:5a:1e"
IB_MODE = IpoibState(connected=True, umcast=True)
IB_CONFIG = NetworkConfig(InterfaceConfig(name="net1"), rdma=RdmaConfig(name="hca0"))
FABRIC_CLAIMS = (
    claim(DATA, given(replace(pci(5), key=replace(pci(5).key, name="ibs5")), IB_CONFIG)),
    claim(STORAGE, given(RDMA_ONLY)),
)
IB = Device(
    "pci-0000-0a-00-0",
    DeviceKey("pci", "0000:0a:00.0", "ib0", "0000:0a:00.0"),
    rdma_devices=("mlx5_ib0",),
)
CHILD_CLAIMS = tuple(
    claim(uid, replace(given(IB, child), share_id=uid))
    for number, uid in enumerate((DATA, STORAGE), 1)
    for child in [
        NetworkConfig(
            InterfaceConfig(
                name=f"net{number}",
                addresses=(f"192.168.0.{number}/24",),
                ipoib=IpoibConfig(0x8001, IpoibMode.CONNECTED),
            )
        )
    ]
)
EVERYWHERE = ("eth1", "eth2", "eth3", "dummy0")


class Node:
    """A host with four NICs and a dummy, a pod's namespace, and an executor that may die.

    Attributes:
        claims: the claims that are attached by default.
        watched: net devices that must be restored on the host.
        options: the operator's, for RDMA devices; a restart takes them in.
    """

    claims: tuple[Allocation, ...] = CLAIMS
    watched: tuple[str, ...] = EVERYWHERE
    options = RdmaOptions()

    def __init__(self) -> None:
        self.kernel = FakeKernel()
        self.journal = Journal()
        self.clock = Clock()
        self.kernel.add_link("vrf0", kind="vrf")
        for number in range(1, 5):
            link = Link(0, f"eth{number}", mac=f"02:00:00:00:00:0{number}", up=True, max_mtu=9000)
            self.kernel.add_link(
                f"eth{number}",
                parent=f"0000:{number:02x}:00.0",
                link=replace(link, altnames=(f"enp{number}", "net1") if number == 1 else ()),
                master="vrf0" if number == 3 else "",
                addresses=(Address(f"10.0.{number}.5/24"), Address(f"2001:db8:{number}::5/64")),
                routes=(
                    Route(f"10.{number}.0.0/16", gateway=f"10.0.{number}.1"),
                    Route("0.0.0.0/0", gateway=f"10.0.{number}.1", table=100 + number),
                ),
            )
        for number in (9, 1, 2, 3, 4):
            self.kernel.add_rdma(f"mlx5_{number}", parent=f"0000:{number:02x}:00.0")
        self.kernel.space().named("arrange", "eth1").sysctls["ipv4", "rp_filter"] = "2"
        self.kernel.add_link("dummy0", kind="dummy", addresses=(Address("10.0.9.5/24"),))
        for name in ("eth1", "dummy0"):
            flags = {"rx_pause": False, "legacy-rx": True}
            self.kernel.space().named("arrange", name).private_flags = flags
        self.kernel.space().named("arrange", "eth1").tcx.append(TcxProgram(TcxSide.INGRESS, 1))
        self.arrange()
        self.netns = self.add_netns("/run/netns/1")
        self.start, self.rdma_at_start = self.host(), self.rdma()
        self.restart()

    def arrange(self) -> None:
        """Add further devices to the host."""

    def add_netns(self, path: str) -> NetnsId:
        netns = self.kernel.add_netns(path)
        self.kernel.add_link("eth0", netns, kind="veth")
        self.kernel.hold(netns)
        return netns

    def restart(self) -> None:
        """Restart from the records of the journal; injected failures end."""
        self.kernel.clear_faults()
        self.journal.fails_at = 0
        self.executor = PlanExecutor(self.kernel, self.journal, self.clock, self.options)

    def attach(self, claims: tuple[Allocation, ...] = ()) -> tuple[Attachment, ...]:
        previous = dict(self.journal.records)
        return self.executor.attach(POD, self.netns, claims or self.claims, previous)

    def detach(self, *, netns_exists: bool = True) -> None:
        for record in list(self.journal.records.values()):
            self.executor.detach(record, netns_exists=netns_exists)

    def retry(self) -> None:
        """Detach after the longest pause that the back-off makes between tries."""
        self.clock.now += 60
        self.detach()

    def host(self) -> Mapping[str, LinkState | None]:
        """Return the devices' states on the host, without what a move may change."""
        states = {name: comparable(self.kernel.state(name)) for name in self.watched}
        return {
            name: state and replace(state, ethtool=self.ethtool(name), tcx=self.tcx(name))
            for name, state in states.items()
        }

    def ethtool(self, name: str, netns: NetnsId | None = None) -> EthtoolState:
        """Return features and private flags of a link, the host's if netns is None."""
        return self.kernel.space(netns).named("look", name).ethtool()

    def tcx(self, name: str) -> tuple[TcxProgram, ...]:
        """Return the TCX programs of a link of the host."""
        return tuple(self.kernel.space().named("look", name).tcx)

    def rdma(self, netns: NetnsId | None = None) -> set[str]:
        """Return the RDMA devices in the namespace, the host's if None."""
        return set(self.kernel.rdma.names(netns or HOST_NETNS))

    def assert_restored(self) -> None:
        """Check that every device is restored on the host without residue."""
        assert self.host() == self.start
        assert self.rdma() == self.rdma_at_start
        assert self.kernel.open_sessions == 0

    def in_pod(self, name: str) -> LinkState:
        """Return the state of the pod's link; it is up, and a record describes it."""
        state = self.kernel.state(name, self.netns)
        assert state is not None
        assert state.link.up
        devices = (device for record in self.journal.records.values() for device in record.devices)
        reported = {(device.pod_name, device.mac, device.mtu) for device in devices}
        assert (name, state.link.mac, state.link.mtu) in reported
        return state

    def assert_attached(self) -> None:
        """Check that every device is in the pod, configured."""
        assert self.journal.phases() == {DATA: Phase.ATTACHED, STORAGE: Phase.ATTACHED}
        for name, number in (("net1", 1), ("eth2", 2), ("eth3", 3)):
            state = self.in_pod(name)
            assert [address.cidr for address in state.addresses] == [
                f"10.0.{number}.5/24",
                f"2001:db8:{number}::5/64",
            ]
            assert len(state.routes) == 2
        switched = self.ethtool("net1", self.netns)
        assert "rx-gro" in switched.active
        assert not {"tx-tcp-segmentation", "tx-tcp6-segmentation"} & {*switched.active}
        assert "rx_pause" in switched.private_flags.on
        assert self.rdma(self.netns) == {"mlx5_1", "mlx5_2", "mlx5_3"}
        assert self.kernel.open_sessions == 0


class FabricNode(Node):
    """The same host with an InfiniBand device, whose IPoIB link and RDMA device go together."""

    claims: tuple[Allocation, ...] = FABRIC_CLAIMS
    watched: tuple[str, ...] = ("ibs5",)

    def arrange(self) -> None:
        parent = "0000:05:00.0"
        link = Link(0, "ibs5", "ipoib", ARPHRD_INFINIBAND, GID_MAC, 65520, txqlen=256, up=True)
        self.kernel.add_link(
            "ibs5",
            parent=parent,
            link=replace(link, altnames=("ibp5s0",), ipoib=IB_MODE),
            addresses=(Address("10.0.5.5/24"), Address("2001:db8:5::5/64")),
            routes=(Route("10.5.0.0/16", gateway="10.0.5.1"),),
        )
        self.kernel.add_rdma("mlx5_5", parent=parent, guid="0c42:a103:0065:5a1e")

    def assert_attached(self) -> None:
        assert self.journal.phases() == {DATA: Phase.ATTACHED, STORAGE: Phase.ATTACHED}
        state = self.in_pod("net1")
        assert (state.link.ipoib, state.link.mtu) == (IB_MODE, 65520)
        assert [address.cidr for address in state.addresses] == ["10.0.5.5/24", "2001:db8:5::5/64"]
        assert [route.destination for route in state.routes] == ["10.5.0.0/16"]
        assert self.rdma(self.netns) == {"hca0", "mlx5_9"}
        assert self.kernel.open_sessions == 0


class ChildNode(Node):
    """The same host with an InfiniBand interface of which two claims have a child each."""

    claims: tuple[Allocation, ...] = CHILD_CLAIMS
    watched: tuple[str, ...] = ("ib0",)

    def arrange(self) -> None:
        link = Link(0, "ib0", kind="ipoib", arphrd=ARPHRD_INFINIBAND, up=True)
        self.kernel.add_link("ib0", parent=IB.key.parent, link=link)
        self.kernel.add_rdma("mlx5_ib0", parent=IB.key.parent)
        self.kernel.rdma.mode = RdmaMode.SHARED
        self.kernel.rdma.pkeys["mlx5_ib0", 1] = (0x7FFF, 0x8001)

    def assert_restored(self) -> None:
        super().assert_restored()
        for netns in filter(self.kernel.alive, (HOST_NETNS, self.netns)):
            assert self.kernel.state("net1", netns) is self.kernel.state("net2", netns) is None

    def assert_attached(self) -> None:
        assert self.journal.phases() == {DATA: Phase.ATTACHED, STORAGE: Phase.ATTACHED}
        assert self.host() == self.start
        for name, cidr in (("net1", "192.168.0.1/24"), ("net2", "192.168.0.2/24")):
            state = self.in_pod(name)
            assert [address.cidr for address in state.addresses] == [cidr]
            assert (state.link.ipoib, state.link.mtu) == (IpoibState(connected=True), 65520)
        assert self.kernel.open_sessions == 0


def comparable(state: LinkState | None) -> LinkState | None:
    """Return the state without indexes and the order of things."""
    if state is None:
        return None
    return replace(
        state,
        link=replace(state.link, index=0, altnames=tuple(sorted(state.link.altnames))),
        addresses=tuple(sorted(state.addresses, key=repr)),
        routes=tuple(sorted(state.routes, key=repr)),
    )


def failure_of(node: Node, uid: str = DATA) -> Failure:
    """Return the recorded failure of the claim."""
    failure = node.journal.records[uid].failure
    assert failure is not None
    return failure


def attached_ops(make: type[Node]) -> int:
    """Return how many operations an attach without failures takes."""
    node = make()
    node.attach()
    return len(node.kernel.log)


def detached_ops(make: type[Node]) -> int:
    """Return how many operations a detach takes."""
    node = make()
    node.attach()
    node.kernel.log.clear()
    node.detach()
    return len(node.kernel.log)


def attached(node: Node, *devices: AllocatedDevice) -> AttachedDevice:
    """Attach the devices as one claim; return the first one's record."""
    (record,) = node.attach((claim(DATA, *devices),))
    return record.devices[0]


def refusal(node: Node, device: AllocatedDevice) -> str:
    """Attach a device that must be refused; return why. Nothing was done, and it's recorded."""
    with pytest.raises(RefusedError) as caught:
        node.attach((claim(DATA, device),))
    assert node.kernel.log == []
    assert node.journal.phases() == {DATA: Phase.FAILED}
    assert failure_of(node).message == str(caught.value)
    node.assert_restored()
    return str(caught.value)


def kinds_of(ops: list[Op]) -> list[type[Op]]:
    """Return the operations on RDMA devices, and the moves and renames of net devices."""
    return [type(op) for op in ops if isinstance(op, MoveRdma | RenameRdma | MoveLink | RenameLink)]
