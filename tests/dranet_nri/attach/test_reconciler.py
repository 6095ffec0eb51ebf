"""Reconcile passes: repairs, and state that stays unchanged."""

from dataclasses import replace
from errno import EBUSY, EMFILE
from unittest.mock import patch

import pytest

from dranet_nri.cdi.names import cdi_ids
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    FAULT,
    HUNG,
    Allocation,
    DeviceKey,
    Failure,
    InterfaceConfig,
    NetworkConfig,
    Phase,
    Pod,
)
from dranet_nri.plan.ops import AddAddress, MoveLink
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.kernel import FakeKernel
from tests.fakes.node import Node, pci_key

pytestmark = pytest.mark.process


__all__ = ["node"]


def test_failed_repair_does_not_prevent_other_repairs(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    (node.root / "cdi" / "dra.net-a.json").mkdir()  # a spec that cannot be removed
    orphaned = node.root / "cdi" / "dra.net-b.json"
    orphaned.write_text("{}")

    node.synchronize()

    assert node.is_on_host(1)
    assert not orphaned.exists()


def test_claim_with_a_changed_nic_gets_the_new_nic(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    claim = node.allocate(pod, 2)

    for _ in range(2):
        node.reconcile()

    assert node.is_on_host(1)
    assert node.in_pod(2, pod)
    assert (
        cdi_ids(claim)[0][1].partition("=")[2] in node.gate.spec_path(claim.claim.uid).read_text()
    )


def test_gate_stays_closed_while_the_former_nic_is_in_the_pod(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    claim = node.allocate(pod, 2)
    node.kernel.fail_on(MoveLink, EBUSY)  # the first one cannot leave

    node.reconcile()

    assert not node.gate_open(claim)
    assert node.in_pod(1, pod)


def test_gate_does_not_combine_a_record_with_another_allocation(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    claim = node.allocate(pod, 2)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None

    node.run(lambda: node.plugin.attacher.verify(record, claim))

    assert "nic2" not in node.gate.spec_path(claim.claim.uid).read_text()


def test_vanished_nic_does_not_affect_the_other_claim_of_the_pod(node: Node) -> None:
    pod = node.pod("web")
    first = node.allocate(pod, 1, claim="first")
    second = node.allocate(pod, 2, claim="second")
    node.run_pod(pod)
    node.kernel.remove_link("eth2", node.netns(pod))
    for _ in range(2):
        node.reconcile()
    assert node.gate_open(first)
    assert not node.gate_open(second)

    node.kernel.add_link("eth2", parent=pci_key(2).parent)  # it is back, and can't be set up
    node.kernel.fail_on(AddAddress)
    node.reconcile()

    assert node.in_pod(1, pod)
    assert node.phase(first) is Phase.ATTACHED
    assert node.gate_open(first)


def test_partial_attach_is_restored_when_the_claim_is_released(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 1
    with pytest.raises(OSError, match="No space left"):
        node.run_pod(pod)
    node.disk.room = None
    node.allocations.remove(claim.claim.uid)

    for _ in range(2):
        node.reconcile()

    assert node.is_on_host(1)
    assert node.phase(claim) is None
    assert not node.kernel.held


def test_namespace_of_a_released_claim_is_held_after_a_restart(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    node.allocations.remove(claim.claim.uid)
    node.restart()

    node.reconcile()

    assert node.kernel.held == {node.netns(pod)}


def test_sandbox_stopped_during_a_reconcile_is_not_attached(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)

    async def work() -> None:
        await node.plugin.synchronize((pod,))
        await node.plugin.stop_pod_sandbox(pod)
        await node.plugin.reconcile()

    node.run(work)

    assert node.phase(claim) is None


def test_record_first_read_by_a_hook_schedules_a_reconcile(node: Node) -> None:
    node.allocate(node.pod("web"), 1)

    node.plugin.is_unclaimed(node.pod("plain"))

    assert node.reconcile_requests == ["request"]


def virtual(node: Node, pod: Pod) -> Allocation:
    """Allocate a virtual NIC to the pod."""
    node.kernel.add_link("dummy0", kind="dummy")
    allocation = node.allocate(pod, 1)
    (given,) = allocation.devices
    device = replace(given.device, name="net-dummy0", key=DeviceKey("", "", "dummy0"))
    allocation = replace(allocation, devices=(replace(given, device=device),))
    node.allocations.put(allocation)
    return allocation


def test_virtual_nic_that_cannot_be_restored_keeps_its_namespace_alive(node: Node) -> None:
    pod = node.pod("web")
    virtual(node, pod)
    node.run_pod(pod)
    netns = node.netns(pod)
    node.kernel.fail_on(MoveLink, EBUSY)
    node.kernel.remove_netns(netns)
    node.stop_pod(pod)
    node.clock.seconds += 31

    node.reconcile()

    assert node.kernel.alive(netns), "it would be deleted with its namespace"
    node.kernel.clear_faults()
    node.reconcile()
    assert node.kernel.state("dummy0") is not None
    assert not node.kernel.held


def test_hardware_that_cannot_be_restored_does_not_delete_a_virtual_nic(
    node: Node,
) -> None:
    pod = node.pod("web")
    virtual(node, pod)
    node.allocate(pod, 2, claim="hardware")
    node.run_pod(pod)
    netns = node.netns(pod)
    node.kernel.fail_on(MoveLink, EBUSY)
    node.kernel.remove_netns(netns)
    node.stop_pod(pod)
    node.clock.seconds += 31

    node.reconcile()

    assert node.kernel.alive(netns), "the virtual NIC would be deleted with it"
    node.kernel.clear_faults()
    node.reconcile()
    assert node.kernel.state("dummy0") is not None
    assert node.is_on_host(2)
    assert not node.kernel.held


def test_virtual_nic_deleted_in_its_pod_holds_no_namespace(node: Node) -> None:
    pod = node.pod("web")
    claim = virtual(node, pod)
    node.run_pod(pod)
    node.kernel.remove_link("dummy0", node.netns(pod))
    node.reconcile()

    node.stop_pod(pod)

    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.phase is Phase.RESTORED
    assert record.failure is not None
    assert "no longer exists" in record.failure.message
    assert not node.kernel.held


def test_foreign_link_with_the_name_of_a_lost_virtual_nic_is_unchanged(
    node: Node,
) -> None:
    pod = node.pod("web")
    claim = virtual(node, pod)
    node.run_pod(pod)
    node.kernel.add_link("dummy0", kind="bridge", up=False)
    foreign = node.kernel.state("dummy0")
    node.kernel.destroy_netns(node.netns(pod))

    node.reconcile()

    assert node.phase(claim) is Phase.RESTORED
    assert node.kernel.state("dummy0") == foreign


def test_adopted_nic_is_restored_without_the_addresses_of_the_claim(
    node: Node,
) -> None:
    pod = node.pod("web")
    config = NetworkConfig(InterfaceConfig(name="fast0", addresses=("192.168.7.5/24",)))
    claim = node.allocate(pod, 1, config=config)
    node.run_pod(pod)
    node.attachments.remove(claim.claim.uid)
    node.restart()
    node.synchronize(pod)
    assert node.phase(claim) is Phase.ATTACHED

    node.stop_pod(pod)

    state = node.kernel.state("eth1")
    assert state is not None
    assert state.addresses == ()


def test_record_corrupted_at_run_time_is_rewritten(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    record = node.attachments.get(claim.claim.uid)
    path = node.root / "run" / "attachments" / f"{claim.claim.uid}.json"
    path.write_text("{")
    other = node.pod("db")
    node.allocate(other, 2, claim="other")

    node.run_pod(other)

    assert node.attachments.get(claim.claim.uid) == record
    node.restart()
    assert node.attachments.get(claim.claim.uid) == record
    assert (path.parent / "quarantine" / f"{path.name}.1").read_text() == "{"


def test_allocation_of_an_earlier_boot_is_refused(node: Node) -> None:
    pod = node.pod("web")
    node.allocations.put(replace(node.allocate(pod, 1), boot_id="before"))

    with pytest.raises(RefusedError, match="before the node was booted"):
        node.run_pod(pod)

    assert node.is_on_host(1)


def test_state_learned_by_a_reconcile_is_recorded_without_a_log_entry(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    older = tuple(replace(device, pod_index=0) for device in record.devices)
    node.attachments.put(replace(record, devices=older))
    capsys.readouterr()

    node.reconcile()

    assert node.attachments.get(claim.claim.uid) == record
    assert "changed" not in "".join(capsys.readouterr())


def test_internal_error_of_a_verification_is_cleared_by_the_next_success(
    node: Node,
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.synchronize(pod)
    with patch.object(FakeKernel, "session", side_effect=OSError(EMFILE, "too many")):
        node.synchronize(pod)
    assert failure_of(node, claim) == FAULT
    assert node.in_pod(1, pod)

    node.synchronize(pod)

    assert failure_of(node, claim) == ""
    assert node.gate_open(claim)


@pytest.mark.parametrize("ended", [False, True])
def test_hung_thread_of_an_earlier_plugin_is_cleared_by_the_next_reconcile(
    node: Node, *, ended: bool
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.synchronize(pod)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    hung = Failure(HUNG, "observe eth1 has not returned for 10 s", 1)
    node.attachments.put(replace(record, failure=hung))
    node.restart()

    node.synchronize(*(() if ended else (pod,)))

    assert node.phase(claim) is (Phase.RESTORED if ended else Phase.ATTACHED)
    assert failure_of(node, claim) == ""


def failure_of(node: Node, claim: Allocation) -> str:
    """Return the reason that is recorded of the claim, "" if there is none."""
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    return record.failure.reason if record.failure else ""
