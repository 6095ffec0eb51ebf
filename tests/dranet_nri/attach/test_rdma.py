"""RDMA devices of a pod: moved with their IPoIB links, shared, or refused."""

from dataclasses import replace
from errno import EBUSY

import pytest

from dranet_nri.attach.rdma import NO_ADDRESS_WARNING, RdmaOptions
from dranet_nri.config import SHARED_MODE_WARNING
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    CharDevice,
    CharKind,
    InterfaceConfig,
    IpoibState,
    Link,
    NetworkConfig,
    Phase,
    RdmaConfig,
    RdmaMode,
)
from dranet_nri.plan.ops import MoveLink, MoveRdma, RenameLink, RenameRdma
from tests.dranet_nri.attach.execution.node import (
    DATA,
    GID_MAC,
    IB_MODE,
    RDMA_ONLY,
    FabricNode,
    Node,
    attached,
    failure_of,
    given,
    kinds_of,
    pci,
    refusal,
)
from tests.fakes.rdma import RDMA_CM

pytestmark = pytest.mark.process


NAMED = NetworkConfig(rdma=RdmaConfig(name="hca0"))


@pytest.fixture
def node() -> Node:
    """Return a node whose RDMA devices belong to one namespace each."""
    return Node()


@pytest.fixture
def shared(node: Node) -> Node:
    """Return a node whose namespaces share all RDMA devices."""
    node.kernel.rdma.mode = RdmaMode.SHARED
    return node


# --------------------------------------------------------------------------- modes


@pytest.mark.parametrize(
    ("required", "mode", "expected"),
    [
        (RdmaMode.SHARED, RdmaMode.EXCLUSIVE, "is shared, but the kernel is in exclusive mode"),
        (RdmaMode.EXCLUSIVE, RdmaMode.SHARED, "is exclusive, but the kernel is in shared mode"),
    ],
)
def test_rdma_mode_other_than_the_required_one_is_refused_with_the_remedy(
    node: Node, required: RdmaMode, mode: RdmaMode, expected: str
) -> None:
    node.kernel.rdma.mode = mode
    node.options = RdmaOptions(required)
    node.restart()

    message = refusal(node, given(pci(2)))

    assert f"device nic-2: --rdma-mode {expected}" in message
    assert f"netns_mode={int(required is RdmaMode.SHARED)}'" in message
    assert "--rdma-mode=auto" in message


@pytest.mark.parametrize("mode", RdmaMode)
def test_required_rdma_mode_is_accepted(node: Node, mode: RdmaMode) -> None:
    node.kernel.rdma.mode = mode
    node.options = RdmaOptions(mode)
    node.restart()

    assert attached(node, given(pci(2))).char_devices


def test_kernel_without_rdma_is_refused(node: Node) -> None:
    node.kernel.rdma.mode = None

    assert refusal(node, given(pci(2))) == (
        "device nic-2: the kernel no longer has RDMA; load ib_core"
    )


def test_device_without_rdma_does_not_require_rdma(node: Node) -> None:
    node.kernel.rdma.mode = None

    record = attached(node, given(replace(pci(2), rdma_devices=())))

    assert (record.rdma, record.char_devices, record.warnings) == ((), (), ())


def test_rdma_mode_is_read_for_every_pod(node: Node) -> None:
    node.attach()
    node.detach()
    node.kernel.rdma.mode = RdmaMode.SHARED

    node.attach()

    assert node.journal.records[DATA].devices[0].rdma == ()


# --------------------------------------------------------------------------- shared


def test_shared_rdma_device_stays_on_the_host_and_its_files_are_given_with_a_warning(
    shared: Node,
) -> None:
    record = attached(shared, given(pci(2)))

    assert kinds_of(shared.kernel.log) == [MoveLink], "the net device moves as ever"
    assert (record.rdma, record.rdma_name) == ((), "")
    assert record.char_devices == (RDMA_CM, CharDevice("/dev/infiniband/uverbs2", 231, 194))
    assert record.warnings == (SHARED_MODE_WARNING,)
    shared.detach()
    shared.assert_restored()


def test_shared_rdma_device_without_an_interface_moves_nothing(shared: Node) -> None:
    record = attached(shared, given(RDMA_ONLY))

    assert shared.kernel.log == []
    assert record.char_devices == (RDMA_CM, CharDevice("/dev/infiniband/uverbs0", 231, 192))
    assert not record.is_unrestored
    shared.detach()
    assert shared.journal.phases() == {DATA: Phase.RESTORED}


def test_rdma_name_of_a_shared_device_is_refused(shared: Node) -> None:
    assert 'rdma.name: "hca0": not possible while' in refusal(shared, given(pci(2), NAMED))


def test_share_of_a_device_moves_nothing(shared: Node) -> None:
    record = attached(shared, replace(given(pci(2)), share_id="5e0f"))

    assert shared.kernel.log == []
    assert (record.share_id, record.pod_name, record.snapshot) == ("5e0f", "", None)
    assert record.char_devices == (RDMA_CM, CharDevice("/dev/infiniband/uverbs2", 231, 194))


@pytest.mark.parametrize(
    ("kinds", "warned"),
    [(None, True), ((CharKind.RDMA_CM,), True), ((CharKind.UVERBS,), False)],
    ids=["default", "requested", "disabled"],
)
def test_share_without_an_interface_warns_about_rdma_cm(
    shared: Node, kinds: tuple[CharKind, ...] | None, *, warned: bool
) -> None:
    config = NetworkConfig(rdma=RdmaConfig(char_devices=kinds))

    record = attached(shared, replace(given(pci(2), config), share_id="5e0f"))

    assert (NO_ADDRESS_WARNING in record.warnings) == warned
    assert SHARED_MODE_WARNING in record.warnings


def test_interface_parameters_of_a_share_are_refused(shared: Node) -> None:
    config = NetworkConfig(InterfaceConfig(mtu=4000))

    message = refusal(shared, replace(given(pci(2), config), share_id="5e0f"))

    assert "device nic-2: interface.mtu: 4000: not possible on a share of a device" in message
    assert attached(shared, given(pci(2), config)).mtu == 4000


def test_share_of_a_device_without_an_interface_has_no_address_warning(shared: Node) -> None:
    record = attached(shared, replace(given(RDMA_ONLY), share_id="5e0f"))

    assert record.warnings == (SHARED_MODE_WARNING,)


def test_share_in_exclusive_mode_is_refused(node: Node) -> None:
    message = refusal(node, replace(given(RDMA_ONLY), share_id="5e0f"))

    assert "device efa is shared by several pods" in message
    assert "netns_mode=1" in message


def test_device_with_a_sub_device_is_refused_until_the_sub_device_is_deleted(node: Node) -> None:
    devices = node.kernel.rdma.devices
    whole = next(device for device in devices if device.link.name == "mlx5_2")
    link = replace(whole.link, index=99, name="smi0")
    devices.append(replace(whole, link=link, part_of="mlx5_2", slot=99))

    with pytest.raises(RefusedError, match=r"hang .* sub-device smi0; delete .*rdma dev del smi0"):
        attached(node, given(pci(2)))
    devices.pop()
    assert [rdma.name for rdma in attached(node, given(pci(2))).rdma] == ["mlx5_2"]


def test_sub_device_is_ignored_in_shared_mode(shared: Node) -> None:
    devices = shared.kernel.rdma.devices
    whole = next(device for device in devices if device.link.name == "mlx5_2")
    link = replace(whole.link, index=99, name="smi0")
    devices.append(replace(whole, link=link, part_of="mlx5_2", slot=99))

    assert attached(shared, given(pci(2))).shared_rdma == ("mlx5_2",)


# --------------------------------------------------------------------------- IP over InfiniBand


@pytest.fixture
def fabric() -> Node:
    """Return a node with an InfiniBand device, on which the host has a child."""
    node = FabricNode()
    parent = node.kernel.state("ibs5")
    assert parent is not None
    child = Link(0, "ibs5.8001", kind="ipoib", arphrd=32, lower=parent.link.index, up=True)
    node.kernel.add_link("ibs5.8001", link=child)
    return node


def test_device_with_an_ipoib_child_on_the_host_is_refused_with_the_remedy(
    fabric: Node,
) -> None:
    message = refusal(fabric, fabric.claims[0].devices[0])

    assert (
        "device nic-5: the host loses ibs5.8001 when RDMA device mlx5_5 moves into a pod" in message
    )
    assert "ip link delete" in message
    assert "'options ib_core netns_mode=1'" in message
    assert fabric.kernel.state("ibs5.8001") is not None

    fabric.kernel.remove_link("ibs5.8001")
    assert attached(fabric, fabric.claims[0].devices[0]).rdma


def test_ipoib_child_on_the_host_is_ignored_in_shared_mode(fabric: Node) -> None:
    fabric.kernel.rdma.mode = RdmaMode.SHARED

    attached(fabric, given(fabric.claims[0].devices[0].device))

    assert fabric.kernel.state("ibs5.8001") is not None


def test_ipoib_child_is_kept_when_the_device_has_no_rdma(fabric: Node) -> None:
    device = replace(fabric.claims[0].devices[0].device, rdma_devices=())

    attached(fabric, given(device))

    assert fabric.kernel.state("ibs5.8001") is not None


@pytest.mark.parametrize("names", [("ib9",), ("ib9", "ib9p1")], ids=["one port", "two ports"])
def test_interface_created_after_prepare_is_refused_and_kept(
    node: Node, names: tuple[str, ...]
) -> None:
    for name in names:
        link = Link(0, name, kind="ipoib", arphrd=ARPHRD_INFINIBAND, up=True)
        node.kernel.add_link(name, parent=RDMA_ONLY.key.parent, link=link)

    message = refusal(node, given(RDMA_ONLY))

    assert (
        f"would destroy interface {', '.join(names)}, which is not part of the claimed device"
        in message
    )
    assert "options ib_core netns_mode=1" in message
    assert "appeared after the claim was prepared (ib_ipoib was loaded), delete the pod" in message
    assert all(node.kernel.state(name) for name in names)

    node.kernel.rdma.mode = RdmaMode.SHARED
    attached(node, given(RDMA_ONLY))
    assert all(node.kernel.state(name) for name in names)


def test_ethernet_interface_is_ignored_for_an_rdma_only_device(node: Node) -> None:
    node.kernel.add_link("eth9", parent=RDMA_ONLY.key.parent)

    assert attached(node, given(RDMA_ONLY)).rdma


def test_ipoib_link_is_read_again_after_the_move_of_its_rdma_device() -> None:
    node = FabricNode()
    before = node.kernel.state("ibs5")
    assert before is not None

    record = attached(node, *node.claims[0].devices)

    assert kinds_of(node.kernel.log) == [MoveRdma, RenameRdma, RenameLink]
    assert record.snapshot is not None
    assert record.snapshot.addresses == before.addresses, "what the host had, not the new link"
    log = len(node.kernel.log)
    node.detach()
    assert kinds_of(node.kernel.log[log:]) == [RenameRdma, MoveRdma, RenameLink]
    node.assert_restored()


def test_ipoib_link_is_found_in_the_pod_without_parent_information() -> None:
    node = FabricNode()
    node.kernel.reports_parents = False
    node.kernel.add_link("ib0", node.netns, kind="ipoib", parent="0000:66:00.0")

    attached(node, *node.claims[0].devices)

    assert kinds_of(node.kernel.log) == [MoveRdma, RenameRdma, RenameLink]
    assert node.in_pod("net1").link.ipoib == IB_MODE
    node.detach()
    node.assert_restored()


def test_ipoib_link_has_the_mtu_of_the_claim_and_the_mode_of_the_host() -> None:
    node = FabricNode()
    given_mtu = InterfaceConfig(name="net1", mtu=9000)

    record = attached(node, given(node.claims[0].devices[0].device, NetworkConfig(given_mtu)))

    assert node.in_pod("net1").link.ipoib == IB_MODE
    assert (record.mac, record.mtu) == (GID_MAC, 9000)


def test_record_has_the_mtu_that_the_kernel_gave_the_ipoib_link() -> None:
    node = FabricNode()
    entry = node.kernel.space().named("arrange", "ibs5")
    entry.link = replace(entry.link, ipoib=None)  # so that the MTU of the host is not set

    record = attached(node, *node.claims[0].devices)

    assert record.snapshot is not None
    assert (record.snapshot.link.mtu, record.mtu) == (65520, 2044)


def test_mtu_above_the_limit_of_the_ipoib_mode_is_refused_before_any_move() -> None:
    node = FabricNode()
    entry = node.kernel.space().named("arrange", "ibs5")
    entry.link = replace(entry.link, ipoib=IpoibState(connected=False), mtu=2044)
    node.start = node.host()
    given_mtu = NetworkConfig(InterfaceConfig(mtu=9000))

    message = refusal(node, given(node.claims[0].devices[0].device, given_mtu))

    assert "interface.mtu 9000 is above what device ibs5 can do in datagram mode" in message
    assert "put ibs5 into connected mode on the host" in message


def test_ipoib_link_is_restored_after_the_second_move_attempt() -> None:
    node = FabricNode()
    attached(node, *node.claims[0].devices)
    node.kernel.fail_on(MoveRdma, EBUSY, times=1)

    node.detach()

    assert node.journal.phases() == {DATA: Phase.RESTORED}
    assert "move RDMA device mlx5_5 from pod to host: EBUSY" in failure_of(node).message
    node.assert_restored()


def test_move_of_an_rdma_device_is_tried_twice_in_a_pass() -> None:
    node = FabricNode()
    attached(node, *node.claims[0].devices)
    node.kernel.fail_on(MoveRdma, EBUSY, times=2)

    node.detach()
    assert node.journal.phases() == {DATA: Phase.DETACHING}
    assert node.rdma(node.netns) == {"mlx5_5"}
    node.detach()

    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()
