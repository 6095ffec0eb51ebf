"""Hooks, jobs and repair at the same time, and two sandboxes of one pod."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import Container, Phase, Pod
from tests.fakes.node import Node

LATER = 1e9  # a deadline nobody meets


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Return a node with two NICs."""
    made = Node(tmp_path)
    yield made
    made.close()


def run_pod(node: Node, pod: Pod) -> None:
    """Do RunPodSandbox."""
    node.run(lambda: node.plugin.run_pod_sandbox(pod, LATER))


def in_pod(node: Node, pod: Pod) -> bool:
    """Whether the first NIC is in the sandbox."""
    return node.kernel.state("eth1", node.netns(pod)) is not None


def test_a_stop_during_a_late_attach_brings_the_nic_home(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    paused = node.pause()

    async def work() -> None:
        await node.plugin.synchronize((pod,), ())
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
    assert record.phase is Phase.HOME
    assert not node.gate.claims()
    assert not node.kernel.held


def test_a_container_that_joins_an_attach_gets_the_claim_that_came_later_too(node: Node) -> None:
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

    assert [each.phase for each in node.attachments.all()] == [Phase.ATTACHED] * 2


def test_a_sandbox_that_is_attached_to_stays_though_the_list_lacks_it(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    paused = node.pause()

    async def work() -> None:
        run = asyncio.create_task(node.plugin.run_pod_sandbox(pod, LATER))
        await asyncio.to_thread(paused.begun.wait)
        await node.plugin.synchronize((), ())  # made before the runtime knew the sandbox
        paused.go.set()
        await run
        await node.plugin.reconcile()

    node.run(work)

    assert in_pod(node, pod)


def test_a_job_of_a_hook_that_left_goes_on_and_is_forgotten(node: Node) -> None:
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

    assert in_pod(node, pod)


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest first", "newest last"])
def test_an_old_sandbox_in_the_runtimes_list_takes_nothing_from_the_new_one(
    node: Node, *, newest_first: bool
) -> None:
    old, new = node.pod("web", "one"), replace(node.pod("web", "two"), pid=7)
    node.allocate(new, 1)
    run_pod(node, new)

    async def work() -> None:
        listed = (new, old) if newest_first else (old, new)
        await node.plugin.synchronize(listed, ())
        for _ in range(3):
            await node.plugin.reconcile()
            assert in_pod(node, new)

    node.run(work)


def test_a_running_sandbox_gets_the_nic_that_a_stopped_one_still_has(node: Node) -> None:
    old, new = node.pod("web", "one"), replace(node.pod("web", "two"), pid=7)
    node.allocate(old, 1)
    run_pod(node, old)

    async def work() -> None:
        await node.plugin.synchronize((new, old), ())
        await node.plugin.reconcile()

    node.run(work)

    assert in_pod(node, new)


def test_a_container_in_an_old_sandbox_takes_nothing_from_the_new_one(node: Node) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    node.allocate(old, 1)
    run_pod(node, old)
    run_pod(node, new)

    with pytest.raises(RefusedError, match="sandbox two"):
        node.run(lambda: node.plugin.create_container(old, Container("c", "one", "app"), LATER))

    assert in_pod(node, new)
