"""Hooks under other failures: a full disk, a broken record, too many refusals."""

from dataclasses import replace
from errno import EBUSY

import pytest

from dranet_nri.errors import AttachError, KernelError, OwnedError, RefusedError
from dranet_nri.model import (
    Allocation,
    ContainerClaim,
    DeviceKey,
    Mount,
    Phase,
    Pod,
)
from dranet_nri.plan.ops import AddAddress, MoveLink
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import Node

pytestmark = pytest.mark.process


__all__ = ["node"]


# --------------------------------------------------------------------------- a full disk


def test_full_disk_refuses_the_pod_and_moves_nothing(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 0

    with pytest.raises(OSError, match="No space left"):
        node.run_pod(pod)

    assert node.is_on_host(1)
    assert not node.kernel.held
    node.disk.room = None
    node.reconcile()
    assert node.in_pod(1, pod)
    assert node.gate_open(claim)


def test_pod_refused_by_a_full_disk_is_accepted_after_three_rejections(node: Node) -> None:
    claim = node.allocate(node.pod("web"), 1)
    node.disk.room = 0
    for number in range(3):
        with pytest.raises(OSError, match="No space left"):
            node.run_pod(node.pod("web", f"try{number}"))

    node.run_pod(node.pod("web", "try3"))

    assert not node.gate_open(claim)


def test_full_disk_before_the_result_keeps_the_gate_closed_until_a_retry(
    node: Node,
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 1

    with pytest.raises(OSError, match="No space left"):
        node.run_pod(pod)
    assert not node.gate_open(claim)

    node.disk.room = None
    node.reconcile()
    assert node.phase(claim) is Phase.ATTACHED
    assert node.gate_open(claim)
    node.stop_pod(pod)
    assert node.is_on_host(1)


def test_full_disk_does_not_prevent_a_detach_or_a_stop(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.synchronize(pod)
    assert node.in_pod(1, pod)
    node.disk.room = 0

    node.stop_pod(pod)

    assert node.is_on_host(1)
    assert not node.gate_open(claim)
    assert node.reconcile(), "the record is pending"
    node.disk.room = None
    assert not node.reconcile()
    assert node.phase(claim) is Phase.RESTORED
    assert not node.kernel.held


def test_unrecorded_restore_is_reported_to_the_next_pod(node: Node) -> None:
    pod, other = node.pod("web"), node.pod("other")
    ended = node.allocate(pod, 1)
    node.synchronize(pod, other)
    node.disk.room = 0
    node.stop_pod(pod)
    node.allocations.remove(ended.claim.uid)
    node.allocate(other, 1, claim="next")

    with pytest.raises(
        OwnedError, match=r"owned by pod default/web .*, which has ended; .* retried"
    ):
        node.run_pod(other)

    assert node.plugin.reconciler.pending() == 1, "of the pod that is gone"
    node.disk.room = None
    assert not node.reconcile()
    assert node.in_pod(1, other)


def test_full_disk_holds_no_namespace_after_a_failed_attach(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.kernel.fail_on(MoveLink, EBUSY)
    with pytest.raises(AttachError):
        node.run_pod(pod)
    node.kernel.clear_faults()
    node.disk.room = 0

    node.stop_pod(pod)

    assert node.phase(claim) is Phase.FAILED, "nothing could be recorded"
    assert not node.kernel.held
    assert node.is_on_host(1)


def test_refused_pod_is_pending_while_its_sandbox_lives(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.kernel.fail_on(MoveLink, EBUSY)
    node.synchronize(pod)
    assert node.plugin.reconciler.pending() == 1

    node.synchronize()

    assert node.plugin.reconciler.pending() == 0
    assert not node.reconcile()
    node.restart()
    assert node.plugin.reconciler.pending() == 1, "the sandbox may be alive"


def test_unwritten_gate_is_pending_until_it_is_written(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 2  # intent and result

    node.run_pod(pod)

    assert node.phase(claim) is Phase.ATTACHED
    assert not node.gate_open(claim)
    assert "wake" in node.reconcile_requests
    assert node.reconcile()
    node.disk.room = None
    assert not node.reconcile()
    assert node.gate_open(claim)


def test_failure_is_recorded_for_one_claim_if_the_other_record_fails(
    node: Node,
) -> None:
    pod = node.pod("web")
    first = node.allocate(pod, 1, claim="first")
    second = node.allocate(pod, 2, claim="second")
    node.kernel.fail_on(AddAddress, times=1)
    node.disk.room, node.disk.recovers = 2, True  # both intents

    with pytest.raises(OSError, match="No space left"):
        node.run_pod(pod)

    assert (node.phase(first), node.phase(second)) == (Phase.INTENT, Phase.FAILED)
    assert node.is_on_host(1)
    node.stop_pod(pod)
    assert (node.phase(first), node.phase(second)) == (Phase.RESTORED, Phase.RESTORED)


def test_long_failure_message_fits_into_the_record(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.kernel.fail_on(AddAddress, KernelError("x" * 100_000, EBUSY), times=1)

    with pytest.raises(AttachError):
        node.run_pod(pod)

    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert record.failure.message.startswith("add address 10.0.1.5/24")


@pytest.mark.parametrize(
    "error",
    [KernelError("set x\udcff up", EBUSY), ValueError("x\udcff")],
    ids=["kernel", "surprise"],
)
def test_undecodable_names_fit_into_the_failure_record(node: Node, error: Exception) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.kernel.fail_on(AddAddress, error)
    with pytest.raises(type(error) if isinstance(error, ValueError) else AttachError):
        node.run_pod(pod)
    assert "x\\udcff" in message_of(node, claim)

    node.kernel.clear_faults()
    node.reconcile()
    assert node.in_pod(1, pod)
    node.kernel.fail_on(MoveLink, error)
    node.stop_pod(pod)
    assert "x\\udcff" in message_of(node, claim)

    node.kernel.clear_faults()
    node.reconcile()
    assert node.phase(claim) is Phase.RESTORED


def message_of(node: Node, claim: Allocation) -> str:
    """Return the recorded failure message of the claim."""
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    return record.failure.message


def test_internal_error_of_one_nic_does_not_affect_the_other(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1, 2)
    node.run_pod(pod)
    node.kernel.fail_on(MoveLink, ValueError("a bug of ours"), times=1)

    node.stop_pod(pod)

    assert node.is_on_host(1)
    assert node.in_pod(2, pod)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert "a bug of ours" in record.failure.message
    node.reconcile()
    assert node.is_on_host(2)


# --------------------------------------------------------------------------- refusals


def test_refused_sandboxes_hold_no_namespace(node: Node) -> None:
    old = node.pod("web", "one")
    node.allocate(old, 1)
    node.run_pod(old)
    node.kernel.fail_on(MoveLink, EBUSY)
    for number in range(3):
        with pytest.raises(RefusedError, match="are not restored yet"):
            node.run_pod(node.pod("web", f"try{number}"))

    assert node.kernel.held == {node.netns(old)}


def test_pod_with_a_broken_record_is_refused_three_times_and_then_accepted(
    node: Node,
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    path = node.root / "allocations" / f"{claim.claim.uid}.json"
    path.write_bytes(path.read_bytes().replace(b"0000:01:00.0", b"nonsense"))
    for _ in range(3):
        with pytest.raises(RefusedError, match="cannot be used"):
            node.run_pod(pod)

    node.run_pod(pod)

    with pytest.raises(RefusedError, match="cannot be used"):
        node.create(pod)


def test_rejection_count_is_reset_after_an_attach(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    for failures in (2, 3):
        node.kernel.fail_on(MoveLink, EBUSY)
        for _ in range(failures):
            with pytest.raises(AttachError):
                node.run_pod(pod)
        node.kernel.clear_faults()
        node.run_pod(pod)
        node.stop_pod(pod)

    assert not node.plugin.rejections


def test_stop_that_leaves_a_nic_in_the_pod_requests_a_reconcile(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    node.kernel.fail_on(MoveLink, EBUSY)

    node.stop_pod(pod)

    assert node.reconcile_requests[-1] == "wake"


def test_rejection_count_is_removed_with_the_claims_of_the_pod(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.kernel.fail_on(MoveLink, EBUSY)
    with pytest.raises(AttachError):
        node.run_pod(pod)
    node.stop_pod(pod)
    node.allocations.remove(claim.claim.uid)

    node.reconcile()

    assert not node.plugin.rejections


def test_rdma_device_without_an_interface_is_given_to_one_pod(node: Node) -> None:
    pod, intruder = node.pod("web"), node.pod("thief")
    node.kernel.add_rdma("mlx5_9", parent="0000:09:00.0")
    claim_of_pod = rdma_only(node, pod, "mine")
    rdma_only(node, intruder, "forged")
    node.run_pod(pod)

    with pytest.raises(RefusedError, match=r"owned by pod default/web \(claim default/mine\)"):
        node.run_pod(intruder)
    stolen = rdma_only(node, intruder, "mine")
    with pytest.raises(RefusedError, match=r"owned by pod default/web"):
        node.run_pod(intruder)

    assert node.phase(claim_of_pod) is Phase.ATTACHED
    node.stop_pod(pod)
    node.run_pod(intruder)
    assert node.phase(stolen) is Phase.ATTACHED


def test_device_recorded_without_its_new_interface_keeps_the_gate_closed(node: Node) -> None:
    pod = node.pod("web")
    claim = rdma_only(node, pod, "mine")
    (given,) = claim.devices
    without_rdma = replace(given, device=replace(given.device, rdma_devices=()))
    node.allocations.put(replace(claim, devices=(without_rdma,)))

    with pytest.raises(RefusedError, match=r"was prepared, it has no .*; delete the pod"):
        node.run_pod(pod)

    assert not node.gate_open(claim)
    with pytest.raises(RefusedError):
        node.create(pod)


def rdma_only(node: Node, pod: Pod, name: str) -> Allocation:
    """Record a claim for a PCI function that is an RDMA device alone."""
    allocation = node.allocate(pod, 1, claim=name)
    (given,) = allocation.devices
    key = DeviceKey("pci", "0000:09:00.0", "", "0000:09:00.0")
    device = replace(given.device, name="pci-0000-09-00-0", key=key, rdma_devices=("mlx5_9",))
    changed = replace(allocation, devices=(replace(given, device=device),))
    node.allocations.put(changed)
    return changed


def test_container_with_the_claim_file_is_refused_without_the_nic(
    node: Node,
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1, containers=(ContainerClaim("app"),))
    node.kernel.fail_on(MoveLink, EBUSY)
    with pytest.raises(AttachError):
        node.run_pod(pod)
    source = f"{node.gate.metadata_dir}/{claim.claim.uid}/nic1/metadata.json"

    with pytest.raises(AttachError):
        node.create(pod, Mount(source, "/x"), name="unlisted")
    node.allocations.remove(claim.claim.uid)
    with pytest.raises(RefusedError, match="not attached"):
        node.create(pod, Mount(source, "/x"), name="unlisted")
