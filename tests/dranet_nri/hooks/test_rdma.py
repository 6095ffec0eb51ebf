"""RDMA devices of running pods: shares, changed device files, and warnings."""

import json
from dataclasses import replace

import pytest

from dranet_nri.cli import main
from dranet_nri.config import SHARED_MODE_WARNING
from dranet_nri.errors import RefusedError
from dranet_nri.model import Allocation, AttachedDevice, Phase, Pod, RdmaMode
from tests.dranet_nri.hooks.plugin_node import node
from tests.dranet_nri.telemetry.heartbeat_bench import beat
from tests.fakes.node import Node, pci_key

pytestmark = pytest.mark.process


__all__ = ["node"]


@pytest.fixture
def shared(node: Node) -> Node:
    """Return a node whose namespaces share all RDMA devices."""
    node.kernel.rdma.mode = RdmaMode.SHARED
    return node


def claimed(node: Node, pod: Pod, number: int, *, share: str = "") -> Allocation:
    """Record that the pod's claim has the NIC with its RDMA device, or a share of it."""
    known = f"mlx5_{number}" in {device.link.name for device in node.kernel.rdma.devices}
    made = node.allocate(pod, number, claim=pod.name, rdma=not known)
    (device,) = made.devices
    rdma = replace(device.device, rdma_devices=(f"mlx5_{number}",))
    allocation = replace(made, devices=(replace(device, device=rdma, share_id=share),))
    node.allocations.put(allocation)
    return allocation


def started(node: Node, name: str, number: int, *, share: str = "") -> tuple[Pod, Allocation]:
    """Start a pod that has the NIC, or a share of it."""
    pod = node.pod(name)
    allocation = claimed(node, pod, number, share=share)
    node.run_pod(pod)
    return pod, allocation


def device_of(node: Node, claim: Allocation) -> AttachedDevice:
    """Return the record of the claim's device."""
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    return record.devices[0]


def files_of(node: Node, claim: Allocation) -> list[str]:
    """Return the names of the device files of the claim's CDI spec, whose numbers the host has."""
    spec = json.loads(node.gate.spec_path(claim.claim.uid).read_bytes())
    nodes = spec["devices"][0]["containerEdits"].get("deviceNodes", ())
    return [node_["path"].removeprefix("/dev/infiniband/") for node_ in nodes]


def numbers_in(node: Node, pod: Pod) -> list[tuple[int, int]]:
    """Return the numbers of the device files that a container of the pod gets."""
    return [(device.major, device.minor) for device in node.create(pod).char_devices]


def renumber(node: Node, name: str, slot: int) -> None:
    """Give the device's files other numbers."""
    (device,) = (device for device in node.kernel.rdma.devices if device.link.name == name)
    device.slot = slot


# --------------------------------------------------------------------------- shares


def test_two_pods_share_a_device_that_stays_on_the_host(shared: Node) -> None:
    first, one = started(shared, "first", 1, share="5e0f")
    second, two = started(shared, "second", 1, share="8d7e")

    for claim in (one, two):
        assert shared.phase(claim) is Phase.ATTACHED
        assert files_of(shared, claim) == ["rdma_cm", "uverbs0"]
    for pod in (first, second):
        assert numbers_in(shared, pod) == [(10, 122), (231, 192)]
    assert shared.is_on_host(1)
    assert shared.kernel.log == []


def test_ended_pod_keeps_the_share_of_the_other_pod(shared: Node) -> None:
    first, one = started(shared, "first", 1, share="5e0f")
    second, two = started(shared, "second", 1, share="8d7e")
    before = device_of(shared, two)

    shared.stop_pod(first)
    shared.kernel.remove_netns(shared.netns(first))
    shared.synchronize(second)

    assert (shared.phase(one), shared.phase(two)) == (Phase.RESTORED, Phase.ATTACHED)
    assert not shared.gate_open(one)
    assert shared.gate_open(two)
    assert device_of(shared, two) == before
    assert shared.kernel.held == {shared.netns(second)}
    assert shared.kernel.log == []


def test_share_taken_over_by_the_next_sandbox_holds_one_namespace(
    shared: Node,
) -> None:
    old, new = shared.pod("web", "old"), shared.pod("web", "new")
    claim = claimed(shared, old, 1, share="5e0f")
    shared.synchronize(old)
    assert shared.phase(claim) is Phase.ATTACHED

    shared.run_pod(new)  # the end of the old one was not reported

    assert shared.gate_open(claim)
    assert shared.kernel.held == {shared.netns(new)}


def test_newly_allocated_share_replaces_the_earlier_one(shared: Node) -> None:
    pod, claim = started(shared, "web", 1, share="5e0f")
    claimed(shared, pod, 1, share="8d7e")

    shared.synchronize(pod)

    assert shared.phase(claim) is Phase.ATTACHED
    assert device_of(shared, claim).share_id == "8d7e"
    assert shared.gate_open(claim)


@pytest.mark.parametrize(("first", "second"), [("", "5e0f"), ("5e0f", "")])
def test_whole_device_and_a_share_of_it_are_not_given_together(
    shared: Node, first: str, second: str
) -> None:
    _, held = started(shared, "first", 1, share=first)
    late = shared.pod("second")
    claimed(shared, late, 1, share=second)

    with pytest.raises(
        RefusedError, match=r"pci-0000-01-00-0 of claim .* owned by pod default/fir"
    ):
        shared.run_pod(late)

    assert shared.phase(held) is Phase.ATTACHED


def test_share_lost_to_another_pod_holds_no_namespace(shared: Node) -> None:
    pod, claim = started(shared, "web", 1, share="5e0f")
    record = shared.attachments.get(claim.claim.uid)
    assert record is not None
    shared.attachments.put(replace(record, phase=Phase.INTENT))  # as when its driver was reloaded
    other, _ = started(shared, "other", 1)

    shared.synchronize(pod, other)

    assert shared.phase(claim) is Phase.FAILED
    assert shared.in_pod(1, other)
    assert shared.kernel.held == {shared.netns(other)}


def test_lost_share_taken_over_by_the_next_sandbox_holds_one_namespace(
    shared: Node,
) -> None:
    old, new = shared.pod("web", "old"), shared.pod("web", "new")
    claim = claimed(shared, old, 1, share="5e0f")
    shared.synchronize(old)
    record = shared.attachments.get(claim.claim.uid)
    assert record is not None
    shared.attachments.put(replace(record, phase=Phase.INTENT))  # as when its driver was reloaded

    shared.run_pod(new)  # the end of the old one was not reported

    assert shared.phase(claim) is Phase.ATTACHED
    assert shared.kernel.held == {shared.netns(new)}


# --------------------------------------------------------------------------- files that follow


@pytest.mark.parametrize("mode", RdmaMode)
def test_device_files_follow_changed_device_numbers(
    node: Node, mode: RdmaMode, capsys: pytest.CaptureFixture[str]
) -> None:
    pod, claim = started(node, "web", 1)
    node.kernel.rdma.mode = mode
    if mode is RdmaMode.SHARED:
        node.stop_pod(pod)
        node.run_pod(pod)
    renumber(node, "mlx5_1", 7)
    capsys.readouterr()

    node.reconcile()

    assert files_of(node, claim) == ["rdma_cm", "uverbs7"]
    assert numbers_in(node, pod) == [(10, 122), (231, 199)]
    node.reconcile()
    output = "".join(capsys.readouterr())
    assert output.count("RDMA device files changed") == 1
    assert "/dev/infiniband/uverbs7 231:199" in output


def test_shared_device_is_missing_while_its_driver_is_reloaded(
    shared: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    pod, claim = started(shared, "web", 1)
    shared.kernel.rdma.remove("mlx5_1")
    _, other = started(shared, "other", 2)  # gets the number
    capsys.readouterr()

    assert shared.reconcile(), "something is left to do"

    assert files_of(shared, other) == ["rdma_cm", "uverbs0"]
    assert not shared.gate_open(claim)
    with pytest.raises(RefusedError, match="RDMA device mlx5_1 is not on the host"):
        shared.create(pod)
    record = shared.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert "RDMA device mlx5_1 is not on the host" in record.failure.message
    assert "restart the pod" in "".join(capsys.readouterr())
    assert shared.in_pod(1, pod), "the net device stays with its pod"

    before = len(shared.kernel.log)
    shared.kernel.add_rdma("mlx5_1", parent=pci_key(1).parent)
    assert not shared.reconcile()

    assert files_of(shared, claim) == ["rdma_cm", "uverbs1"]
    assert numbers_in(shared, pod) == [(10, 122), (231, 193)]
    assert len(shared.kernel.log) == before, "nothing in the pod was touched"


def test_shared_device_that_returns_under_another_name_is_recorded_by_that_name(
    shared: Node,
) -> None:
    pod, claim = started(shared, "web", 1)
    shared.kernel.rdma.remove("mlx5_1")
    shared.kernel.add_rdma("mlx5_ib1", parent=pci_key(1).parent)

    shared.reconcile()

    assert dict(shared.create(pod).env)["DRA_NET_WEB_NIC1_RDMA_DEVICES"] == "mlx5_ib1"
    spec = json.loads(shared.gate.spec_path(claim.claim.uid).read_bytes())
    assert "DRA_NET_WEB_NIC1_RDMA_DEVICES=mlx5_ib1" in str(spec)
    assert device_of(shared, claim).shared_rdma == ("mlx5_ib1",)


def test_device_no_longer_shared_is_moved_to_its_pod(shared: Node) -> None:
    pod, claim = started(shared, "web", 1)
    _, share = started(shared, "part", 2, share="5e0f")

    shared.kernel.rdma.mode = RdmaMode.EXCLUSIVE  # ib_core was reloaded
    shared.reconcile()

    assert shared.kernel.rdma.names(shared.netns(pod)) == ["mlx5_1"]
    assert files_of(shared, claim) == ["rdma_cm", "uverbs0"]
    assert device_of(shared, claim).warnings == ()
    assert device_of(shared, claim).shared_rdma == ()
    assert not shared.gate_open(share)
    record = shared.attachments.get(share.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert "belong to one pod each" in record.failure.message


def test_device_of_a_reloaded_driver_is_moved_to_the_pod_again(
    node: Node,
) -> None:
    pod, claim = started(node, "web", 1)
    node.kernel.rdma.remove("mlx5_1")
    node.reconcile()
    assert not node.gate_open(claim)
    assert node.in_pod(1, pod), "the net device stays with its pod"

    node.kernel.add_rdma("mlx5_1", parent=pci_key(1).parent)
    node.reconcile()

    assert node.kernel.rdma.names(node.netns(pod)) == ["mlx5_1"]
    assert node.gate_open(claim)
    node.stop_pod(pod)
    assert node.is_on_host(1)
    assert node.phase(claim) is Phase.RESTORED


def test_device_files_of_a_released_claim_are_unchanged(node: Node) -> None:
    _, claim = started(node, "web", 1)
    before = files_of(node, claim)
    node.allocations.remove(claim.claim.uid)
    renumber(node, "mlx5_1", 7)

    node.reconcile()

    assert files_of(node, claim) == before


def test_device_numbers_that_cannot_be_recorded_are_retried(node: Node) -> None:
    _, claim = started(node, "web", 1)
    renumber(node, "mlx5_1", 7)
    node.disk.room = 0

    assert node.reconcile(), "something is left to do"
    node.disk.room = None
    assert not node.reconcile()

    assert "uverbs7" in files_of(node, claim)


def test_unchanged_device_numbers_write_nothing(node: Node) -> None:
    started(node, "web", 1)
    node.disk.room = 0

    assert not node.reconcile()


# --------------------------------------------------------------------------- logged


def test_warnings_are_logged_with_the_attach(
    shared: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    shared.kernel.rdma.kinds = ("uverbs",)

    started(shared, "web", 1)

    output = "".join(capsys.readouterr())
    assert output.count("attached with a warning") == 2
    assert SHARED_MODE_WARNING in output
    assert "no device file of kind rdma_cm (load module rdma_ucm)" in output


def status(node: Node, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Return the output of the command for a running plugin."""
    beat(node.root / "run")
    capsys.readouterr()
    directories = ("--allocations-dir", str(node.root / "allocations"))
    run = ("--run-dir", str(node.root / "run"))
    assert main(["status", *directories, *run, *flags]) == 0
    return capsys.readouterr().out


def test_status_shows_each_warning_once_with_its_devices(
    shared: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    started(shared, "first", 1)
    second, _ = started(shared, "second", 2)
    both = "pci-0000-01-00-0, pci-0000-02-00-0"

    assert status(shared, capsys).splitlines()[-1] == f"{both}: {SHARED_MODE_WARNING}"
    reported = json.loads(status(shared, capsys, "--output", "json"))
    assert reported["warnings"] == {SHARED_MODE_WARNING: both.split(", ")}

    shared.stop_pod(second)
    assert f"\npci-0000-01-00-0: {SHARED_MODE_WARNING}" in status(shared, capsys)


def test_status_without_warnings_shows_none(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    started(node, "web", 1)

    assert len(status(node, capsys).splitlines()) == 2
    assert json.loads(status(node, capsys, "--output", "json"))["warnings"] == {}
