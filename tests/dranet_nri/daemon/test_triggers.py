"""Device events of the kernel that trigger a reconcile, by the devices of the node's pods."""

from dataclasses import replace

import pytest

from dranet_nri.daemon.triggers import needs_reconcile
from dranet_nri.facts.uevents import DeviceEvent
from dranet_nri.model import Allocation, InterfaceConfig, NetworkConfig, Phase, Pod
from dranet_nri.plan.ops import MoveRdma
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import Node

pytestmark = pytest.mark.process


__all__ = ["node"]


def started(
    node: Node, name: str, number: int, config: NetworkConfig | None = None
) -> tuple[Pod, Allocation]:
    """Start a pod that has the NIC and its RDMA device."""
    pod = node.pod(name)
    claim = node.allocate(pod, number, claim=name, config=config, rdma=True)
    node.run_pod(pod)
    return pod, claim


def test_new_rdma_device_triggers_a_reconcile_only_for_pods_with_rdma(node: Node) -> None:
    plain = node.pod("plain")
    node.allocate(plain, 2, claim="plain")
    node.run_pod(plain)
    assert not node.plugin.reconciler.has_rdma()

    pod, _ = started(node, "web", 1)
    assert node.plugin.reconciler.has_rdma()

    node.kernel.fail_on(MoveRdma)
    node.stop_pod(pod)
    assert not node.plugin.reconciler.has_rdma(), "it is being restored, and retried anyway"


GONE = DeviceEvent("remove", "infiniband_verbs", "uverbs0")


@pytest.mark.parametrize(
    ("event", "looked_at"),
    [
        pytest.param(GONE, True, id="its file goes"),
        pytest.param(replace(GONE, name="uverbs1"), False, id="another's file goes"),
        pytest.param(replace(GONE, action="add"), False, id="its file comes"),
        pytest.param(DeviceEvent("remove", "pci", "0000:01:00.0"), True, id="it is pulled"),
        pytest.param(DeviceEvent("unbind", "pci", "0000:01:00.0"), True, id="it is unbound"),
        pytest.param(DeviceEvent("unbind", "pci", "0000:02:00.0"), False, id="another is"),
        pytest.param(DeviceEvent("add", "infiniband", "mlx5_7"), True, id="a new RDMA device"),
        pytest.param(DeviceEvent("add", "net", "eth7"), False, id="a new link"),
        pytest.param(DeviceEvent("overflow"), True, id="lost events"),
    ],
)
def test_event_triggers_a_reconcile_if_it_may_concern_a_device_of_a_pod(
    node: Node, event: DeviceEvent, *, looked_at: bool
) -> None:
    pod, _ = started(node, "web", 1)
    assert (
        needs_reconcile((DeviceEvent("change", "net", "lo"), event), node.plugin.reconciler)
        == looked_at
    )

    node.stop_pod(pod)
    assert needs_reconcile((event,), node.plugin.reconciler) == (event.action == "overflow")


def appearing(name: str, action: str = "add", under: str = "virtual") -> DeviceEvent:
    """Return the event of a link; it is virtual unless said otherwise."""
    return DeviceEvent(action, "net", name, f"/devices/{under}/net/{name}")


VETH = appearing("veth1a2b")
RXE = DeviceEvent("add", "infiniband", "rxe0", "/devices/virtual/infiniband/rxe0")


@pytest.mark.parametrize(
    ("event", "looked_at"),
    [
        pytest.param(appearing("eth7", under="pci0000:00/0000:00:03.0"), True, id="hardware"),
        pytest.param(appearing("eth7", "move", "pci0000:00/0000:00:03.0"), True, id="renamed"),
        pytest.param(DeviceEvent("bind", "pci", "0000:02:00.0"), True, id="a driver's"),
        pytest.param(RXE, True, id="an RDMA device"),
        pytest.param(appearing("eth1"), True, id="of its name on the host"),
        pytest.param(appearing("eth1", "move"), True, id="renamed to it"),
        pytest.param(appearing("net0"), True, id="of its name in the pod"),
        pytest.param(appearing("eth2"), False, id="of the name of one on the host"),
        pytest.param(VETH, False, id="another pod's veth"),
        pytest.param(replace(VETH, action="move"), False, id="another pod's, renamed"),
        pytest.param(replace(VETH, action="remove"), False, id="another pod's, gone"),
        pytest.param(GONE, False, id="gone by our own doing"),
    ],
)
def test_new_link_triggers_a_reconcile_if_it_may_be_a_missing_device(
    node: Node, event: DeviceEvent, *, looked_at: bool
) -> None:
    other, _ = started(node, "other", 2)
    node.stop_pod(other)
    pod, _ = started(node, "web", 1, NetworkConfig(InterfaceConfig(name="net0")))
    assert not needs_reconcile((appearing("eth1"), appearing("net0")), node.plugin.reconciler), (
        "it is there"
    )

    node.kernel.fail_on(MoveRdma)
    node.stop_pod(pod)

    assert node.plugin.reconciler.pending() == 1
    assert needs_reconcile((VETH, event), node.plugin.reconciler) == looked_at


def test_lost_rdma_device_closes_the_gate_after_a_reconcile(node: Node) -> None:
    _, claim = started(node, "web", 1)
    node.kernel.rdma.remove("mlx5_1")
    assert needs_reconcile((GONE,), node.plugin.reconciler)

    assert node.reconcile()

    assert not node.gate_open(claim)
    assert node.phase(claim) is not Phase.ATTACHED
