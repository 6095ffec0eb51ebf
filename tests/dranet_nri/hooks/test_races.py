"""Concurrent hooks, jobs and repairs, and two sandboxes of one pod."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import Container, NetnsId, Phase
from dranet_nri.plan.ops import MoveLink, Op
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.kernel import FakeKernel
from tests.fakes.node import LATER, Node

pytestmark = pytest.mark.process


__all__ = ["node"]


def test_stop_during_a_late_attach_restores_the_nic(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    paused = node.pause()

    async def work() -> None:
        await node.plugin.synchronize((pod,))
        repair = asyncio.create_task(node.plugin.reconcile())
        await asyncio.to_thread(paused.begun.wait)
        stop = asyncio.create_task(node.plugin.stop_pod_sandbox(pod))
        await asyncio.sleep(0)
        paused.go.set()
        await asyncio.gather(repair, stop)

    node.run(work)

    assert node.kernel.state("eth1") is not None
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.phase is Phase.RESTORED
    assert not node.gate.claims()
    assert not node.kernel.held


def test_container_that_joins_an_attach_gets_a_later_claim(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1, claim="first")
    paused = node.pause()

    async def work() -> None:
        run = asyncio.create_task(node.plugin.run_pod_sandbox(pod, LATER))
        await asyncio.to_thread(paused.begun.wait)
        node.allocate(pod, 2, claim="second")
        container = Container("c", pod.sandbox_id, "app")
        create = asyncio.create_task(node.plugin.create_container(pod, container, LATER))
        await asyncio.sleep(0)
        paused.go.set()
        await run
        edits = await create
        assert ("DRA_NET_SECOND_NIC2_IFNAMES", "eth2") in edits.env

    node.run(work)

    assert [record.phase for record in node.attachments.all()] == [Phase.ATTACHED] * 2


@pytest.mark.parametrize("gone", [True, False], ids=["namespace gone", "namespace left behind"])
def test_recreated_sandbox_gets_the_nic_during_the_attach_of_the_old_one(
    node: Node, *, gone: bool
) -> None:
    old, new = node.pod("web", "old"), node.pod("web", "new")
    claim = node.allocate(old, 1)
    paused = node.pause()

    async def work() -> None:
        run = asyncio.create_task(node.plugin.run_pod_sandbox(old, LATER))
        await asyncio.to_thread(paused.begun.wait)
        if gone:
            node.kernel.remove_netns(node.netns(old))
        await node.plugin.synchronize((new,))  # its hooks were missed
        paused.go.set()
        await asyncio.wait({run})
        while await node.plugin.reconcile():
            pass

    node.run(work)

    assert node.in_pod(1, new)
    assert node.gate_open(claim)
    assert node.kernel.held == {node.netns(new)}


def test_sandbox_under_attach_stays_live_although_the_list_lacks_it(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    paused = node.pause()

    async def work() -> None:
        run = asyncio.create_task(node.plugin.run_pod_sandbox(pod, LATER))
        await asyncio.to_thread(paused.begun.wait)
        await node.plugin.synchronize(())  # made before the runtime knew the sandbox
        paused.go.set()
        await run
        await node.plugin.reconcile()

    node.run(work)

    assert node.in_pod(1, pod)


def test_attach_continues_after_its_hook_was_cancelled(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    paused = node.pause()

    async def work() -> None:
        container = Container("c", pod.sandbox_id, "app")
        hook = asyncio.create_task(node.plugin.create_container(pod, container, LATER))
        await asyncio.to_thread(paused.begun.wait)
        hook.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hook
        paused.go.set()
        await node.plugin.create_container(pod, container, LATER)

    node.run(work)

    assert node.in_pod(1, pod)


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest first", "newest last"])
@pytest.mark.parametrize("pid", [7, 0], ids=["", "no pid in CRI-O"])
def test_listed_earlier_sandbox_does_not_take_the_nic_of_the_new_one(
    node: Node, pid: int, *, newest_first: bool
) -> None:
    old, new = node.pod("web", "one"), replace(node.pod("web", "two"), pid=pid)
    node.allocate(new, 1)
    node.run_pod(new)

    async def work() -> None:
        listed = (new, old) if newest_first else (old, new)
        await node.plugin.synchronize(listed)
        for _ in range(3):
            await node.plugin.reconcile()
            assert node.in_pod(1, new)

    node.run(work)


def test_running_sandbox_gets_the_nic_of_a_stopped_one(node: Node) -> None:
    old, new = node.pod("web", "one"), replace(node.pod("web", "two"), pid=7)
    node.allocate(old, 1)
    node.run_pod(old)

    async def work() -> None:
        await node.plugin.synchronize((new, old))
        await node.plugin.reconcile()

    node.run(work)

    assert node.in_pod(1, new)


def test_container_in_an_earlier_sandbox_does_not_take_the_nic_of_the_new_one(node: Node) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    node.allocate(old, 1)
    node.run_pod(old)
    node.run_pod(new)

    with pytest.raises(RefusedError, match="sandbox two"):
        node.run(lambda: node.plugin.create_container(old, Container("c", "one", "app"), LATER))

    assert node.in_pod(1, new)


def test_hung_repair_delays_no_other(node: Node) -> None:
    hung, other = node.pod("stuck"), node.pod("web")
    node.allocate(hung, 1, claim="one")
    node.allocate(other, 2, claim="two")
    working = node.plugin.attacher.executor
    paused = node.pause()
    node.plugin.reconciler.hang_wait_s = 0

    async def work() -> None:
        await node.plugin.synchronize((hung,))
        assert await node.plugin.reconcile(), "something is left"
        await asyncio.to_thread(paused.begun.wait)
        node.plugin.attacher.executor = working
        node.plugin.reconciler.hang_wait_s = LATER
        await node.plugin.synchronize((hung, other))

        assert await node.plugin.reconcile(), "the one that hangs is left, and not begun again"

        assert node.in_pod(2, other)
        paused.go.set()
        await node.plugin.attacher.wait_idle(hung.sandbox_id)

    node.run(work)

    assert node.in_pod(1, hung)


def test_claim_recorded_for_another_pod_does_not_take_the_nic_of_the_running_one(
    node: Node,
) -> None:
    pod, intruder = node.pod("web"), node.pod("thief")
    node.allocate(pod, 1)
    node.run_pod(pod)
    node.allocate(intruder, 2)  # the same claim, another NIC

    with pytest.raises(RefusedError, match=r"claim default/nics is owned by pod default/web"):
        node.run_pod(intruder)

    assert node.in_pod(1, pod)
    assert node.is_on_host(2)
    node.stop_pod(pod)
    node.run_pod(intruder)
    assert node.is_on_host(1)
    assert node.in_pod(2, intruder)


def test_earlier_sandbox_with_a_lost_stop_does_not_take_the_nic_back(node: Node) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    node.allocate(old, 1)
    node.run_pod(old)
    node.run_pod(new)
    done = len(node.kernel.log)

    node.reconcile()

    assert node.in_pod(1, new)
    assert len(node.kernel.log) == done, "not even for a moment"


def test_sandbox_that_stops_while_waiting_for_a_nic_is_not_attached(node: Node) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    node.allocate(old, 1)
    paused = node.pause()

    async def work() -> None:
        first = asyncio.create_task(node.plugin.run_pod_sandbox(old, LATER))
        await asyncio.to_thread(paused.begun.wait)
        second = asyncio.create_task(node.plugin.run_pod_sandbox(new, LATER))
        await asyncio.sleep(0)
        stop = asyncio.create_task(node.plugin.stop_pod_sandbox(new))
        await asyncio.sleep(0)
        paused.go.set()
        await asyncio.gather(first, stop)
        with pytest.raises(RefusedError, match="stopped meanwhile"):
            await second

    node.run(work)


def test_pod_that_stops_during_other_repairs_is_not_attached(node: Node) -> None:
    pod, other = node.pod("web"), node.pod("other")
    node.allocate(pod, 1, claim="one")
    claim = node.allocate(other, 2, claim="two")
    paused = node.pause()

    async def work() -> None:
        await node.plugin.synchronize((pod, other))
        repair = asyncio.create_task(node.plugin.reconcile())
        await asyncio.to_thread(paused.begun.wait)
        await node.plugin.stop_pod_sandbox(other)
        paused.go.set()
        await repair

    node.run(work)

    assert node.phase(claim) is None


def test_gate_is_closed_during_an_attach(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    orphaned = node.gate.spec_path(claim.claim.uid)
    orphaned.parent.mkdir()
    orphaned.write_text("{}")  # left by a crash
    paused = node.pause()

    async def work() -> None:
        run = asyncio.create_task(node.plugin.run_pod_sandbox(pod, LATER))
        await asyncio.to_thread(paused.begun.wait)
        assert not orphaned.exists()
        paused.go.set()
        await run

    node.run(work)

    assert node.gate_open(claim)


class SlowKernel(FakeKernel):
    """A kernel whose first operation blocks until released."""

    def __init__(self) -> None:
        """Begin."""
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def do(self, op: Op, netns: NetnsId | None) -> None:
        """Signal the start, and wait."""
        self.begun.set()
        assert self.go.wait(30)
        super().do(op, netns)


@pytest.mark.parametrize("stopped", [False, True])
def test_detach_of_a_partial_attach_is_dropped_if_the_attach_completes(
    tmp_path: Path, *, stopped: bool
) -> None:
    kernel = SlowKernel()
    node = Node(tmp_path, kernel=kernel)
    pod = node.pod("web")
    claim = node.allocate(pod, 1)

    async def work() -> None:
        await node.plugin.synchronize((pod,))
        run = asyncio.create_task(node.plugin.run_pod_sandbox(pod, LATER))
        await asyncio.to_thread(kernel.begun.wait)
        node.allocations.remove(claim.claim.uid)
        node.plugin.reconciler.hang_wait_s = 0
        assert await node.plugin.reconcile(), "it is restored after the attach"
        node.plugin.reconciler.hang_wait_s = LATER
        stop = asyncio.create_task(node.plugin.stop_pod_sandbox(pod)) if stopped else None
        await asyncio.sleep(0)
        kernel.go.set()
        await run
        for _ in range(3):
            await node.plugin.reconcile()
        await asyncio.gather(*filter(None, (stop,)))

    node.run(work)

    assert node.in_pod(1, pod) is not stopped
    assert node.is_on_host(1) is stopped
    node.close()


def test_failed_attach_without_a_waiting_caller_requests_a_reconcile(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.kernel.fail_on(MoveLink)
    paused = node.pause()

    async def work() -> None:
        container = Container("c", pod.sandbox_id, "app")
        hook = asyncio.create_task(node.plugin.create_container(pod, container, LATER))
        await asyncio.to_thread(paused.begun.wait)
        hook.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hook
        paused.go.set()
        await node.plugin.attacher.wait_idle(pod.sandbox_id)

    node.run(work)

    assert node.reconcile_requests[-1] == "wake"
