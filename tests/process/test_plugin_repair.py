"""Rounds of repair: what they bring about, and what they leave alone."""

from collections.abc import Iterator
from dataclasses import replace
from errno import EBUSY
from pathlib import Path

import pytest

from dranet_nri.edits import cdi_ids
from dranet_nri.model import (
    DeviceKey,
    Phase,
)
from dranet_nri.plan.ops import AddAddress, MoveLink
from tests.fakes.node import Node, pci_key


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Return a node with two NICs."""
    made = Node(tmp_path)
    yield made
    made.close()


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
