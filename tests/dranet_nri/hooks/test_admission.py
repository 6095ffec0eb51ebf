"""Refusal of containers and pods."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.errors import KernelError, RefusedError
from dranet_nri.model import (
    FAULT,
    Allocation,
    Attachment,
    Container,
    Edits,
    Mount,
    NetnsId,
    Phase,
    Pod,
)
from dranet_nri.plan.ops import MoveLink
from dranet_nri.state.reader import AllocationReader
from tests.dranet_nri.hooks.plugin_node import node
from tests.dranet_nri.state.directories import no_descriptors
from tests.fakes.kernel import FakeKernel
from tests.fakes.node import LATER, Node

pytestmark = pytest.mark.process


__all__ = ["node"]


def own_mount(node: Node, claim: Allocation) -> Mount:
    """Return the mount of a claim's metadata file."""
    return Mount(f"{node.gate.metadata_dir}/{claim.claim.uid}/nic/metadata.json", "/x")


# --------------------------------------------------------------------------- files of claims


@pytest.mark.parametrize("foreign_first", [True, False])
def test_container_with_own_and_foreign_claim_files_is_refused(
    node: Node, *, foreign_first: bool
) -> None:
    pod, other = node.pod("web"), node.pod("other")
    claims = [node.allocate(pod, 1, claim="mine"), node.allocate(other, 2, claim="theirs")]
    node.run_pod(pod)
    node.run_pod(other)
    mounts = [own_mount(node, claim) for claim in claims]

    node.create(pod, mounts[0])
    with pytest.raises(RefusedError, match="lists claim default/theirs, which pod default/other"):
        node.create(pod, *(reversed(mounts) if foreign_first else mounts))


def test_container_with_own_files_and_files_of_an_earlier_sandbox_is_refused(
    node: Node,
) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    left = node.allocate(old, 1, claim="left")
    node.run_pod(old)
    node.allocations.remove(left.claim.uid)
    claim = node.allocate(new, 2, claim="mine")
    node.run_pod(new)
    with pytest.raises(RefusedError, match="claim default/left is in sandbox one, not in two"):
        node.create(new, own_mount(node, claim), own_mount(node, left))


def files_of(node: Node, claim: Allocation) -> tuple[Mount, ...]:
    """Return the mounts of the current CDI spec."""
    spec = json.loads(node.gate.spec_path(claim.claim.uid).read_text())
    mounts = spec["devices"][0]["containerEdits"]["mounts"]
    return tuple(Mount(mount["hostPath"], mount["containerPath"]) for mount in mounts)


def test_container_with_files_of_an_earlier_sandbox_is_retried(node: Node) -> None:
    first = node.pod("web", "one")
    claim = node.allocate(first, 1)
    node.run_pod(first)
    node.stop()
    node.kernel.remove_netns(node.netns(first))
    second = node.pod("web", "two")
    node.start()
    node.synchronize(second, rounds=0)
    former = files_of(node, claim)

    with pytest.raises(RefusedError, match=f"of another sandbox, .* {first.netns_path}, not"):
        node.create(second, *former)  # its start would fail, and is not retried

    node.create(second, *files_of(node, claim))
    assert node.in_pod(1, second)


# --------------------------------------------------------------------------- ordinary pods


def test_pod_without_a_claim_is_never_refused_beside_a_claimed_pod(
    node: Node,
) -> None:
    pod, ordinary = node.pod("web"), node.pod("ordinary")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    plain = Container("c", ordinary.sandbox_id, "app", mounts=(Mount("/etc/hosts", "/etc/hosts"),))

    for container in (None, plain):
        assert node.plugin.is_unclaimed(ordinary, container)
        assert not node.plugin.may_refuse(ordinary, container)
    intruder = replace(plain, mounts=(*plain.mounts, own_mount(node, claim)))
    assert not node.plugin.is_unclaimed(ordinary, intruder)
    assert node.plugin.may_refuse(ordinary, intruder)


def test_sandbox_that_still_has_a_nic_is_not_unclaimed(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    node.allocations.remove(claim.claim.uid)

    assert not node.plugin.is_unclaimed(pod)
    node.stop_pod(pod)
    assert node.plugin.is_unclaimed(pod)


def test_sandbox_during_its_attach_is_not_unclaimed(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    paused = node.pause()

    async def scenario() -> bool:
        run = asyncio.create_task(node.plugin.run_pod_sandbox(pod, LATER))
        await asyncio.to_thread(paused.begun.wait)
        node.allocations.remove(claim.claim.uid)
        unclaimed = node.plugin.is_unclaimed(pod)
        paused.go.set()
        await run
        return unclaimed

    assert not node.run(scenario)


class FailingReader(AllocationReader):
    """A reader that raises an unexpected error once poisoned."""

    unreadable = False

    def refresh(self) -> frozenset[str]:
        """Fail as no reader should."""
        if self.unreadable:
            raise ValueError("a bug of ours")
        return super().refresh()


def test_internal_error_of_the_reader_does_not_stop_an_unclaimed_pod(node: Node) -> None:
    ordinary = node.pod("ordinary")
    node.plugin.allocations.reader.close()
    node.plugin.allocations.reader = reader = FailingReader(node.root / "allocations", owner=None)
    reader.unreadable = True

    assert not node.plugin.is_unclaimed(ordinary)
    node.run_pod(ordinary)
    node.create(ordinary)
    assert not node.plugin.may_refuse(ordinary)
    assert node.reconcile_requests == ["wake"]
    assert node.reconcile(), "an unreadable allocation is pending"


class OpeningKernel(FakeKernel):
    """A kernel that opens a namespace to identify it, as the real one does."""

    def identify(self, path: str) -> NetnsId | None:
        """Open something and return the namespace."""
        try:
            os.close(os.open("/proc/self/ns/net", os.O_RDONLY))
        except OSError as error:
            raise KernelError(f"open namespace {path}", error.errno or 0) from error
        return super().identify(path)


def test_exhausted_descriptors_refuse_only_claimed_pods(tmp_path: Path) -> None:
    node = Node(tmp_path, kernel=OpeningKernel())
    pod, ordinary = node.pod("web"), node.pod("ordinary")
    node.allocate(pod, 1)
    node.plugin.allocations.refresh()

    async def scenario() -> None:
        await node.plugin.synchronize((ordinary,))
        with no_descriptors():
            assert not await node.plugin.reconcile(), "nothing is wrong with an ordinary pod"
            container = Container("c", ordinary.sandbox_id, "app")
            await node.plugin.run_pod_sandbox(ordinary, LATER)
            assert await node.plugin.create_container(ordinary, container, LATER) == Edits()
            await node.plugin.stop_pod_sandbox(ordinary)
            with pytest.raises(KernelError, match="EMFILE"):
                await node.plugin.run_pod_sandbox(pod, LATER)

    node.run(scenario)
    node.close()


# --------------------------------------------------------------------------- surprises


class ThreadlessExecutor(PlanExecutor):
    """An executor on a node where no thread can be had."""

    def __init__(self, node: Node) -> None:
        """Use the node's kernel and records."""
        super().__init__(node.kernel, node.attachments, node.clock, RdmaOptions())

    def attach(
        self,
        pod: Pod,
        netns: NetnsId,
        allocations: tuple[Allocation, ...],
        previous: Mapping[str, Attachment],
        is_live: Callable[[], bool] = lambda: True,
    ) -> tuple[Attachment, ...]:
        """Fail as threading.Thread.start does."""
        raise RuntimeError("can't start new thread")


class FailingIdentify(FakeKernel):
    """A kernel that raises an unexpected error on identify."""

    def identify(self, path: str) -> NetnsId | None:
        """Fail as nothing should."""
        raise RuntimeError(f"what is {path}?")


def no_threads(node: Node) -> None:
    """Let there be no thread for an attach."""
    node.plugin.attacher.executor = ThreadlessExecutor(node)


def no_namespaces(node: Node) -> None:
    """Let identify raise an unexpected error."""
    node.plugin.attacher.kernel = FailingIdentify()


def no_moves(node: Node) -> None:
    """Let the first operation raise an unexpected error."""
    node.kernel.fail_on(MoveLink, RuntimeError("a bug of ours"))


SURPRISES = pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(no_threads, "RuntimeError: can't start new thread", id="no-thread"),
        pytest.param(no_namespaces, "RuntimeError: what is /run/netns/", id="no-namespace"),
        pytest.param(no_moves, "RuntimeError: a bug of ours", id="in-the-middle"),
    ],
)


def failed(node: Node, claim: Allocation) -> str:
    """Return the failure that is recorded of the claim."""
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    return record.failure.message


@SURPRISES
def test_internal_error_rejects_three_sandboxes_and_is_recorded(
    node: Node, change: Callable[[Node], None], text: str
) -> None:
    pods = [node.pod("web", f"try{number}") for number in range(4)]
    claim = node.allocate(pods[0], 1)
    change(node)

    for pod in pods[:3]:
        with pytest.raises(RuntimeError):
            node.run_pod(pod)
    node.run_pod(pods[3])

    assert failed(node, claim).startswith(text)
    assert not node.gate_open(claim)


@SURPRISES
def test_internal_error_rejects_no_sandbox_if_the_runtime_keeps_rejected_ones(
    node: Node, change: Callable[[Node], None], text: str
) -> None:
    node.plugin.may_reject = False
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    change(node)

    node.run_pod(pod)

    assert failed(node, claim).startswith(text)
    assert not node.gate_open(claim)
    with pytest.raises(RuntimeError):
        node.create(pod)


def test_attach_is_repeated_after_an_internal_error_in_the_middle(
    node: Node,
) -> None:
    node.plugin.may_reject = False
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    no_moves(node)
    node.run_pod(pod)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert (record.phase, record.failure.reason) == (Phase.INTENT, FAULT)

    node.kernel.clear_faults()
    node.reconcile()

    assert node.gate_open(claim)
    assert node.in_pod(1, pod)
    node.stop_pod(pod)
    assert node.is_on_host(1)
