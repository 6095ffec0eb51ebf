"""Restore of RDMA devices: recreated, renamed, and returned from dying namespaces."""

from contextlib import suppress
from dataclasses import replace
from errno import EBUSY, EINVAL

import pytest

from dranet_nri.errors import AttachError, RefusedError
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    RESTORE_FAILED,
    Address,
    Allocation,
    InterfaceConfig,
    IpoibState,
    Link,
    NetnsId,
    NetworkConfig,
    ObjectRef,
    Phase,
    RdmaConfig,
    RdmaMode,
)
from dranet_nri.plan.ops import AddAddress, MoveRdma, RenameRdma, SetLink
from dranet_nri.plan.retry import MAX_RESTORE_TRIES
from tests.dranet_nri.attach.execution.journal import Crash
from tests.dranet_nri.attach.execution.node import (
    DATA,
    DUAL,
    GID_MAC,
    POD,
    RDMA_ONLY,
    FabricNode,
    Node,
    attached,
    claim,
    failure_of,
    given,
    kinds_of,
    pci,
    refusal,
)

pytestmark = pytest.mark.process


NAMED = NetworkConfig(rdma=RdmaConfig(name="hca0"))


@pytest.fixture
def node() -> Node:
    """Return a node whose RDMA devices belong to one namespace each."""
    return Node()


def reload_driver(node: Node, *names: str) -> None:
    """Remove the RDMA devices of mlx5_2's function and recreate them on the host."""
    for name in names:
        node.kernel.rdma.remove(name)
    for name in names:
        node.kernel.add_rdma(name, parent="0000:02:00.0")


def exceed_restore_limit(node: Node) -> None:
    """Detach more often than the limit of restore tries."""
    for _ in range(MAX_RESTORE_TRIES + 2):
        node.retry()
    assert node.journal.phases() == {DATA: Phase.DETACHING}


# --------------------------------------------------------------------------- recreated


@pytest.mark.parametrize("mode", RdmaMode)
def test_rdma_device_removed_by_its_driver_is_refused(node: Node, mode: RdmaMode) -> None:
    node.kernel.rdma.mode = mode
    node.kernel.rdma.remove("mlx5_2")
    node.rdma_at_start = node.rdma()

    message = refusal(node, given(pci(2)))

    assert "device nic-2: its RDMA device mlx5_2 is not on the host: its driver is being" in message
    assert "dranet-nri status" in message


def test_rdma_device_recreated_between_two_attempts_is_moved(node: Node) -> None:
    node.kernel.fail_on(AddAddress, Crash(), times=1)
    with pytest.raises(Crash):
        attached(node, given(pci(2)))
    (before,) = node.journal.records[DATA].devices[0].rdma
    node.restart()
    reload_driver(node, "mlx5_2")

    (now,) = attached(node, given(pci(2))).rdma

    assert now.index != before.index
    assert node.rdma(node.netns) == {"mlx5_2"}
    node.detach()
    node.assert_restored()


def test_recreated_rdma_device_does_not_hide_the_one_in_the_pod(
    node: Node,
) -> None:
    node.kernel.add_rdma("mlx5_20", parent="0000:02:00.0")
    node.rdma_at_start = node.rdma()
    node.kernel.fail_at(2, Crash())
    with pytest.raises(Crash):
        attached(node, given(DUAL))
    assert node.rdma(node.netns) == {"mlx5_2"}
    node.restart()
    reload_driver(node, "mlx5_20")

    with suppress(RefusedError):
        attached(node, given(DUAL))

    assert node.rdma(node.netns) == {"mlx5_2", "mlx5_20"}
    node.detach()
    node.assert_restored()


def test_rdma_device_recreated_on_the_host_counts_as_restored(node: Node) -> None:
    attached(node, given(pci(2)))
    reload_driver(node, "mlx5_2")

    node.detach()

    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


def test_rdma_device_removed_during_the_pod_is_reported_until_it_is_back(node: Node) -> None:
    attached(node, given(pci(2)))
    node.kernel.rdma.remove("mlx5_2")

    node.detach()

    assert node.journal.phases() == {DATA: Phase.DETACHING}
    assert failure_of(node).message == "RDMA device mlx5_2 is gone: load its driver again"
    exceed_restore_limit(node)
    assert failure_of(node).message == "RDMA device mlx5_2 is gone: load its driver again"
    node.kernel.add_rdma("mlx5_2", parent="0000:02:00.0")
    node.detach()
    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


# --------------------------------------------------------------------------- names


def test_rdma_name_of_the_pod_is_removed_before_the_move_to_the_host(node: Node) -> None:
    record = attached(node, given(pci(2), NAMED))

    assert node.rdma(node.netns) == {"hca0"}
    assert ([rdma.name for rdma in record.rdma], record.rdma_name) == (["mlx5_2"], "hca0")
    log = len(node.kernel.log)
    node.detach()
    assert kinds_of(node.kernel.log[log:])[:2] == [RenameRdma, MoveRdma]
    node.assert_restored()


def test_taken_rdma_device_name_is_reported_until_the_name_is_free(node: Node) -> None:
    attached(node, given(pci(2), NAMED))
    node.kernel.add_rdma("mlx5_2", parent="0000:44:00.0")

    node.detach()

    assert node.rdma() >= {"hca0", "mlx5_2"}, "the device is on the host"
    assert node.journal.phases() == {DATA: Phase.DETACHING}
    assert failure_of(node).message.startswith("RDMA device mlx5_2 is called hca0: its name is ta")
    exceed_restore_limit(node)
    assert "is called hca0" in failure_of(node).message
    node.kernel.rdma.remove("mlx5_2")
    node.detach()
    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


# --------------------------------------------------------------------------- IP over InfiniBand


def test_ipoib_mode_and_mtu_rejected_by_the_kernel_are_given_up_after_ten_tries() -> None:
    node = FabricNode()
    attached(node, *node.claims[0].devices)
    node.kernel.fail_on(SetLink, EINVAL)

    for number in range(1, MAX_RESTORE_TRIES + 1):
        node.retry()
        assert node.journal.phases() == {DATA: Phase.DETACHING}
        assert (failure_of(node).reason, failure_of(node).count) == (RESTORE_FAILED, number)
    node.retry()

    assert node.journal.phases() == {DATA: Phase.RESTORED}
    message = "set mode connected, umcast 1 on ibs5 in host: EINVAL"
    assert message in failure_of(node).message
    assert failure_of(node).message.endswith("restored without it after 10 tries")
    state = node.kernel.state("ibs5")
    assert state is not None
    assert state.link.up
    assert len(state.addresses) == 2


def rail(number: int) -> Allocation:
    """Return a claim, of a pod of its own, for the InfiniBand interface ib0 or ib1."""
    function = pci(5 + number)
    device = replace(function, key=replace(function.key, name=f"ib{number}"))
    made = claim(f"claim-{number}", given(device, NetworkConfig(InterfaceConfig("net1"))))
    return replace(made, pod=ObjectRef("default", f"web-{number}", f"uid-{number}"))


class RailsNode(Node):
    """A host with two InfiniBand interfaces of the kernel's own names, each claimed by a pod.

    Attributes:
        pods: the namespaces that have them.
    """

    watched: tuple[str, ...] = ("ib0", "ib1")

    def arrange(self) -> None:
        for number in range(2):
            parent = f"0000:{5 + number:02x}:00.0"
            mac = f"{GID_MAC[:-1]}{number}"
            link = Link(0, "", "ipoib", ARPHRD_INFINIBAND, mac, 2044, up=True, txqlen=256)
            self.kernel.add_link(
                f"ib{number}",
                parent=parent,
                link=replace(link, ipoib=IpoibState(connected=False)),
                addresses=(Address(f"10.0.{number}.5/24"),),
            )
            guid = f"0c42:a103:0065:5a1{number}"
            self.kernel.add_rdma(f"mlx5_{5 + number}", parent=parent, guid=guid)

    def attach_rails(self) -> tuple[NetnsId, NetnsId]:
        """Attach each interface to its pod in order; return the namespaces."""
        pods = self.netns, self.add_netns("/run/netns/2")
        for number, netns in enumerate(pods):
            pod = replace(POD, sandbox_id=f"sandbox-{number}", uid=f"uid-{number}")
            self.executor.attach(pod, netns, (rail(number),), dict(self.journal.records))
        return pods

    def rails(self) -> set[str]:
        """Return the names of the InfiniBand interfaces on the host."""
        return {e.name for e in self.kernel.space().plain() if e.arphrd == ARPHRD_INFINIBAND}


def detach_after_lost_namespaces(node: Node) -> None:
    """Detach three times from namespaces that no longer exist."""
    for _ in range(3):
        node.clock.now += 60
        node.detach(netns_exists=False)


def test_interfaces_returned_under_swapped_names_get_their_own_names() -> None:
    node = RailsNode()
    pods = node.attach_rails()
    for netns in reversed(pods):  # no plugin ran: the kernel recreated both, ib1's device first
        node.kernel.destroy_netns(netns)

    detach_after_lost_namespaces(node)

    assert set(node.journal.phases().values()) == {Phase.RESTORED}
    node.assert_restored()


def test_concurrent_detaches_restore_swapped_names() -> None:
    node = RailsNode()
    node.attach_rails()
    remade, others = node.kernel.rdma.remade, [node.journal.records["claim-0"]]

    def made_first(parent: str, source: NetnsId, target: NetnsId) -> None:
        """Restore the other claim on its thread before this one is renamed."""
        remade(parent, source, target)
        while others:
            node.executor.detach(others.pop(), netns_exists=True)

    node.kernel.rdma.remade = made_first
    node.executor.detach(node.journal.records["claim-1"], netns_exists=True)
    for _ in range(3):
        node.retry()

    assert set(node.journal.phases().values()) == {Phase.RESTORED}
    node.assert_restored()


def test_name_held_by_a_foreign_interface_is_not_taken() -> None:
    node = RailsNode()
    pods = node.attach_rails()
    other = Link(0, "", "ipoib", ARPHRD_INFINIBAND, f"{GID_MAC[:-1]}f", up=True)
    foreign = node.kernel.add_link("ib0", parent="0000:77:00.0", link=other)
    for netns in pods:
        node.kernel.destroy_netns(netns)

    detach_after_lost_namespaces(node)

    assert node.journal.phases() == {"claim-0": Phase.DETACHING, "claim-1": Phase.RESTORED}
    assert foreign in node.kernel.space().plain()
    spare = node.rails() - {"ib0", "ib1"}
    assert len(spare) == 1
    node.kernel.log.clear()
    detach_after_lost_namespaces(node)
    assert (node.kernel.log, node.rails()) == ([], {"ib0", "ib1", *spare}), "the plan is empty"
    node.kernel.remove_link("ib0")
    detach_after_lost_namespaces(node)
    assert set(node.journal.phases().values()) == {Phase.RESTORED}
    node.assert_restored()


# --------------------------------------------------------------------------- namespaces that die


@pytest.mark.parametrize("make", [Node, FabricNode], ids=["ethernet", "fabric"])
def test_devices_of_a_dying_namespace_are_restored_after_the_kernel_returns_them(
    make: type[Node],
) -> None:
    node = make()
    node.attach()
    node.kernel.remove_netns(node.netns)  # its cleanup waits: another process holds it

    node.detach(netns_exists=False)

    assert set(node.journal.phases().values()) == {Phase.DETACHING}
    assert all(record.failure is None for record in node.journal.records.values())

    node.kernel.release(node.netns)
    node.detach(netns_exists=False)

    assert set(node.journal.phases().values()) == {Phase.RESTORED}
    node.assert_restored()


def test_rdma_device_that_cannot_be_moved_keeps_its_record(node: Node) -> None:
    attached(node, given(RDMA_ONLY))
    node.kernel.fail_on(MoveRdma, EBUSY)

    node.detach()

    assert node.journal.phases() == {DATA: Phase.DETACHING}
    assert "move RDMA device mlx5_9 from pod to host: EBUSY" in failure_of(node).message
    node.restart()
    node.detach()
    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


def test_immovable_rdma_device_is_reported_before_the_nic_is_moved(node: Node) -> None:
    node.kernel.rdma.remove("mlx5_2")
    node.kernel.add_rdma("mlx5_2", parent="0000:02:00.0", movable=False)

    with pytest.raises(AttachError, match="move RDMA device mlx5_2 from host to pod") as caught:
        attached(node, given(pci(2)))

    assert "EOPNOTSUPP" in str(caught.value)
    assert node.kernel.log == []
    node.assert_restored()
