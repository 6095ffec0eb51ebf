"""The gate and the executor: closed before a NIC leaves, or reported as open."""

import asyncio
from collections.abc import Iterator
from errno import EBUSY, ENOSPC, EROFS
from pathlib import Path

import pytest

from dranet_nri import cli
from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.execution.restorer import Applied
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.errors import RefusedError
from dranet_nri.model import DETACH_FAILED, GATE_CLOSED, Allocation, Attachment, Phase
from dranet_nri.plan.ops import MoveLink
from tests.fakes.node import LATER, FullFs, Node

pytestmark = pytest.mark.process


class WatchingExecutor(PlanExecutor):
    """An executor that records the state of the gate when a detach begins."""

    def __init__(self, node: Node, claim: Allocation) -> None:
        super().__init__(node.kernel, node.attachments, node.clock, RdmaOptions())
        self.open: list[bool] = []
        self._node = node
        self._claim = claim

    def detach(
        self, attachment: Attachment, applied: Applied | None = None, *, netns_exists: bool
    ) -> Attachment:
        self.open.append(self._node.gate_open(self._claim))
        return super().detach(attachment, applied, netns_exists=netns_exists)


def test_gate_is_closed_before_the_nic_leaves_its_pod(tmp_path: Path) -> None:
    node = Node(tmp_path)
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    watching = WatchingExecutor(node, claim)
    node.plugin.attacher.executor = watching

    node.stop_pod(pod)

    assert watching.open == [False]
    assert node.is_on_host(1)
    node.close()


class WatchedFs(FullFs):
    """A file system that records the written specs."""

    def __init__(self) -> None:
        """Begin."""
        self.specs: list[str] = []

    def write(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        """See Fs."""
        if path.parent.name == "cdi":
            self.specs.append(data.decode())
        super().write(path, data, mode, durable=durable)


@pytest.mark.parametrize("replaced", [False, True], ids=["stopped", "replaced"])
def test_gate_is_not_opened_for_a_sandbox_that_ended_during_its_attach(
    tmp_path: Path, *, replaced: bool
) -> None:
    disk = WatchedFs()
    node = Node(tmp_path, disk=disk)
    old, new = node.pod("web", "old"), node.pod("web", "new")
    claim = node.allocate(old, 1)
    paused = node.pause()

    async def work() -> None:
        run = asyncio.create_task(node.plugin.run_pod_sandbox(old, LATER))
        await asyncio.to_thread(paused.begun.wait)
        if replaced:
            await node.plugin.synchronize((new,))
        stop = asyncio.create_task(node.plugin.stop_pod_sandbox(old))
        await asyncio.sleep(0)
        paused.go.set()
        await asyncio.gather(run, stop)
        while await node.plugin.reconcile():
            pass

    node.run(work)

    assert node.in_pod(1, new) is replaced
    assert node.is_on_host(1) is not replaced
    assert node.gate_open(claim) is replaced
    assert [new.netns_path in spec for spec in disk.specs] == [True] * replaced
    node.close()


class StubbornFs(FullFs):
    """A file system from which specs cannot be removed, or on which there is no room for them.

    Attributes:
        read_only, without_room: whether that is so now.
    """

    read_only: bool = False
    without_room: bool = False

    def write(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        """See Fs."""
        if self.without_room and path.parent.name == "cdi":
            raise OSError(ENOSPC, "No space left on device", str(path))
        super().write(path, data, mode, durable=durable)

    def unlink(self, path: Path) -> None:
        """See Fs."""
        if self.read_only and path.parent.name == "cdi":
            raise OSError(EROFS, "Read-only file system", str(path))
        super().unlink(path)


@pytest.fixture
def disk() -> StubbornFs:
    """Return the disk of the node."""
    return StubbornFs()


@pytest.fixture
def node(tmp_path: Path, disk: StubbornFs) -> Iterator[Node]:
    """Return a node with two NICs."""
    made = Node(tmp_path, disk=disk)
    yield made
    made.close()


def reason(node: Node, claim: Allocation) -> str:
    """Return the failure in the record of the claim."""
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    return record.failure.message if record.failure else ""


def test_gate_that_cannot_be_closed_does_not_prevent_the_detach(
    node: Node, disk: StubbornFs, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    disk.read_only = True

    node.stop_pod(pod)

    assert node.is_on_host(1)
    assert node.phase(claim) is Phase.RESTORED
    assert node.reconcile(), "the gate is still to be closed"
    assert reason(node, claim).startswith("its gate cannot be closed: OSError: [Errno 30]")
    directories = ["--allocations-dir", str(node.root / "allocations"), "--run-dir"]
    capsys.readouterr()
    cli.main(["status", *directories, str(node.root / "run")])
    assert "its gate cannot be closed" in capsys.readouterr().out
    with pytest.raises(OSError, match="Read-only file system"):
        node.create(pod)


def test_gate_that_cannot_be_opened_is_reported_until_it_is_open(
    node: Node, disk: StubbornFs, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    disk.without_room = True

    node.run_pod(pod)

    assert node.in_pod(1, pod)
    assert not node.gate_open(claim)
    assert node.reconcile(), "the gate is still to be opened"
    assert reason(node, claim).startswith("its gate cannot be opened: OSError: [Errno 28]")
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert (record.phase, record.failure.reason) == (Phase.ATTACHED, GATE_CLOSED)
    directories = ["--allocations-dir", str(node.root / "allocations"), "--run-dir"]
    capsys.readouterr()
    assert cli.main(["status", *directories, str(node.root / "run")]) == 1
    assert "its gate cannot be opened" in capsys.readouterr().out

    disk.without_room = False

    assert not node.reconcile()
    assert node.gate_open(claim)
    assert reason(node, claim) == ""


def test_gate_left_open_is_closed_at_the_next_possible_pass(node: Node, disk: StubbornFs) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    disk.read_only = True
    node.stop_pod(pod)
    assert node.gate_open(claim)

    disk.read_only = False

    assert not node.reconcile()
    assert not node.gate_open(claim)
    assert reason(node, claim) == ""


def test_nic_is_not_attached_to_a_new_sandbox_while_the_old_gate_is_open(
    node: Node, disk: StubbornFs
) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    claim = node.allocate(old, 1)
    node.run_pod(old)
    disk.read_only = True
    node.stop_pod(old)

    with pytest.raises(OSError, match="Read-only file system"):
        node.run_pod(new)

    assert node.is_on_host(1)
    assert "Read-only file system" in reason(node, claim)
    disk.read_only = False
    node.reconcile()
    assert node.in_pod(1, new)
    assert node.gate_open(claim)


def test_failed_detach_is_reported_together_with_an_unclosed_gate(
    node: Node, disk: StubbornFs
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    disk.read_only = True
    node.kernel.fail_on(MoveLink, EBUSY)

    node.stop_pod(pod)
    node.reconcile()

    reported = reason(node, claim)
    assert reported.count("its gate cannot be closed") == reported.count("EBUSY") == 1
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert (record.failure.reason, record.failure.count) == (DETACH_FAILED, 2)
    disk.read_only = False
    node.reconcile()
    assert "its gate" not in reason(node, claim)
    assert "EBUSY" in reason(node, claim)


def test_lost_device_is_recorded_although_the_gate_cannot_be_closed(
    node: Node, disk: StubbornFs
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    node.kernel.remove_link("eth1", node.netns(pod))
    disk.read_only = True

    node.synchronize(pod)

    assert node.phase(claim) is not Phase.ATTACHED
    assert "its gate cannot be closed" in reason(node, claim)
    with pytest.raises((OSError, RefusedError)):
        node.create(pod)
