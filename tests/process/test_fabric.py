"""RDMA devices of a pod: moved or shared, refused, made anew, and the files of containers."""

from dataclasses import replace
from errno import EBUSY

import pytest

from dranet_nri.config import SHARED_MODE_WARNING
from dranet_nri.errors import AttachError, RefusedError
from dranet_nri.fabric import NO_ADDRESS_WARNING, RdmaOptions
from dranet_nri.model import (
    AllocatedDevice,
    AttachedDevice,
    CharDevice,
    CharKind,
    Link,
    NetworkConfig,
    Phase,
    RdmaConfig,
    RdmaMode,
)
from dranet_nri.plan.ops import AddAddress, MoveLink, MoveRdma, Op, RenameLink, RenameRdma
from tests.fakes.rdma import RDMA_CM
from tests.process.executor_node import (
    DATA,
    DUAL,
    RDMA_ONLY,
    Crash,
    FabricNode,
    Node,
    claim,
    failure_of,
    given,
    pci,
)

GUID = "0c42:a103:0065:5a1e"
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
    node.assert_home()
    return str(caught.value)


def reload_driver(node: Node, *names: str, guid: str = "") -> None:
    """Take the RDMA devices of mlx5_2's function away and make them anew, on the host."""
    for name in names:
        node.kernel.rdma.remove(name)
    for name in names:
        node.kernel.add_rdma(name, parent="0000:02:00.0", guid=guid)


def kinds_of(ops: list[Op]) -> list[type[Op]]:
    """Return what was done to RDMA devices, and moves and names of net devices."""
    return [type(op) for op in ops if isinstance(op, MoveRdma | RenameRdma | MoveLink | RenameLink)]


# --------------------------------------------------------------------------- modes


@pytest.mark.parametrize(
    ("demanded", "mode", "words"),
    [
        (RdmaMode.SHARED, RdmaMode.EXCLUSIVE, "is shared, but the kernel is in exclusive mode"),
        (RdmaMode.EXCLUSIVE, RdmaMode.SHARED, "is exclusive, but the kernel is in shared mode"),
    ],
)
def test_a_machine_in_another_mode_than_demanded_is_refused_with_the_remedy(
    node: Node, demanded: RdmaMode, mode: RdmaMode, words: str
) -> None:
    node.kernel.rdma.mode = mode
    node.options = RdmaOptions(demanded)
    node.restart()

    said = refusal(node, given(pci(2)))

    assert f"device nic-2: --rdma-mode {words}" in said
    assert f"netns_mode={int(demanded is RdmaMode.SHARED)}'" in said
    assert "--rdma-mode=auto" in said


@pytest.mark.parametrize("mode", RdmaMode)
def test_a_machine_in_the_mode_that_is_demanded_is_used(node: Node, mode: RdmaMode) -> None:
    node.kernel.rdma.mode = mode
    node.options = RdmaOptions(mode)
    node.restart()

    assert attached(node, given(pci(2))).char_devices


def test_a_kernel_that_lost_rdma_is_refused(node: Node) -> None:
    node.kernel.rdma.mode = None

    assert refusal(node, given(pci(2))) == (
        "device nic-2: the kernel knows no RDMA any more; load ib_core"
    )


def test_a_device_without_rdma_asks_for_none(node: Node) -> None:
    node.kernel.rdma.mode = None

    record = attached(node, given(replace(pci(2), rdma_devices=())))

    assert (record.rdma, record.char_devices, record.warnings) == ((), (), ())


def test_the_mode_is_read_anew_for_every_pod(node: Node) -> None:
    node.attach()
    node.detach()
    node.kernel.rdma.mode = RdmaMode.SHARED

    node.attach()

    assert node.journal.records[DATA].devices[0].rdma == ()


# --------------------------------------------------------------------------- shared


def test_shared_devices_stay_and_their_files_go_with_a_warning(shared: Node) -> None:
    record = attached(shared, given(pci(2)))

    assert kinds_of(shared.kernel.log) == [MoveLink], "the net device moves as ever"
    assert (record.rdma, record.rdma_name) == ((), "")
    assert record.char_devices == (RDMA_CM, CharDevice("/dev/infiniband/uverbs2", 231, 194))
    assert record.warnings == (SHARED_MODE_WARNING,)
    shared.detach()
    shared.assert_home()


def test_a_shared_rdma_device_without_an_interface_moves_nothing(shared: Node) -> None:
    record = attached(shared, given(RDMA_ONLY))

    assert shared.kernel.log == []
    assert record.char_devices == (RDMA_CM, CharDevice("/dev/infiniband/uverbs0", 231, 192))
    assert not record.touched
    shared.detach()
    assert shared.journal.phases() == {DATA: Phase.HOME}


def test_a_name_for_a_shared_device_is_refused(shared: Node) -> None:
    assert 'rdma.name: "hca0": not possible while' in refusal(shared, given(pci(2), NAMED))


def test_a_share_of_a_device_keeps_all_of_it_on_the_host(shared: Node) -> None:
    record = attached(shared, replace(given(pci(2)), share_id="5e0f"))

    assert shared.kernel.log == []
    assert (record.share_id, record.pod_name, record.snapshot) == ("5e0f", "", None)
    assert record.char_devices == (RDMA_CM, CharDevice("/dev/infiniband/uverbs2", 231, 194))


@pytest.mark.parametrize(
    ("kinds", "warned"),
    [(None, True), ((CharKind.RDMA_CM,), True), ((CharKind.UVERBS,), False)],
    ids=["default", "asked for", "not wanted"],
)
def test_a_share_tells_that_rdma_cm_finds_nothing_where_no_interface_is(
    shared: Node, kinds: tuple[CharKind, ...] | None, *, warned: bool
) -> None:
    config = NetworkConfig(rdma=RdmaConfig(char_devices=kinds))

    record = attached(shared, replace(given(pci(2), config), share_id="5e0f"))

    assert (NO_ADDRESS_WARNING in record.warnings) == warned
    assert SHARED_MODE_WARNING in record.warnings


def test_a_share_of_what_has_no_interface_is_told_nothing_of_addresses(shared: Node) -> None:
    record = attached(shared, replace(given(RDMA_ONLY), share_id="5e0f"))

    assert record.warnings == (SHARED_MODE_WARNING,)


def test_a_share_is_refused_where_rdma_devices_belong_to_one_pod(node: Node) -> None:
    said = refusal(node, replace(given(RDMA_ONLY), share_id="5e0f"))

    assert "device efa is shared by several pods" in said
    assert "netns_mode=1" in said


# --------------------------------------------------------------------------- made anew


@pytest.mark.parametrize("mode", RdmaMode)
def test_a_device_that_its_driver_took_away_is_refused(node: Node, mode: RdmaMode) -> None:
    node.kernel.rdma.mode = mode
    node.kernel.rdma.remove("mlx5_2")
    node.rdma_at_start = node.rdma()

    said = refusal(node, given(pci(2)))

    assert "device nic-2: its RDMA device mlx5_2 is not on the host: its driver is being" in said
    assert "dranet-nri status" in said


def test_a_device_made_anew_between_two_attempts_is_the_one_that_moves(node: Node) -> None:
    node.kernel.fail_on(AddAddress, Crash(), times=1)
    with pytest.raises(Crash):
        attached(node, given(pci(2)))
    (before,) = node.journal.records[DATA].devices[0].rdma
    node.restart()
    reload_driver(node, "mlx5_2")

    (now,) = attached(node, given(pci(2))).rdma

    assert now.index != before.index
    assert node.rdma(node.netns) == {"mlx5_2"}
    node.detach()
    node.assert_home()


def test_of_two_devices_the_one_in_the_pod_is_not_forgotten_when_the_other_is_made_anew(
    node: Node,
) -> None:
    node.kernel.add_rdma("mlx5_20", parent="0000:02:00.0")
    node.rdma_at_start = node.rdma()
    node.kernel.fail_at(2, Crash())
    with pytest.raises(Crash):
        attached(node, given(DUAL))
    assert node.rdma(node.netns) == {"mlx5_2"}
    node.restart()
    reload_driver(node, "mlx5_20")

    attached(node, given(DUAL))

    assert node.rdma(node.netns) == {"mlx5_2", "mlx5_20"}
    node.detach()
    node.assert_home()


def test_a_device_made_anew_while_it_was_away_counts_as_home(node: Node) -> None:
    attached(node, given(pci(2)))
    reload_driver(node, "mlx5_2")

    node.detach()

    assert node.journal.phases() == {DATA: Phase.HOME}
    node.assert_home()


def test_a_device_that_was_taken_away_while_it_was_away_is_waited_for(node: Node) -> None:
    attached(node, given(pci(2)))
    node.kernel.rdma.remove("mlx5_2")

    node.detach()

    assert node.journal.phases() == {DATA: Phase.DETACHING}
    assert failure_of(node).message == "RDMA device mlx5_2 is gone: load its driver again"
    node.kernel.add_rdma("mlx5_2", parent="0000:02:00.0")
    node.detach()
    assert node.journal.phases() == {DATA: Phase.HOME}
    node.assert_home()


# --------------------------------------------------------------------------- names


def test_a_name_of_the_pods_own_is_taken_off_before_the_device_comes_home(node: Node) -> None:
    record = attached(node, given(pci(2), NAMED))

    assert node.rdma(node.netns) == {"hca0"}
    assert ([each.name for each in record.rdma], record.rdma_name) == (["mlx5_2"], "hca0")
    log = len(node.kernel.log)
    node.detach()
    assert kinds_of(node.kernel.log[log:])[:2] == [RenameRdma, MoveRdma]
    node.assert_home()


def test_a_name_that_was_taken_meanwhile_is_said_until_it_is_free(node: Node) -> None:
    attached(node, given(pci(2), NAMED))
    node.kernel.add_rdma("mlx5_2", parent="0000:44:00.0")

    node.detach()

    assert node.rdma() >= {"hca0", "mlx5_2"}, "it is on the host all the same"
    assert node.journal.phases() == {DATA: Phase.DETACHING}
    assert failure_of(node).message == (
        "RDMA device mlx5_2 is called hca0: its name is taken on the host"
    )
    node.kernel.rdma.remove("mlx5_2")
    node.detach()
    assert node.journal.phases() == {DATA: Phase.HOME}
    node.assert_home()


# --------------------------------------------------------------------------- namespaces that die


@pytest.mark.parametrize("make", [Node, FabricNode], ids=["ethernet", "fabric"])
def test_what_a_dying_namespace_holds_is_home_once_the_kernel_returned_it(
    make: type[Node],
) -> None:
    node = make()
    node.attach()
    node.kernel.remove_netns(node.netns)  # its cleanup waits: somebody still holds it

    node.detach(netns_alive=False)

    assert set(node.journal.phases().values()) == {Phase.DETACHING}
    assert all(record.failure is None for record in node.journal.records.values())

    node.kernel.release(node.netns)
    node.detach(netns_alive=False)

    assert set(node.journal.phases().values()) == {Phase.HOME}
    node.assert_home()


def test_a_device_that_does_not_move_home_keeps_its_record(node: Node) -> None:
    attached(node, given(RDMA_ONLY))
    node.kernel.fail_on(MoveRdma, EBUSY)

    node.detach()

    assert node.journal.phases() == {DATA: Phase.DETACHING}
    assert "move RDMA device mlx5_9 from pod to host: EBUSY" in failure_of(node).message
    node.restart()
    node.detach()
    assert node.journal.phases() == {DATA: Phase.HOME}
    node.assert_home()


def test_a_driver_that_cannot_move_its_device_says_so_before_the_nic_moved(node: Node) -> None:
    node.kernel.rdma.remove("mlx5_2")
    node.kernel.add_rdma("mlx5_2", parent="0000:02:00.0", movable=False)

    with pytest.raises(AttachError, match="move RDMA device mlx5_2 from host to pod") as caught:
        attached(node, given(pci(2)))

    assert "EOPNOTSUPP" in str(caught.value)
    assert node.kernel.log == []
    node.assert_home()


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


def test_a_device_whose_move_costs_the_host_a_child_is_refused_with_the_remedy(
    fabric: Node,
) -> None:
    said = refusal(fabric, fabric.claims[0].devices[0])

    assert "device nic-5: the host loses ibs5.8001 when RDMA device mlx5_5 moves into a pod" in said
    assert "ip link delete" in said
    assert "'options ib_core netns_mode=1'" in said
    assert fabric.kernel.state("ibs5.8001") is not None

    fabric.kernel.remove_link("ibs5.8001")
    assert attached(fabric, fabric.claims[0].devices[0]).rdma


def test_a_child_on_the_host_keeps_no_pod_from_a_device_that_is_shared(fabric: Node) -> None:
    fabric.kernel.rdma.mode = RdmaMode.SHARED

    attached(fabric, given(fabric.claims[0].devices[0].device))

    assert fabric.kernel.state("ibs5.8001") is not None


def test_a_device_without_rdma_of_its_own_leaves_the_child_where_it_is(fabric: Node) -> None:
    device = replace(fabric.claims[0].devices[0].device, rdma_devices=())

    attached(fabric, given(device))

    assert fabric.kernel.state("ibs5.8001") is not None


def test_an_ipoib_link_is_looked_at_anew_after_its_rdma_device_moved() -> None:
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
    node.assert_home()


def test_an_ipoib_link_is_restored_at_once_where_its_rdma_device_moves_at_the_second_try() -> None:
    node = FabricNode()
    attached(node, *node.claims[0].devices)
    node.kernel.fail_on(MoveRdma, EBUSY, times=1)

    node.detach()

    assert node.journal.phases() == {DATA: Phase.HOME}
    assert "move RDMA device mlx5_5 from pod to host: EBUSY" in failure_of(node).message
    node.assert_home()


def test_an_rdma_device_that_does_not_move_is_tried_twice_in_a_pass() -> None:
    node = FabricNode()
    attached(node, *node.claims[0].devices)
    node.kernel.fail_on(MoveRdma, EBUSY, times=2)

    node.detach()
    assert node.journal.phases() == {DATA: Phase.DETACHING}
    assert node.rdma(node.netns) == {"mlx5_5"}
    node.detach()

    assert node.journal.phases() == {DATA: Phase.HOME}
    node.assert_home()
