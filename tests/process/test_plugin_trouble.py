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
    Container,
    ContainerClaim,
    DeviceKey,
    Mount,
    Phase,
    Pod,
)
from dranet_nri.plan.ops import AddAddress, MoveLink
from tests.fakes.node import Node, pci_key

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


def stop_pod(node: Node, pod: Pod) -> None:
    """Do StopPodSandbox."""
    node.run(lambda: node.plugin.stop_pod_sandbox(pod))


def create(node: Node, pod: Pod, *mounts: Mount, name: str = "app") -> None:
    """Do CreateContainer."""
    container = Container("c", pod.sandbox_id, name, mounts=mounts)
    node.run(lambda: node.plugin.create_container(pod, container, LATER))


def synchronize(node: Node, *pods: Pod) -> None:
    """Do Synchronize and what follows it."""

    async def work() -> None:
        await node.plugin.synchronize(pods, ())
        await node.plugin.reconcile()

    node.run(work)


def phase(node: Node, claim: Allocation) -> Phase | None:
    """Return the recorded phase of the claim."""
    record = node.attachments.get(claim.claim.uid)
    return record.phase if record else None


def gate_open(node: Node, claim: Allocation) -> bool:
    """Whether the claim's CDI spec exists."""
    return node.gate.spec_path(claim.claim.uid).exists()


def on_host(node: Node, number: int) -> bool:
    """Whether the NIC is on the host as it was."""
    state = node.kernel.state(f"eth{number}")
    return (
        state is not None
        and state.link.up
        and [each.cidr for each in state.addresses] == [f"10.0.{number}.5/24"]
    )


def in_pod(node: Node, number: int, pod: Pod) -> bool:
    """Whether the NIC is in the sandbox."""
    return node.kernel.state(f"eth{number}", node.netns(pod)) is not None


# --------------------------------------------------------------------------- a full disk


def test_on_a_full_disk_a_pod_is_refused_and_nothing_is_moved_or_held(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 0

    with pytest.raises(OSError, match="No space left"):
        run_pod(node, pod)

    assert on_host(node, 1)
    assert not node.kernel.held
    node.disk.room = None
    node.run(node.plugin.reconcile)
    assert in_pod(node, 1, pod)
    assert gate_open(node, claim)


def test_a_pod_that_a_full_disk_keeps_refusing_is_accepted_after_three_times(node: Node) -> None:
    claim = node.allocate(node.pod("web"), 1)
    node.disk.room = 0
    for number in range(3):
        with pytest.raises(OSError, match="No space left"):
            run_pod(node, node.pod("web", f"try{number}"))

    run_pod(node, node.pod("web", "try3"))

    assert not gate_open(node, claim)


def test_a_disk_that_is_full_before_the_result_leaves_the_gate_shut_until_a_retry(
    node: Node,
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 1

    with pytest.raises(OSError, match="No space left"):
        run_pod(node, pod)
    assert not gate_open(node, claim)

    node.disk.room = None
    node.run(node.plugin.reconcile)
    assert phase(node, claim) is Phase.ATTACHED
    assert gate_open(node, claim)
    stop_pod(node, pod)
    assert on_host(node, 1)


def test_a_full_disk_keeps_no_nic_from_coming_home_and_no_pod_from_stopping(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    synchronize(node, pod)
    assert in_pod(node, 1, pod)
    node.disk.room = 0

    stop_pod(node, pod)

    assert on_host(node, 1)
    assert not gate_open(node, claim)
    assert node.run(node.plugin.reconcile), "it is still to be recorded"
    node.disk.room = None
    assert not node.run(node.plugin.reconcile)
    assert phase(node, claim) is Phase.HOME
    assert not node.kernel.held


def test_a_gate_that_could_not_be_written_is_trouble_until_it_is(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 2  # intent and result

    run_pod(node, pod)

    assert phase(node, claim) is Phase.ATTACHED
    assert not gate_open(node, claim)
    assert "trouble" in node.bell
    assert node.run(node.plugin.reconcile)
    node.disk.room = None
    assert not node.run(node.plugin.reconcile)
    assert gate_open(node, claim)


# --------------------------------------------------------------------------- refusals


def test_refused_sandboxes_leave_no_namespace_held(node: Node) -> None:
    old = node.pod("web", "one")
    node.allocate(old, 1)
    run_pod(node, old)
    node.kernel.fail_on(MoveLink, EBUSY)
    for number in range(3):
        with pytest.raises(RefusedError, match="on their way back"):
            run_pod(node, node.pod("web", f"try{number}"))

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
            run_pod(node, pod)

    run_pod(node, pod)

    with pytest.raises(RefusedError, match="cannot be used"):
        create(node, pod)


def test_rejections_are_forgotten_with_the_pods_claims(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.kernel.fail_on(MoveLink, EBUSY)
    with pytest.raises(AttachError):
        run_pod(node, pod)
    stop_pod(node, pod)
    node.allocations.remove(claim.claim.uid)

    node.run(node.plugin.reconcile)

    assert not node.plugin.rejections


def test_an_rdma_device_without_an_interface_serves_one_pod(node: Node) -> None:
    pod, thief = node.pod("web"), node.pod("thief")
    mine = rdma_only(node, pod, "mine")
    rdma_only(node, thief, "forged")
    run_pod(node, pod)

    with pytest.raises(RefusedError, match=r"held by pod default/web \(claim default/mine\)"):
        run_pod(node, thief)
    stolen = rdma_only(node, thief, "mine")
    with pytest.raises(RefusedError, match=r"held by pod default/web"):
        run_pod(node, thief)

    assert phase(node, mine) is Phase.ATTACHED
    stop_pod(node, pod)
    run_pod(node, thief)
    assert phase(node, stolen) is Phase.ATTACHED


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
        run_pod(node, pod)
    source = f"{node.gate.metadata_dir}/{claim.claim.uid}/nic1/metadata.json"

    with pytest.raises(AttachError):
        create(node, pod, Mount(source, "/x"), name="unlisted")
    node.allocations.remove(claim.claim.uid)
    with pytest.raises(RefusedError, match="not attached"):
        create(node, pod, Mount(source, "/x"), name="unlisted")


# --------------------------------------------------------------------------- reconcile


def test_what_cannot_be_repaired_keeps_nothing_else_from_repair(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    run_pod(node, pod)
    (node.root / "cdi" / "dra.net-a.json").mkdir()  # a spec that cannot be removed
    stray = node.root / "cdi" / "dra.net-b.json"
    stray.write_text("{}")

    synchronize(node)

    assert on_host(node, 1)
    assert not stray.exists()


def test_a_claim_that_was_given_another_nic_gets_that_one(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    run_pod(node, pod)
    claim = node.allocate(pod, 2)

    for _ in range(2):
        node.run(node.plugin.reconcile)

    assert on_host(node, 1)
    assert in_pod(node, 2, pod)
    assert (
        cdi_ids(claim)[0][1].partition("=")[2] in node.gate.spec_path(claim.claim.uid).read_text()
    )


def test_a_nic_that_vanished_costs_the_pods_other_claim_nothing(node: Node) -> None:
    pod = node.pod("web")
    first = node.allocate(pod, 1, claim="first")
    second = node.allocate(pod, 2, claim="second")
    run_pod(node, pod)
    node.kernel.remove_link("eth2", node.netns(pod))
    for _ in range(2):
        node.run(node.plugin.reconcile)
    assert gate_open(node, first)
    assert not gate_open(node, second)

    node.kernel.add_link("eth2", parent=pci_key(2).parent)  # it is back, and can't be set up
    node.kernel.fail_on(AddAddress)
    node.run(node.plugin.reconcile)

    assert in_pod(node, 1, pod)
    assert phase(node, first) is Phase.ATTACHED
    assert gate_open(node, first)


def test_a_half_done_attach_goes_home_when_its_claim_is_released(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.disk.room = 1
    with pytest.raises(OSError, match="No space left"):
        run_pod(node, pod)
    node.disk.room = None
    node.allocations.remove(claim.claim.uid)

    for _ in range(2):
        node.run(node.plugin.reconcile)

    assert on_host(node, 1)
    assert phase(node, claim) is None
    assert not node.kernel.held


def test_after_a_restart_a_namespace_is_held_though_its_claim_is_released(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    run_pod(node, pod)
    node.allocations.remove(claim.claim.uid)
    node.restart()

    node.run(node.plugin.reconcile)

    assert node.kernel.held == {node.netns(pod)}


def test_a_sandbox_that_stopped_while_others_were_repaired_is_not_attached(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)

    async def work() -> None:
        await node.plugin.synchronize((pod,), ())
        await node.plugin.stop_pod_sandbox(pod)
        await node.plugin.reconcile()

    node.run(work)

    assert phase(node, claim) is None


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
    run_pod(node, pod)
    netns = node.netns(pod)
    node.kernel.fail_on(MoveLink, EBUSY)
    node.kernel.remove_netns(netns)
    stop_pod(node, pod)
    node.clock.seconds += 31

    node.run(node.plugin.reconcile)

    assert node.kernel.alive(netns), "it would die with its namespace"
    node.kernel.heal()
    node.run(node.plugin.reconcile)
    assert node.kernel.state("dummy0") is not None
    assert not node.kernel.held


# --------------------------------------------------------------------------- restarts


@pytest.mark.parametrize("gate", ["open", "closed"])
@pytest.mark.parametrize("place", ["in the pod", "at home", "returned bare"])
@pytest.mark.parametrize("recorded", [Phase.INTENT, Phase.ATTACHED, Phase.FAILED, Phase.DETACHING])
@pytest.mark.parametrize("listed", [True, False], ids=["lives", "gone"])
def test_whatever_a_crash_left_a_restart_makes_it_whole(
    node: Node, recorded: Phase, place: str, gate: str, *, listed: bool
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    run_pod(node, pod)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    if place == "at home":
        node.plugin.attacher.executor.detach(record, netns_alive=True)
    elif place == "returned bare":
        node.kernel.destroy_netns(node.netns(pod))
        pod = node.pod("web")  # the runtime made it a new one under the same path
    node.attachments.put(replace(record, phase=recorded))
    if gate == "closed":
        node.gate.close(claim.claim.uid)
    node.restart()

    synchronize(node, *([pod] if listed else []))
    node.run(node.plugin.reconcile)

    if listed:
        assert in_pod(node, 1, pod)
        assert phase(node, claim) is Phase.ATTACHED
        assert gate_open(node, claim)
        stop_pod(node, pod)
    assert on_host(node, 1)
    assert phase(node, claim) is Phase.HOME
    assert not gate_open(node, claim)
    assert not node.kernel.held


@pytest.mark.parametrize("place", ["in the pod", "at home"])
@pytest.mark.parametrize("recorded", [Phase.INTENT, Phase.ATTACHED, Phase.FAILED, Phase.DETACHING])
def test_before_the_runtime_is_there_a_restart_opens_no_gate_without_its_nic(
    node: Node, recorded: Phase, place: str
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    run_pod(node, pod)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    if place == "at home":
        node.plugin.attacher.executor.detach(record, netns_alive=True)
    node.attachments.put(replace(record, phase=recorded))
    node.restart()

    node.run(node.plugin.reconcile)

    assert gate_open(node, claim) == (recorded is Phase.ATTACHED and place == "in the pod")
