"""Attachment records that cannot be used: their devices are given to no other pod."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.attach.checks.conflicts import check_no_corrupt_owner
from dranet_nri.errors import OwnedError, UnusableRecordError
from dranet_nri.model import Allocation, Pod
from dranet_nri.state.corrupt import CorruptSummary
from dranet_nri.state.record import VERSION
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import Node

pytestmark = pytest.mark.process


__all__ = ["node"]


def record_of(node: Node, claim: Allocation) -> Path:
    """Return where the plugin keeps its record of the claim."""
    return node.root / "run" / "attachments" / f"{claim.claim.uid}.json"


def write_newer(node: Node, claim: Allocation) -> bytes:
    """End the plugin, let a later version have written the record, and start it again."""
    document = json.loads(record_of(node, claim).read_bytes())
    data = json.dumps(document | {"version": VERSION + 1}).encode()
    write(node, claim, data)
    return data


def write(node: Node, claim: Allocation, data: bytes) -> None:
    """End the plugin, replace the record, and start the plugin again."""
    node.stop()
    for netns in tuple(node.kernel.held):
        node.kernel.release(netns)
    record_of(node, claim).write_bytes(data)
    node.start()


def ended(node: Node, pod: Pod) -> None:
    """Let the pod end, and the kernel return what its namespace had."""
    node.stop_pod(pod)
    node.kernel.remove_netns(node.netns(pod))
    node.reconcile()


@pytest.mark.parametrize("released", [False, True])
def test_nic_of_a_newer_attachment_record_is_refused_to_other_pods(
    node: Node, *, released: bool
) -> None:
    pod, other = node.pod("ahead"), node.pod("next")
    claim = node.allocate(pod, 1, claim="first")
    node.run_pod(pod)
    data = write_newer(node, claim)
    node.synchronize(pod)
    ended(node, pod)
    if released:
        node.allocations.remove(claim.claim.uid)
    second = node.allocate(other, 1, claim="second")
    path = record_of(node, claim)

    with pytest.raises(OwnedError) as caught:
        node.run_pod(other)

    text = str(caught.value)
    assert text.startswith("device pci-0000-01-00-0 of claim default/second may be in another pod")
    assert f"the attachment record of claim {claim.claim.uid} cannot be used: $.version" in text
    assert f"({path})" in text
    assert text.endswith("if they are restored on the host, remove the file")
    reported = node.attachments.get(second.claim.uid)
    assert reported is not None
    assert reported.failure is not None
    assert reported.failure.message == text
    assert node.kernel.state("eth1") is not None
    assert not node.gate_open(second)
    assert path.read_bytes() == data


def test_nic_is_available_after_the_unusable_record_is_removed(node: Node) -> None:
    pod, other = node.pod("ahead"), node.pod("next")
    claim = node.allocate(pod, 1, claim="first")
    node.run_pod(pod)
    write_newer(node, claim)
    ended(node, pod)
    second = node.allocate(other, 1, claim="second")
    with pytest.raises(OwnedError):
        node.run_pod(other)

    node.allocations.remove(claim.claim.uid)
    record_of(node, claim).unlink()
    node.run_pod(other)

    assert node.in_pod(1, other)
    assert node.gate_open(second)


def test_other_and_returned_nics_are_available_beside_a_newer_record(node: Node) -> None:
    pod, other = node.pod("ahead"), node.pod("next")
    first = node.allocate(pod, 1, claim="first")
    node.run_pod(pod)
    node.stop_pod(pod)
    write_newer(node, first)
    second = node.allocate(other, 1, 2, claim="second")

    node.run_pod(other)

    assert node.gate_open(second)
    assert node.in_pod(1, other)
    assert node.in_pod(2, other)


def test_devices_of_a_corrupt_record_are_taken_from_the_allocation(node: Node) -> None:
    pod, other, third = node.pod("torn"), node.pod("next"), node.pod("third")
    claim = node.allocate(pod, 1, claim="first")
    node.run_pod(pod)
    (node.root / "run" / "attachments" / "quarantine").touch()  # so it cannot be moved aside
    write(node, claim, record_of(node, claim).read_bytes()[:-9])
    node.allocate(other, 1, claim="second")
    free = node.allocate(third, 2, claim="third")

    with pytest.raises(OwnedError, match=r"of claim claim-first cannot be used: .*not JSON"):
        node.run_pod(other)
    node.run_pod(third)

    assert node.in_pod(1, pod)
    assert node.gate_open(free)


def test_pod_of_a_newer_record_is_refused_with_the_record_path(node: Node) -> None:
    pod = node.pod("ahead", "one")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    data = write_newer(node, claim)
    again = node.pod("ahead", "two")

    with pytest.raises(UnusableRecordError) as caught:
        node.run_pod(again)

    text = str(caught.value)
    assert text.startswith("claim default/nics: its attachment record cannot be used: $.version")
    assert f"({record_of(node, claim)})" in text
    assert record_of(node, claim).read_bytes() == data


def test_quarantined_record_owns_no_devices(node: Node) -> None:
    pod = node.pod("torn")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    write(node, claim, b"{torn")

    node.synchronize(pod)

    assert node.in_pod(1, pod)
    assert node.gate_open(claim)


@pytest.mark.parametrize(
    ("corrupt_share", "share", "refused"),
    [("5e0f", "8d7e", False), ("5e0f", "", True), ("", "8d7e", True), ("", "", True)],
)
def test_other_shares_of_the_device_are_available_beside_a_newer_record(
    node: Node, corrupt_share: str, share: str, *, refused: bool
) -> None:
    held = node.allocate(node.pod("ahead"), 1, claim="first")
    asking = node.allocate(node.pod("next"), 1, claim="second")
    asking = replace(asking, devices=(replace(asking.devices[0], share_id=share),))
    damage = report_on(node, held, corrupt_share)

    try:
        check_no_corrupt_owner((asking,), (damage,), lambda _uid: None)
    except OwnedError:
        assert refused
    else:
        assert not refused


def report_on(node: Node, claim: Allocation, share_id: str) -> CorruptSummary:
    """Return the report on a newer record of the claim's only device."""
    device = {"device": {"name": claim.devices[0].device.name}, "shareId": share_id}
    path = record_of(node, claim)
    path.write_text(json.dumps({"version": VERSION + 1, "devices": [device]}))
    (damage,) = node.attachments.blocking()
    return damage
