"""The hooks on a node in memory."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EBUSY

import pytest

from dranet_nri.cdi.names import cdi_ids
from dranet_nri.component.files import FileSystem
from dranet_nri.errors import AttachError, DranetError, RefusedError
from dranet_nri.model import (
    Container,
    Mount,
    NetworkConfig,
    Phase,
    Route,
    RouteConfig,
)
from dranet_nri.plan.ops import MoveLink
from dranet_nri.plan.pod_network import MAX_ROUTES
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import LATER, Node, pci_key

pytestmark = pytest.mark.process


__all__ = ["node"]


def test_claimed_nic_is_in_the_pod_with_its_address_and_an_open_gate(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)

    node.run_pod(pod)

    state = node.kernel.state("eth1", node.netns(pod))
    assert state is not None
    assert state.link.up
    assert [address.cidr for address in state.addresses] == ["10.0.1.5/24"]
    assert node.phase(claim) is Phase.ATTACHED
    spec = json.loads(node.gate.spec_path(claim.claim.uid).read_bytes())
    assert [f"{spec['kind']}={device['name']}" for device in spec["devices"]] == [
        cdi for _, cdi in cdi_ids(claim)
    ]


def test_stopped_pod_leaves_the_host_restored_and_the_gate_closed(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1, 2)
    node.run_pod(pod)

    node.stop_pod(pod)

    assert node.is_on_host(1)
    assert node.is_on_host(2)
    assert node.phase(claim) is Phase.RESTORED
    assert not node.gate_open(claim)
    assert not node.kernel.held


def test_files_are_not_freed_until_the_nic_has_moved(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freeing them before the move would delay it."""
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    states: list[tuple[bool, bool]] = []

    @contextmanager
    def freed_later(_: FileSystem) -> Iterator[None]:
        states.append((node.gate_open(claim), node.is_on_host(1)))
        yield
        states.append((node.gate_open(claim), node.is_on_host(1)))

    monkeypatch.setattr(FileSystem, "freed_later", freed_later)
    node.run_pod(pod)
    node.stop_pod(pod)

    attach, detach = [(False, True), (False, False)], [(True, False), (False, True)]
    assert states == [*attach, *detach]


@pytest.mark.parametrize(("routes", "is_same"), [(0, True), (MAX_ROUTES + 1, False)])
def test_equal_snapshot_is_the_one_that_was_taken_before(
    node: Node, routes: int, *, is_same: bool
) -> None:
    """Its JSON is cached, see json_codec. One with many routes is not kept."""
    for number in range(routes):
        route = Route(f"10.99.{number}.0/24", scope=253, metric=number + 1)
        node.kernel.space(None).add_route("arrange", "eth1", route)
    snapshots = []
    for name in ("one", "two"):
        pod = node.pod(name)
        claim = node.allocate(pod, 1)
        node.run_pod(pod)
        record = node.attachments.get(claim.claim.uid)
        assert record is not None
        snapshots.append(record.devices[0].snapshot)
        node.stop_pod(pod)
        node.allocations.remove(claim.claim.uid)

    assert snapshots[0] is not None
    assert snapshots[0] == snapshots[1]
    assert (snapshots[0] is snapshots[1]) is is_same


def test_record_is_removed_after_the_release_of_a_restored_claim(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    node.stop_pod(pod)
    node.reconcile()
    assert node.phase(claim) is Phase.RESTORED

    node.allocations.remove(claim.claim.uid)
    node.reconcile()

    assert node.phase(claim) is None


def test_new_sandbox_takes_over_the_nic_of_the_earlier_one(node: Node) -> None:
    old = node.pod("web", "one")
    claim = node.allocate(old, 1)
    node.run_pod(old)

    new = node.pod("web", "two")
    node.run_pod(new)

    assert node.kernel.state("eth1", node.netns(new)) is not None
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.sandbox_id == "two"
    node.stop_pod(new)
    assert node.is_on_host(1)


def test_device_that_cannot_be_restored_keeps_its_record(node: Node) -> None:
    old = node.pod("web", "one")
    claim = node.allocate(old, 1)
    node.run_pod(old)
    node.kernel.fail_on(MoveLink, EBUSY)

    with pytest.raises(RefusedError, match="are not restored yet"):
        node.run_pod(node.pod("web", "two"))

    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.sandbox_id == "one"
    assert record.phase is Phase.DETACHING
    node.kernel.clear_faults()
    node.reconcile()
    assert node.kernel.state("eth1", node.netns(node.pod("web", "two"))) is not None


def test_forged_record_for_an_owned_nic_is_refused_with_the_owner(node: Node) -> None:
    pod, intruder = node.pod("web"), node.pod("thief")
    node.allocate(pod, 1, claim="mine")
    forged = node.allocate(intruder, 1, claim="forged")
    node.run_pod(pod)

    with pytest.raises(RefusedError, match=r"owned by pod default/web \(claim default/mine\)"):
        node.run_pod(intruder)

    assert node.kernel.state("eth1", node.netns(pod)) is not None
    assert not node.gate_open(forged)


def test_container_with_the_file_of_a_foreign_claim_is_refused_with_the_owner(
    node: Node,
) -> None:
    pod, second = node.pod("web"), node.pod("second")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    source = f"{node.gate.metadata_dir}/{claim.claim.uid}/nic1/metadata.json"
    container = Container("c", second.sandbox_id, "app", mounts=(Mount(source, "/x"),))

    assert not node.plugin.is_unclaimed(second, container)
    with pytest.raises(RefusedError, match="which pod default/web owns"):
        node.run(lambda: node.plugin.create_container(second, container, LATER))


def test_sandbox_is_accepted_after_three_rejections_with_a_closed_gate(node: Node) -> None:
    claim = node.allocate(node.pod("web"), 1)
    node.kernel.fail_on(MoveLink, EBUSY)
    for number in range(3):
        pod = node.pod("web", f"try{number}")
        with pytest.raises(AttachError):
            node.run_pod(pod)
        node.stop_pod(pod)

    last = node.pod("web", "try3")
    node.run_pod(last)

    assert not node.gate_open(claim)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert record.failure.count == 4
    node.kernel.clear_faults()
    node.reconcile()
    assert node.gate_open(claim)
    assert node.kernel.state("eth1", node.netns(last)) is not None


def test_sandbox_is_never_rejected_if_the_runtime_keeps_rejected_ones(node: Node) -> None:
    node.plugin.may_reject = False
    claim = node.allocate(node.pod("web"), 1)
    node.kernel.fail_on(MoveLink, EBUSY)
    pod = node.pod("web")

    node.run_pod(pod)

    assert not node.gate_open(claim)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    with pytest.raises(AttachError):
        node.create(pod)
    node.kernel.clear_faults()
    node.reconcile()
    assert node.gate_open(claim)


def test_returned_nic_is_attached_to_the_waiting_pod(node: Node) -> None:
    node.plugin.may_reject = False
    first, second = node.pod("first"), node.pod("second")
    node.allocate(first, 1, claim="one")
    waiting = node.allocate(second, 1, claim="two")
    node.run_pod(first)
    node.run_pod(second)
    node.reconcile()
    node.reconcile_requests.clear()

    node.stop_pod(first)

    assert node.reconcile_requests == ["wake"]
    node.reconcile()
    assert node.gate_open(waiting)


def test_lost_device_closes_the_gate_and_is_attached_again(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    inside = node.kernel.state("eth1", node.netns(pod))
    assert inside is not None
    node.kernel.remove_link("eth1", node.netns(pod))
    node.reconcile()
    assert not node.gate_open(claim)

    node.kernel.add_link("eth1", parent=pci_key(1).parent)  # the driver was bound again
    node.reconcile()

    assert node.gate_open(claim)
    assert node.kernel.state("eth1", node.netns(pod)) is not None


def test_gate_stays_closed_after_a_crash_during_the_detach(
    node: Node,
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    node.kernel.fail_on(MoveLink, EBUSY)
    node.stop_pod(pod)
    node.kernel.clear_faults()

    node.restart()
    node.reconcile()

    assert not node.gate_open(claim)
    assert node.is_on_host(1)


def test_namespace_without_a_path_is_released_after_thirty_seconds(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    netns = node.netns(pod)
    node.kernel.fail_on(MoveLink, EBUSY)
    node.kernel.remove_netns(netns)
    node.stop_pod(pod)
    node.clock.seconds += 29
    node.reconcile()
    assert node.kernel.alive(netns)

    node.clock.seconds += 1
    node.reconcile()
    assert not node.kernel.alive(netns)  # now the kernel itself returns the NIC
    node.reconcile()

    assert node.is_on_host(1)


def test_removed_allocation_does_not_detach_a_running_pod(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    node.allocations.remove(claim.claim.uid)

    node.reconcile()

    assert node.kernel.state("eth1", node.netns(pod)) is not None
    node.stop_pod(pod)
    assert node.is_on_host(1)


def test_concurrent_hooks_of_one_sandbox_attach_once(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)

    async def both() -> None:
        container = Container("c", pod.sandbox_id, "app")
        await asyncio.gather(
            node.plugin.run_pod_sandbox(pod, LATER),
            node.plugin.create_container(pod, container, LATER),
            node.plugin.reconcile(),
        )

    node.run(both)

    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.attempt == 1
    assert record.phase is Phase.ATTACHED


def test_route_of_two_devices_is_added_on_both_with_different_metrics(
    node: Node,
) -> None:
    pod = node.pod("web")
    config = NetworkConfig(routes=(RouteConfig("10.200.0.0/16", scope=253),))
    node.allocate(pod, 1, 2, config=config)

    node.run_pod(pod)

    states = [node.kernel.state(f"eth{number}", node.netns(pod)) for number in (1, 2)]
    routes = [[r for r in state.routes if r.scope == 253] for state in states if state]
    assert [route[0].metric for route in routes] == [0, 1]
    node.stop_pod(pod)
    assert node.is_on_host(1)
    assert node.is_on_host(2)


def test_failed_claim_undoes_the_other_claim_of_the_pod(node: Node) -> None:
    pod = node.pod("web")
    first = node.allocate(pod, 1, claim="first")
    second = node.allocate(pod, 2, claim="second")
    node.kernel.fail_at(4)

    with pytest.raises(DranetError):
        node.run_pod(pod)

    assert node.is_on_host(1)
    assert node.is_on_host(2)
    assert node.phase(first) is Phase.FAILED
    assert node.phase(second) is Phase.FAILED
