"""Recreated pods and claims of the same name while work on the earlier ones hangs."""

import asyncio
import threading
from dataclasses import replace

import pytest

from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.execution.restorer import Applied
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.model import Allocation, Attachment, ObjectRef, Phase, Pod
from dranet_nri.plan.ops import AddAddress
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import LATER, Node

pytestmark = pytest.mark.process


__all__ = ["node"]

OLD, NEW = "of-the-old-pod", "of-the-new-pod"


class HangingRestore(PlanExecutor):
    """An executor that blocks the restore of the earlier claim until released."""

    def __init__(self, node: Node) -> None:
        """Work on the node's kernel and records."""
        super().__init__(node.kernel, node.attachments, node.clock, RdmaOptions())
        self.go = threading.Event()

    def detach(
        self, attachment: Attachment, applied: Applied | None = None, *, netns_exists: bool
    ) -> Attachment:
        """Wait, if it is the old one's."""
        if attachment.claim.uid == OLD:
            assert self.go.wait(30)
        return super().detach(attachment, applied, netns_exists=netns_exists)


def web(node: Node, sandbox: str) -> Pod:
    """Return a sandbox of a new pod that has the same name each time."""
    return node.pod("web-0", sandbox, uid=f"uid-{sandbox}")


def allocate(node: Node, pod: Pod, number: int, uid: str) -> Allocation:
    """Record a new claim that has the same name each time."""
    made = node.allocate(pod, number, claim=uid)
    node.allocations.remove(made.claim.uid)
    named = replace(made, claim=ObjectRef("default", "nics", uid))
    node.allocations.put(named)
    return named


def test_claim_is_restored_while_an_earlier_claim_of_the_same_name_hangs(node: Node) -> None:
    old, new = web(node, "one"), web(node, "two")
    first, second = allocate(node, old, 1, OLD), allocate(node, new, 2, NEW)
    node.run_pod(old)
    node.run_pod(new)
    hanging = HangingRestore(node)
    node.plugin.attacher.executor = hanging

    async def scenario() -> Phase | None:
        node.plugin.reconciler.hang_wait_s = 0
        await node.plugin.stop_pod_sandbox(old)
        node.plugin.reconciler.hang_wait_s = LATER
        await node.plugin.stop_pod_sandbox(new)
        stopped = node.phase(second)
        hanging.go.set()
        while node.phase(first) is not Phase.RESTORED:  # noqa: ASYNC110 (a record)
            await asyncio.sleep(0)
        return stopped

    assert node.run(scenario) is Phase.RESTORED
    assert node.is_on_host(1)
    assert node.is_on_host(2)


def test_pod_is_attached_while_an_earlier_pod_of_the_same_name_hangs(node: Node) -> None:
    old, new = web(node, "one"), web(node, "two")
    allocate(node, old, 1, OLD)
    working = node.plugin.attacher.executor
    paused = node.pause()
    node.plugin.may_reject = False

    async def scenario() -> bool:
        node.plugin.reconciler.hang_wait_s = 0
        await node.plugin.synchronize((old,))
        await node.plugin.reconcile()
        await asyncio.to_thread(paused.begun.wait)
        node.plugin.attacher.executor = working
        node.plugin.reconciler.hang_wait_s = LATER
        allocate(node, new, 2, NEW)
        node.kernel.fail_on(AddAddress, times=1)
        await node.plugin.run_pod_sandbox(new, LATER)
        assert not node.in_pod(2, new)
        await node.plugin.reconcile()
        attached = node.in_pod(2, new)
        paused.go.set()
        await node.plugin.attacher.wait_idle(old.sandbox_id)
        return attached

    assert node.run(scenario)
