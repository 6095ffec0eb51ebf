"""The hooks when something else breaks too: a full disk, a bad record, a NIC that vanishes."""

from collections.abc import Iterator
from dataclasses import replace
from errno import EBUSY
from pathlib import Path

import pytest

from dranet_nri.edits import cdi_ids
from dranet_nri.errors import AttachError, RefusedError
from dranet_nri.model import (
    Allocation,
    ContainerClaim,
    DeviceKey,
    Mount,
    Phase,
    Pod,
)
from dranet_nri.plan.ops import AddAddress, MoveLink
from tests.fakes.node import Node, pci_key


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Return a node with two NICs."""
    made = Node(tmp_path)
    yield made
    made.close()


# --------------------------------------------------------------------------- a full disk


def test_on_a_full_disk_a_pod_is_refused_and_nothing_is_moved_or_held(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 0

    with pytest.raises(OSError, match="No space left"):
        node.run_pod(pod)

    assert node.at_home(1)
    assert not node.kernel.held
    node.disk.room = None
    node.reconcile()
    assert node.in_pod(1, pod)
    assert node.gate_open(claim)


def test_a_pod_that_a_full_disk_keeps_refusing_is_accepted_after_three_times(node: Node) -> None:
    claim = node.allocate(node.pod("web"), 1)
    node.disk.room = 0
    for number in range(3):
        with pytest.raises(OSError, match="No space left"):
            node.run_pod(node.pod("web", f"try{number}"))

    node.run_pod(node.pod("web", "try3"))

    assert not node.gate_open(claim)


def test_a_disk_that_is_full_before_the_result_leaves_the_gate_shut_until_a_retry(
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
    assert node.at_home(1)


def test_a_full_disk_keeps_no_nic_from_coming_home_and_no_pod_from_stopping(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.synchronize(pod)
    assert node.in_pod(1, pod)
    node.disk.room = 0

    node.stop_pod(pod)

    assert node.at_home(1)
    assert not node.gate_open(claim)
    assert node.reconcile(), "it is still to be recorded"
    node.disk.room = None
    assert not node.reconcile()
    assert node.phase(claim) is Phase.HOME
    assert not node.kernel.held


def test_a_gate_that_could_not_be_written_is_trouble_until_it_is(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 2  # intent and result

    node.run_pod(pod)

    assert node.phase(claim) is Phase.ATTACHED
    assert not node.gate_open(claim)
    assert "trouble" in node.bell
    assert node.reconcile()
    node.disk.room = None
    assert not node.reconcile()
    assert node.gate_open(claim)


# --------------------------------------------------------------------------- refusals


def test_refused_sandboxes_leave_no_namespace_held(node: Node) -> None:
    old = node.pod("web", "one")
    node.allocate(old, 1)
    node.run_pod(old)
    node.kernel.fail_on(MoveLink, EBUSY)
    for number in range(3):
        with pytest.raises(RefusedError, match="on their way back"):
            node.run_pod(node.pod("web", f"try{number}"))

    assert node.kernel.held == {node.netns(old)}


def test_a_pod_with_a_broken_record_is_refused_three_times_and_then_held_by_the_gate(
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


def test_rejections_are_forgotten_once_the_pod_is_attached(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    for failures in (2, 3):
        node.kernel.fail_on(MoveLink, EBUSY)
        for _ in range(failures):
            with pytest.raises(AttachError):
                node.run_pod(pod)
        node.kernel.heal()
        node.run_pod(pod)
        node.stop_pod(pod)

    assert not node.plugin.rejections


def test_a_stop_that_leaves_a_nic_behind_asks_for_repair(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    node.kernel.fail_on(MoveLink, EBUSY)

    node.stop_pod(pod)

    assert node.bell[-1] == "trouble"


def test_rejections_are_forgotten_with_the_pods_claims(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.kernel.fail_on(MoveLink, EBUSY)
    with pytest.raises(AttachError):
        node.run_pod(pod)
    node.stop_pod(pod)
    node.allocations.remove(claim.claim.uid)

    node.reconcile()

    assert not node.plugin.rejections


def test_an_rdma_device_without_an_interface_serves_one_pod(node: Node) -> None:
    pod, thief = node.pod("web"), node.pod("thief")
    mine = rdma_only(node, pod, "mine")
    rdma_only(node, thief, "forged")
    node.run_pod(pod)

    with pytest.raises(RefusedError, match=r"held by pod default/web \(claim default/mine\)"):
        node.run_pod(thief)
    stolen = rdma_only(node, thief, "mine")
    with pytest.raises(RefusedError, match=r"held by pod default/web"):
        node.run_pod(thief)

    assert node.phase(mine) is Phase.ATTACHED
    node.stop_pod(pod)
    node.run_pod(thief)
    assert node.phase(stolen) is Phase.ATTACHED


def rdma_only(node: Node, pod: Pod, name: str) -> Allocation:
    """Record a claim for a PCI function that is an RDMA device alone."""
    allocation = node.allocate(pod, 1, claim=name, rdma=True)
    (given,) = allocation.devices
    key = DeviceKey("pci", "0000:09:00.0", "", "0000:09:00.0")
    device = replace(given.device, name="pci-0000-09-00-0", key=key)
    changed = replace(allocation, devices=(replace(given, device=device),))
    node.allocations.put(changed)
    return changed


def test_a_container_with_the_claims_file_needs_the_nic_whatever_the_record_lists(
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


# --------------------------------------------------------------------------- reconcile


def test_what_cannot_be_repaired_keeps_nothing_else_from_repair(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    (node.root / "cdi" / "dra.net-a.json").mkdir()  # a spec that cannot be removed
    stray = node.root / "cdi" / "dra.net-b.json"
    stray.write_text("{}")

    node.synchronize()

    assert node.at_home(1)
    assert not stray.exists()


def test_a_claim_that_was_given_another_nic_gets_that_one(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    claim = node.allocate(pod, 2)

    for _ in range(2):
        node.reconcile()

    assert node.at_home(1)
    assert node.in_pod(2, pod)
    assert (
        cdi_ids(claim)[0][1].partition("=")[2] in node.gate.spec_path(claim.claim.uid).read_text()
    )


def test_a_gate_is_not_opened_for_a_nic_that_the_claim_was_given_instead(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    claim = node.allocate(pod, 2)
    node.kernel.fail_on(MoveLink, EBUSY)  # the first one cannot leave

    node.reconcile()

    assert not node.gate_open(claim)
    assert node.in_pod(1, pod)


def test_a_record_and_a_gate_of_other_devices_are_not_mixed(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    claim = node.allocate(pod, 2)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None

    node.run(lambda: node.plugin.attacher.verify(record, claim))

    assert "nic2" not in node.gate.spec_path(claim.claim.uid).read_text()


def test_a_nic_that_vanished_costs_the_pods_other_claim_nothing(node: Node) -> None:
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


def test_a_half_done_attach_goes_home_when_its_claim_is_released(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 1
    with pytest.raises(OSError, match="No space left"):
        node.run_pod(pod)
    node.disk.room = None
    node.allocations.remove(claim.claim.uid)

    for _ in range(2):
        node.reconcile()

    assert node.at_home(1)
    assert node.phase(claim) is None
    assert not node.kernel.held


def test_after_a_restart_a_namespace_is_held_though_its_claim_is_released(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    node.allocations.remove(claim.claim.uid)
    node.restart()

    node.reconcile()

    assert node.kernel.held == {node.netns(pod)}


def test_a_sandbox_that_stopped_while_others_were_repaired_is_not_attached(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)

    async def work() -> None:
        await node.plugin.synchronize((pod,), ())
        await node.plugin.stop_pod_sandbox(pod)
        await node.plugin.reconcile()

    node.run(work)

    assert node.phase(claim) is None


def test_a_record_that_a_hook_saw_first_still_rings_the_bell(node: Node) -> None:
    node.allocate(node.pod("web"), 1)

    node.plugin.is_unclaimed(node.pod("plain"))

    assert node.bell == ["news"]


def test_a_virtual_nic_that_cannot_come_home_keeps_its_namespace_alive(node: Node) -> None:
    pod = node.pod("web")
    node.kernel.add_link("dummy0", kind="dummy")
    allocation = node.allocate(pod, 1)
    (given,) = allocation.devices
    device = replace(given.device, name="net-dummy0", key=DeviceKey("", "", "dummy0"))
    node.allocations.put(replace(allocation, devices=(replace(given, device=device),)))
    node.run_pod(pod)
    netns = node.netns(pod)
    node.kernel.fail_on(MoveLink, EBUSY)
    node.kernel.remove_netns(netns)
    node.stop_pod(pod)
    node.clock.seconds += 31

    node.reconcile()

    assert node.kernel.alive(netns), "it would die with its namespace"
    node.kernel.heal()
    node.reconcile()
    assert node.kernel.state("dummy0") is not None
    assert not node.kernel.held
