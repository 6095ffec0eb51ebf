"""Hooks while allocations cannot be read: unclaimed pods run, the others wait at the gate."""

from pathlib import Path

import pytest

from dranet_nri.errors import AttachError, RefusedError
from dranet_nri.model import Container, Edits, Phase
from dranet_nri.plan.ops import AddAddress
from tests.dranet_nri.hooks.plugin_node import node
from tests.dranet_nri.state.directories import no_descriptors, put_file, unreadable
from tests.fakes.node import LATER, Node

pytestmark = pytest.mark.process


__all__ = ["node"]


def unseen(node: Node, name: str) -> tuple[Path, Path]:
    """Take a claim's record away before the plugin looks; return where it is and belongs."""
    record = node.root / "allocations" / f"claim-{name}.json"
    staged = record.with_name(f".{record.name}.later")
    record.rename(staged)
    node.plugin.allocations.refresh()
    node.reconcile_requests.clear()
    return staged, record


def test_unclaimed_pod_starts_and_stops_while_an_allocation_is_unreadable(node: Node) -> None:
    pod = node.pod("ordinary")
    node.allocate(node.pod("claimed"), 1)
    staged, record = unseen(node, "nics")

    async def scenario() -> Edits:
        with no_descriptors():
            staged.rename(record)
            assert not node.plugin.is_unclaimed(pod)
            await node.plugin.run_pod_sandbox(pod, LATER)
            edits = await node.plugin.create_container(
                pod, Container("c", pod.sandbox_id, "app"), LATER
            )
            await node.plugin.stop_pod_sandbox(pod)
            return edits

    assert node.run(scenario) == Edits()
    assert node.plugin.is_unclaimed(pod)


def test_pod_with_an_unreadable_allocation_is_attached_late(
    node: Node,
) -> None:
    pod = node.pod("claimed")
    claim = node.allocate(pod, 1)
    staged, record = unseen(node, "nics")

    async def scenario() -> None:
        with no_descriptors():
            staged.rename(record)
            await node.plugin.run_pod_sandbox(pod, LATER)
            assert await node.plugin.reconcile(), "an unreadable claim is pending"

    node.run(scenario)
    assert not node.gate_open(claim)
    assert node.reconcile_requests.count("wake") == 1
    node.reconcile_requests.clear()

    assert not node.reconcile()
    assert node.phase(claim) is Phase.ATTACHED
    assert node.in_pod(1, pod)
    assert node.gate_open(claim)
    assert "request" in node.reconcile_requests


def test_pod_with_a_known_claim_is_refused_while_its_record_is_unreadable(
    node: Node,
) -> None:
    pod = node.pod("claimed")
    claim = node.allocate(pod, 1)
    node.plugin.allocations.refresh()
    record = node.root / "allocations" / f"{claim.claim.uid}.json"
    staged = record.with_name(".rewritten")
    staged.write_bytes(record.read_bytes())

    async def scenario() -> None:
        with no_descriptors():
            staged.rename(record)
            with pytest.raises(RefusedError, match="cannot be read: Too many open files"):
                await node.plugin.run_pod_sandbox(pod, LATER)

    node.run(scenario)
    node.run_pod(pod)
    assert node.in_pod(1, pod)


def reconcile_unread(node: Node, name: str) -> None:
    """Run a pass in which the rewritten record of a claim cannot be read."""
    record = node.root / "allocations" / f"claim-{name}.json"
    data = record.read_bytes()
    with unreadable():
        put_file(record.parent, record.name, data)
        assert node.reconcile(), "an unreadable claim is pending"


def test_partial_attach_is_kept_while_the_claim_is_unreadable(
    node: Node,
) -> None:
    pod = node.pod("claimed")
    claim = node.allocate(pod, 1)
    node.kernel.fail_on(AddAddress)
    with pytest.raises(AttachError):
        node.run_pod(pod)
    node.kernel.clear_faults()
    done = len(node.kernel.log)

    reconcile_unread(node, "nics")

    assert node.phase(claim) is Phase.FAILED
    assert len(node.kernel.log) == done, "nothing was moved"
    node.reconcile()
    assert node.phase(claim) is Phase.ATTACHED


def test_partial_attach_of_a_removed_claim_is_restored(node: Node) -> None:
    pod = node.pod("claimed")
    claim = node.allocate(pod, 1)
    node.kernel.fail_on(AddAddress)
    with pytest.raises(AttachError):
        node.run_pod(pod)
    node.kernel.clear_faults()
    node.allocations.remove(claim.claim.uid)

    node.reconcile()

    assert node.is_on_host(1)


def test_record_of_a_restored_claim_is_kept_while_the_claim_is_unreadable(
    node: Node,
) -> None:
    pod = node.pod("claimed")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    node.stop_pod(pod)

    reconcile_unread(node, "nics")

    assert node.phase(claim) is Phase.RESTORED
    node.allocations.remove(claim.claim.uid)
    node.reconcile()
    assert node.phase(claim) is None
