"""Restart of the plugin, for all combinations of record, NIC location and gate."""

from dataclasses import replace

import pytest

from dranet_nri.model import Address, AllocatedDevice, Device, DeviceKey, Link, Phase
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import Node

pytestmark = pytest.mark.process


__all__ = ["node"]


@pytest.mark.parametrize("gate", ["open", "closed"])
@pytest.mark.parametrize("location", ["in the pod", "on the host", "returned bare"])
@pytest.mark.parametrize("recorded", [Phase.INTENT, Phase.ATTACHED, Phase.FAILED, Phase.DETACHING])
@pytest.mark.parametrize("listed", [True, False], ids=["lives", "gone"])
def test_restart_after_any_crash_completes_the_attach(
    node: Node, recorded: Phase, location: str, gate: str, *, listed: bool
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    if location == "on the host":
        node.plugin.attacher.executor.detach(record, netns_exists=True)
    elif location == "returned bare":
        node.kernel.destroy_netns(node.netns(pod))
        pod = node.pod("web")  # the runtime made it a new one under the same path
    node.attachments.put(replace(record, phase=recorded))
    if gate == "closed":
        node.gate.close(claim.claim.uid)
    node.restart()

    node.synchronize(*([pod] if listed else []))
    node.reconcile()

    if listed:
        assert node.in_pod(1, pod)
        assert node.phase(claim) is Phase.ATTACHED
        assert node.gate_open(claim)
        node.stop_pod(pod)
    assert node.is_on_host(1)
    assert node.phase(claim) is Phase.RESTORED
    assert not node.gate_open(claim)
    assert not node.kernel.held


def test_virtual_nic_waiting_for_its_name_is_kept_over_a_restart(node: Node) -> None:
    link = Link(0, "wire", kind="veth", mac="02:00:00:00:00:09", up=True)
    node.kernel.add_link("wire", kind="veth", link=link, addresses=(Address("10.0.9.5/24"),))
    pod = node.pod("web")
    wire = AllocatedDevice("nic", "node", Device("wire", DeviceKey("", "", "wire")))
    claim = replace(node.allocate(pod, 1), devices=(wire,))
    node.allocations.put(claim)
    node.run_pod(pod)
    node.kernel.add_link("wire", kind="dummy")
    netns = node.netns(pod)
    node.stop_pod(pod)
    node.kernel.remove_netns(netns)  # only the plugin's descriptor keeps it
    node.restart()
    node.synchronize(rounds=2)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert "interface wire is called dra" in record.failure.message

    node.kernel.remove_link("wire")
    node.synchronize()

    state = node.kernel.state("wire")
    assert state is not None
    assert (state.link.mac, state.link.up) == (link.mac, True)
    assert [address.cidr for address in state.addresses] == ["10.0.9.5/24"]
    assert node.phase(claim) is Phase.RESTORED


@pytest.mark.parametrize("location", ["in the pod", "on the host"])
@pytest.mark.parametrize("recorded", [Phase.INTENT, Phase.ATTACHED, Phase.FAILED, Phase.DETACHING])
def test_restart_without_a_runtime_opens_no_gate_without_its_nic(
    node: Node, recorded: Phase, location: str
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    if location == "on the host":
        node.plugin.attacher.executor.detach(record, netns_exists=True)
    node.attachments.put(replace(record, phase=recorded))
    node.restart()

    node.reconcile()

    assert node.gate_open(claim) == (recorded is Phase.ATTACHED and location == "in the pod")
