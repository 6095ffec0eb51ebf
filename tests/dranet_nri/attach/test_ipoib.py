"""IP-over-InfiniBand children on a kernel in memory: creation, configuration and removal."""

from dataclasses import replace
from errno import EBUSY

import pytest

from dranet_nri.attach.child import CLOSE_WATCH_S, PERIOD_S, OrphanSchedule, remove_orphans
from dranet_nri.attach.rdma import IP_ONLY_WARNING, RdmaOptions
from dranet_nri.config import SHARED_MODE_WARNING
from dranet_nri.errors import AttachError, RefusedError
from dranet_nri.model import (
    TENANT_PKEY,
    AllocatedDevice,
    Allocation,
    Attachment,
    InterfaceConfig,
    IpoibConfig,
    IpoibMode,
    Link,
    NetnsId,
    NetworkConfig,
    Phase,
    Pod,
    RdmaMode,
)
from dranet_nri.plan.ops import AddAddress, AddChild, DelLink, MoveLink, Op, SetUp
from tests.dranet_nri.attach.execution.node import (
    DATA,
    GID_MAC,
    IB,
    POD,
    STORAGE,
    Node,
    claim,
    given,
)

pytestmark = pytest.mark.process


PARENT = IB.key.parent
OTHER_POD = Pod("sandbox-2", "uid-db", "default", "db", "/run/netns/2")


def child_config(
    name: str = "net1", pkey: int | None = 0x8001, mode: IpoibMode = IpoibMode.DATAGRAM
) -> NetworkConfig:
    ipoib = IpoibConfig(pkey, mode)
    return NetworkConfig(InterfaceConfig(name=name, addresses=("192.168.0.5/24",), ipoib=ipoib))


def shared(config: NetworkConfig, share: str) -> AllocatedDevice:
    return replace(given(IB, config), share_id=share)


@pytest.fixture
def node() -> Node:
    node = Node()
    link = Link(0, "ib0", kind="ipoib", arphrd=32, up=True)
    node.kernel.add_link("ib0", link=replace(link, bus="pci", parent=PARENT))
    node.kernel.add_rdma("mlx5_ib0", parent=PARENT)
    node.kernel.rdma.mode = RdmaMode.SHARED
    node.kernel.rdma.pkeys["mlx5_ib0", 1] = (0x7FFF, 0x8001)
    return node


def addresses(node: Node, name: str, netns: NetnsId) -> list[str]:
    state = node.kernel.state(name, netns)
    assert state is not None
    return [address.cidr for address in state.addresses]


def detach(node: Node, record: Attachment, *, netns_exists: bool = True) -> Attachment:
    return node.executor.detach(record, netns_exists=netns_exists)


def test_pod_gets_a_child_and_the_parent_stays_on_the_host(node: Node) -> None:
    before = node.kernel.state("ib0")

    (record,) = node.attach((claim(DATA, given(IB, child_config())),))

    assert addresses(node, "net1", node.netns) == ["192.168.0.5/24"]
    assert node.kernel.state("ib0") == before
    (made,) = (op for op in node.kernel.log if isinstance(op, AddChild))
    assert made.link == IpoibConfig(0x8001)
    (device,) = record.devices
    assert (device.pod_name, device.snapshot, device.rdma) == ("net1", None, ())
    link = node.in_pod("net1").link
    assert (device.mac, device.mtu, device.pod_index) == (link.mac, 2044, 0)
    assert len(device.mac) == len(GID_MAC)
    assert [char_device.path for char_device in device.char_devices] == [
        "/dev/infiniband/rdma_cm",
        "/dev/infiniband/uverbs5",
    ]
    assert device.warnings == (SHARED_MODE_WARNING,)
    assert node.executor.verify(record, None) == record
    assert detach(node, record).phase is Phase.RESTORED
    assert node.kernel.state("net1", node.netns) is None


def test_pkey_is_resolved_on_the_port_of_the_interface(node: Node) -> None:
    node.kernel.rdma.pkeys["mlx5_ib0", 2] = (0x7FFF, 0x8002)
    second = replace(IB, key=replace(IB.key, port=1))

    node.attach((claim(DATA, given(second, child_config(pkey=TENANT_PKEY))),))

    (made,) = (op for op in node.kernel.log if isinstance(op, AddChild))
    assert made.link == IpoibConfig(0x8002)
    second_claim = claim(STORAGE, given(second, child_config("net2")))
    with pytest.raises(RefusedError, match="mlx5_ib0 port 2"):
        node.executor.attach(OTHER_POD, node.add_netns("/run/netns/2"), (second_claim,), {})


@pytest.mark.parametrize("mode", RdmaMode)
def test_pkey_is_resolved_by_the_current_name_of_the_rdma_device(
    node: Node, mode: RdmaMode
) -> None:
    node.kernel.rdma.mode = mode
    node.kernel.rdma.remove("mlx5_ib0")
    node.kernel.add_rdma("mlx5_7", parent=PARENT)
    node.kernel.rdma.pkeys = {("mlx5_7", 1): (0x7FFF, 0x8002)}

    node.attach((claim(DATA, given(IB, child_config(pkey=TENANT_PKEY))),))

    (made,) = (op for op in node.kernel.log if isinstance(op, AddChild))
    assert made.link == IpoibConfig(0x8002)


def test_pkey_is_resolved_by_the_published_name_without_an_rdma_device(node: Node) -> None:
    node.kernel.rdma.remove("mlx5_ib0")
    node.kernel.rdma.pkeys = {}

    with pytest.raises(RefusedError, match="mlx5_ib0 port 1"):
        node.attach((claim(DATA, given(IB, child_config())),))


def test_child_in_exclusive_mode_has_no_device_files_and_a_warning(node: Node) -> None:
    node.kernel.rdma.mode = RdmaMode.EXCLUSIVE

    (record,) = node.attach((claim(DATA, given(IB, child_config())),))

    assert record.devices[0].char_devices == ()
    assert record.devices[0].warnings == (IP_ONLY_WARNING,)
    assert "mlx5_ib0" in node.rdma()


def test_required_rdma_mode_is_checked_for_a_child(node: Node) -> None:
    node.kernel.rdma.mode = RdmaMode.EXCLUSIVE
    node.options = RdmaOptions(mode=RdmaMode.SHARED)
    node.restart()

    with pytest.raises(RefusedError, match="--rdma-mode is shared, but the kernel is in exclusive"):
        node.attach((claim(DATA, given(IB, child_config())),))

    assert node.kernel.log == []


def test_several_pods_get_children_of_one_device(node: Node) -> None:
    other = node.add_netns("/run/netns/2")
    first = claim(DATA, shared(child_config(), "one"))
    second = claim(STORAGE, shared(child_config("net2", None, IpoibMode.CONNECTED), "two"))

    (one,) = node.attach((first,))
    assert one.devices[0].warnings == (SHARED_MODE_WARNING,), "it has an address of its own"
    node.kernel.log.clear()
    (two,) = node.executor.attach(OTHER_POD, other, (second,), {})
    (made,) = (op for op in node.kernel.log if isinstance(op, AddChild))
    assert made.link == IpoibConfig(None, IpoibMode.CONNECTED)
    detach(node, one)

    assert node.kernel.state("net1", node.netns) is None
    assert addresses(node, "net2", other) == ["192.168.0.5/24"]
    assert detach(node, two).phase is Phase.RESTORED


def two_shares() -> Allocation:
    """Return a claim that has two shares of the device, a partition's child on each."""
    return claim(
        DATA,
        replace(shared(child_config(), "5e0f"), request="one"),
        replace(shared(child_config("net2", None), "8d7e"), request="two"),
    )


def aliases(node: Node, netns: NetnsId | None = None) -> list[str]:
    """Return the aliases of the InfiniBand links in the namespace."""
    return sorted(e.alias for e in node.kernel.space(netns).plain() if e.kind == "ipoib")


def test_two_shares_of_one_claim_get_one_child_each(node: Node) -> None:
    allocation = two_shares()

    (record,) = node.attach((allocation,))

    made = {
        op.name: op.link.pkey
        for op in node.kernel.log
        if isinstance(op, AddChild) and isinstance(op.link, IpoibConfig)
    }
    assert sorted(made.values(), key=str) == [0x8001, None]
    assert {node.in_pod(name).link.alias for name in ("net1", "net2")} == {
        "dra.net/claim-data/pci-0000-0a-00-0/5e0f",
        "dra.net/claim-data/pci-0000-0a-00-0/8d7e",
    }
    assert node.executor.verify(record, allocation) == record
    assert detach(node, record).phase is Phase.RESTORED
    assert (aliases(node), aliases(node, node.netns)) == ([""], [])


def test_two_shares_of_one_claim_keep_their_own_records(node: Node) -> None:
    node.kernel.fail_on(SetUp, KeyboardInterrupt("gone"), times=1)
    with pytest.raises(KeyboardInterrupt):
        node.attach((two_shares(),))
    first = node.journal.records[DATA]
    node.restart()

    (record,) = node.attach((two_shares(),))

    recorded = [(device.request, device.share_id, device.child) for device in record.devices]
    assert recorded == [(device.request, device.share_id, device.child) for device in first.devices]
    assert addresses(node, "net1", node.netns) == addresses(node, "net2", node.netns)
    assert len(aliases(node, node.netns)) == 2
    assert aliases(node) == [""]


def test_child_of_a_share_is_found_by_the_recorded_alias(node: Node) -> None:
    """Earlier versions left the share out of it."""
    allocation = claim(DATA, shared(child_config(), "5e0f"))
    (record,) = node.attach((allocation,))
    alias = "dra.net/claim-data/pci-0000-0a-00-0"
    (device,) = record.devices
    node.journal.put(replace(record, devices=(replace(device, child=alias),)))
    link = node.kernel.space(node.netns).named("arrange", "net1")
    link.link = replace(link.link, alias=alias)

    (again,) = node.attach((allocation,))

    assert again.devices[0].child == alias
    assert aliases(node, node.netns) == [alias]
    assert detach(node, again).phase is Phase.RESTORED
    assert aliases(node, node.netns) == []


def test_undeleted_child_is_the_only_device_of_the_claim_not_returned(node: Node) -> None:
    (attachment,) = node.attach((claim(DATA, two_shares().devices[0]),))
    first = len(node.kernel.log)
    detach(node, attachment)
    node.kernel.fail_at(first, EBUSY)  # the second child: the rule of the first is still there
    node.kernel.fail_on(DelLink, EBUSY)

    with pytest.raises(AttachError):
        node.attach((two_shares(),))

    assert [device.restored for device in node.journal.records[DATA].devices] == [False, True]


@pytest.mark.parametrize(
    ("pkey", "message"),
    [
        pytest.param(0x8005, "pkey 0x8005 is not in the table of mlx5_ib0 port 1", id="not there"),
        pytest.param(0, None, id="the tenant's"),
    ],
)
def test_pkey_is_checked_against_the_table_of_the_port(
    node: Node, pkey: int, message: str | None
) -> None:
    claims = (claim(DATA, given(IB, child_config(pkey=pkey))),)
    if message is None:
        node.attach(claims)
        made = [op.link for op in node.kernel.log if isinstance(op, AddChild)]
        assert made == [IpoibConfig(0x8001)]
        return

    with pytest.raises(RefusedError, match=message):
        node.attach(claims)
    assert node.kernel.log == []


def test_ethernet_parent_is_refused_with_the_remedy(node: Node) -> None:
    node.kernel.remove_link("ib0")
    node.kernel.add_link("ib0", parent=PARENT)

    with pytest.raises(RefusedError, match="needs an InfiniBand interface, and ib0 is not one; r"):
        node.attach((claim(DATA, given(IB, child_config())),))


def test_missing_parent_is_refused_with_the_remedy(node: Node) -> None:
    node.kernel.remove_link("ib0")

    with pytest.raises(RefusedError, match="is not on the host; load ib_ipoib"):
        node.attach((claim(DATA, given(IB, child_config())),))


@pytest.mark.parametrize("kind", [AddChild, MoveLink, AddAddress, SetUp])
@pytest.mark.parametrize("done", [False, True], ids=["refused", "done, then an error"])
def test_failed_operation_leaves_no_child(
    node: Node,
    kind: type[Op],
    done: bool,  # noqa: FBT001
) -> None:
    before = set(node.kernel.space().plain())
    node.kernel.fail_on(kind, EBUSY, times=1, done=done)

    with pytest.raises(AttachError):
        node.attach((claim(DATA, given(IB, child_config())),))

    assert set(node.kernel.space().plain()) == before
    assert node.kernel.state("net1", node.netns) is None
    assert node.journal.phases() == {DATA: Phase.FAILED}
    node.attach((claim(DATA, given(IB, child_config())),))
    assert addresses(node, "net1", node.netns) == ["192.168.0.5/24"]


def test_child_returned_from_a_dead_namespace_is_deleted(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(IB, child_config())),))
    node.kernel.destroy_netns(node.netns)
    assert node.kernel.state("net1") is not None

    assert detach(node, record, netns_exists=False).phase is Phase.RESTORED

    assert node.kernel.state("net1") is None


def test_child_returned_late_is_an_orphan_and_other_links_are_not(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(IB, child_config())),))
    alias = record.devices[0].child
    node.kernel.destroy_netns(node.netns)

    assert remove_orphans(node.kernel, lambda: {alias}) == ()
    assert node.kernel.state("net1") is not None
    assert remove_orphans(node.kernel, lambda: ()) == (alias,)

    assert node.kernel.state("net1") is None
    assert node.kernel.state("ib0") is not None
    assert node.kernel.open_sessions == 0


def test_child_of_a_crashed_attach_is_used_by_the_next_attach(
    node: Node,
) -> None:
    claims = (claim(DATA, given(IB, child_config())),)
    node.kernel.fail_on(AddChild, KeyboardInterrupt("gone"), times=1, done=True)
    with pytest.raises(KeyboardInterrupt):
        node.attach(claims)
    record = node.journal.records[DATA]
    assert (record.phase, record.devices[0].is_unrestored) == (Phase.INTENT, True)
    node.restart()

    node.executor.attach(POD, node.netns, claims, dict(node.journal.records))

    assert addresses(node, "net1", node.netns) == ["192.168.0.5/24"]
    assert len([op for op in node.kernel.log if isinstance(op, AddChild)]) == 0


def test_orphan_scan_is_due_while_children_exist_and_otherwise_periodically(node: Node) -> None:
    (record,) = node.attach((claim(DATA, given(IB, child_config())),))
    now = 1000.0
    schedule = OrphanSchedule(lambda: now)

    def due() -> bool:
        return schedule.is_due(())

    assert due(), "an earlier instance may have left some"
    schedule.note_scan()
    assert not due()
    now += PERIOD_S
    assert due()
    schedule.note_scan()
    assert schedule.is_due((record,))
    now += CLOSE_WATCH_S - 1.0
    schedule.note_scan()
    assert due(), "the pod is gone, the link may return"
    now += 1.0
    assert not due()
