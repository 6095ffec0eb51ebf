"""Failures and crashes at every step of an attach: attach and detach still complete."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from errno import EBUSY, EINTR, EIO
from itertools import count

import pytest

from dranet_nri.errors import AttachError
from dranet_nri.model import Allocation, Phase, RdmaMode
from dranet_nri.plan.ops import AddAddress, AddRoute, MoveLink, MoveRdma
from dranet_nri.plan.refusals import ANY
from tests.dranet_nri.attach.execution.journal import Crash
from tests.dranet_nri.attach.execution.node import (
    DATA,
    STORAGE,
    ChildNode,
    FabricNode,
    Node,
    attached_ops,
    claim,
    detached_ops,
    failure_of,
    given,
    pci,
)
from tests.fakes.world import HOST_NETNS

pytestmark = pytest.mark.process


MAKES = {Node: "ethernet", FabricNode: "fabric", ChildNode: "children"}
SHAPES = pytest.mark.parametrize("make", MAKES, ids=MAKES.values())
OPS = {make: attached_ops(make) for make in MAKES}
OPS_HOME = {make: detached_ops(make) for make in MAKES}


@pytest.fixture
def node() -> Node:
    """Return a fresh node."""
    return Node()


# --------------------------------------------------------------------------- every failure


def failed_at(make: type[Node], n: int, *, done: bool) -> tuple[Node, AttachError | None]:
    """Return a node whose n-th operation failed, and the error, None if there was no n-th."""
    node = make()
    node.kernel.fail_at(n, EBUSY, done=done)
    try:
        node.attach()
    except AttachError as error:
        return node, error
    return node, None


@SHAPES
@pytest.mark.parametrize("done", [False, True], ids=["refused", "half done"])
def test_failed_operation_restores_every_device_on_the_host(
    make: type[Node], *, done: bool
) -> None:
    for n in range(1, OPS[make] + 1):
        node, error = failed_at(make, n, done=done)
        assert error is not None
        assert error.undo_failures == ()
        node.assert_restored()
        for uid in (DATA, STORAGE):
            record = node.journal.records[uid]
            assert record.phase is Phase.FAILED
            assert all(device.restored for device in record.devices)
            assert failure_of(node, uid).count == 1
            assert failure_of(node, uid).message == f"{error.step} failed: {error.cause}"
        node.attach()
        node.assert_attached()

    assert failed_at(make, OPS[make] + 1, done=done)[1] is None, "every operation failed in turn"


@SHAPES
def test_every_move_of_attach_undo_and_detach_has_short_grace_periods(make: type[Node]) -> None:
    node, _ = failed_at(make, OPS[make], done=False)
    node.attach()
    node.detach()

    moved = [op for op in node.kernel.log if isinstance(op, MoveLink | MoveRdma)]
    assert len(moved) >= (0 if make is ChildNode else 6)
    assert node.kernel.long_moves == []


def test_failed_undo_is_reported_and_a_later_detach_completes_it(node: Node) -> None:
    node.kernel.fail_on(AddRoute)

    with pytest.raises(AttachError, match=r"not undone: .*nic-1.*add route") as caught:
        node.attach()

    assert len(caught.value.undo_failures) == 1, "only the device whose route was lost"
    record = node.journal.records[DATA]
    assert [device.restored for device in record.devices] == [False, True]
    assert node.kernel.state("eth1") is not None, (
        "one failure must not prevent the restore of the rest"
    )

    node.restart()
    node.detach()

    node.assert_restored()
    assert node.journal.phases() == {DATA: Phase.RESTORED, STORAGE: Phase.RESTORED}


def test_undo_without_a_kernel_read_is_reported_and_a_later_detach_completes_it(node: Node) -> None:
    node.kernel.rdma.before_chars = node.kernel.fail_observe
    node.kernel.rdma.broken_chars = EIO

    with pytest.raises(AttachError) as caught:
        node.attach()

    assert caught.value.undo_failures == (f"dump links in host: EINTR (injected); {ANY[EINTR]}",)
    assert not node.journal.records[STORAGE].devices[0].restored, "the last one in is undone first"
    assert all(device.restored for device in node.journal.records[DATA].devices)
    node.restart()
    node.detach()
    node.assert_restored()


def test_unresolvable_device_files_undo_the_attach(node: Node) -> None:
    node.kernel.rdma.broken_chars = EIO

    with pytest.raises(AttachError, match="record the result failed: resolve character devices"):
        node.attach()

    node.assert_restored()
    assert node.journal.phases() == {DATA: Phase.FAILED, STORAGE: Phase.FAILED}


@SHAPES
def test_partial_attach_after_a_crash_is_undone_when_the_next_attempt_fails(
    make: type[Node],
) -> None:
    for n in range(1, OPS[make] + 1):
        node = make()
        node.kernel.fail_at(n, Crash(), done=True)
        with pytest.raises(Crash):
            node.attach()
        node.restart()
        node.kernel.rdma.broken_chars = EIO

        with pytest.raises(AttachError):
            node.attach()

        node.assert_restored()
        assert node.journal.phases() == {DATA: Phase.FAILED, STORAGE: Phase.FAILED}


def pod_that_runs(mode: RdmaMode) -> tuple[Node, tuple[Allocation, ...]]:
    """Return a node whose pod lost the RDMA device of one of its two NICs; it is back on the host.

    In shared mode the NIC went with it, as it does when the driver is reloaded.
    """
    node = Node()
    node.kernel.rdma.mode = mode
    claims = (claim(DATA, given(pci(1)), given(pci(2))),)
    (record,) = node.attach(claims)
    node.kernel.rdma.remove("mlx5_1")
    if mode is RdmaMode.SHARED:
        pod = node.kernel.space(node.netns)
        pod.drop(pod.named("take", "eth1"))
        node.kernel.add_link("eth1", parent="0000:01:00.0")
    node.kernel.add_rdma("mlx5_1", parent="0000:01:00.0")
    node.journal.put(replace(record, phase=Phase.INTENT))
    node.kernel.log.clear()
    return node, claims


@pytest.mark.parametrize("mode", [RdmaMode.EXCLUSIVE, RdmaMode.SHARED])
def test_failed_repair_of_a_running_pod_keeps_its_devices(mode: RdmaMode) -> None:
    whole, claims = pod_that_runs(mode)
    whole.attach(claims)
    for n in range(1, len(whole.kernel.log) + 1):
        node, claims = pod_that_runs(mode)
        for nth in (n, 1):
            node.kernel.fail_at(nth, EBUSY)
            with pytest.raises(AttachError):
                node.attach(claims)

        assert node.kernel.state("eth2", node.netns) == whole.kernel.state("eth2", node.netns)
        first, second = node.journal.records[DATA].devices
        assert first.restored is (node.kernel.state("eth1", node.netns) is None)
        assert not second.restored
        node.attach(claims)
        assert node.journal.phases() == {DATA: Phase.ATTACHED}
        assert node.rdma(node.netns) == whole.rdma(whole.netns)
        node.restart()
        node.detach()
        assert {*node.kernel.rdma.names(HOST_NETNS)} == {*whole.rdma_at_start}
        assert node.journal.phases() == {DATA: Phase.RESTORED}

    assert n > 0, "some operation failed"


# --------------------------------------------------------------------------- every crash

Fault = Callable[[Node, int], None]


def journal_fails(node: Node, n: int) -> None:
    node.journal.fails_at = n


def journal_crashes(node: Node, n: int) -> None:
    node.journal.fails_at, node.journal.error = n, Crash()


def crashes_before(node: Node, n: int) -> None:
    node.kernel.fail_at(n, Crash())


def crashes_after(node: Node, n: int) -> None:
    node.kernel.fail_at(n, Crash(), done=True)


FAULTS = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(journal_fails, id="a write fails"),
        pytest.param(journal_crashes, id="crash at a write"),
        pytest.param(crashes_before, id="crash before an operation"),
        pytest.param(crashes_after, id="crash after an operation"),
    ],
)


def stops(make: type[Node], fault: Fault) -> int:
    """Return at how many steps an attach of two claims can stop."""
    return 4 if fault in {journal_fails, journal_crashes} else OPS[make]


def stopped(make: type[Node], fault: Fault, n: int) -> Node | None:
    """Return a node whose attach stopped at the n-th step; None if it went through."""
    node = make()
    fault(node, n)
    try:
        node.attach()
    except (Crash, OSError):
        assert node.kernel.open_sessions == 0
        node.restart()
        return node
    return None


def stopped_nodes(make: type[Node], fault: Fault) -> Iterator[Node]:
    """Yield a node for each step at which an attach can stop."""
    for n in range(1, stops(make, fault) + 1):
        node = stopped(make, fault, n)
        assert node is not None
        yield node


@SHAPES
@FAULTS
def test_attach_after_a_stop_at_any_step_completes(make: type[Node], fault: Fault) -> None:
    for node in stopped_nodes(make, fault):
        node.attach()
        node.assert_attached()
        node.detach()
        node.assert_restored()

    assert stopped(make, fault, stops(make, fault) + 1) is None, "every step was stopped at"


@SHAPES
@FAULTS
def test_detach_after_a_stop_at_any_step_restores_everything(
    make: type[Node], fault: Fault
) -> None:
    for node in stopped_nodes(make, fault):
        node.detach()
        node.assert_restored()
        assert set(node.journal.phases().values()) <= {Phase.RESTORED}


@SHAPES
@FAULTS
def test_detach_after_a_stop_and_a_lost_namespace_restores_everything(
    make: type[Node], fault: Fault
) -> None:
    for node in stopped_nodes(make, fault):
        node.kernel.destroy_netns(node.netns)
        node.detach(netns_exists=False)
        node.assert_restored()
        assert set(node.journal.phases().values()) <= {Phase.RESTORED}


@SHAPES
@FAULTS
def test_next_sandbox_after_a_stop_and_a_lost_namespace_is_attached(
    make: type[Node], fault: Fault
) -> None:
    for node in stopped_nodes(make, fault):
        node.kernel.destroy_netns(node.netns)
        node.netns = node.add_netns("/run/netns/2")
        node.attach()
        node.assert_attached()
        node.detach()
        node.assert_restored()


@pytest.mark.parametrize("n", range(1, 4))
def test_unwritable_failure_record_leaves_a_state_that_a_detach_restores(n: int) -> None:
    node = Node()
    node.kernel.fail_on(AddAddress, times=1)
    node.journal.fails_at = n

    with pytest.raises(OSError, match="injected"):
        node.attach()

    node.restart()
    node.detach()
    node.assert_restored()


@SHAPES
def test_detach_after_a_crash_of_a_detach_completes(make: type[Node]) -> None:
    for n in count(1):
        node = make()
        node.attach()
        node.kernel.fail_at(n, Crash())
        try:
            node.detach()
        except Crash:
            node.restart()
        else:
            break
        node.detach()
        node.assert_restored()
        assert node.journal.phases() == {DATA: Phase.RESTORED, STORAGE: Phase.RESTORED}

    assert n > OPS_HOME[make] > 1, "the detach was stopped at every operation"


@SHAPES
@pytest.mark.parametrize("done", [False, True], ids=["refused", "half done"])
def test_failed_operation_of_a_detach_does_not_prevent_the_rest(
    make: type[Node], *, done: bool
) -> None:
    for n in count(1):
        node = make()
        node.attach()
        operations = len(node.kernel.log)
        node.kernel.fail_at(n, EBUSY, done=done)
        node.detach()
        if len(node.kernel.log) - operations + 1 < n:
            break
        returned = [
            device.restored for record in node.journal.records.values() for device in record.devices
        ]
        assert returned.count(False) <= 1
        node.detach()
        node.assert_restored()
        assert node.journal.phases() == {DATA: Phase.RESTORED, STORAGE: Phase.RESTORED}

    assert n > OPS_HOME[make] > 1, "every operation of the detach failed in turn"
