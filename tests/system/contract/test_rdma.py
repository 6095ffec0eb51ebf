"""The contract of RDMA devices: observations, moves, names and device files.

Here the kernel in memory is held to it; the one we run on in tests/system/vm/test_contract_rdma.py.
"""

from contextlib import closing
from dataclasses import replace
from errno import EEXIST, ENODEV, EOPNOTSUPP

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.model import Ns, ObservedRdma, RdmaLink, RdmaMode
from dranet_nri.plan.identity import RdmaIdentity
from dranet_nri.plan.ops import MoveRdma, RenameRdma
from tests.box.waiting import wait_until
from tests.system.contract.fabric import (
    NAMES,
    Bench,
    Fabric,
    FakeFabric,
    bench,
    fixed,
    movable,
    shared,
)

__all__ = ["fixed", "movable", "shared"]

UNSPECIFIED = 4711  # an index that no device has


@pytest.fixture
def movable_fabric() -> Fabric:
    """Return a machine in exclusive mode whose devices move."""
    return FakeFabric(RdmaMode.EXCLUSIVE, movable=True)


@pytest.fixture
def fixed_fabric() -> Fabric:
    """Return a machine in exclusive mode whose driver cannot move devices its devices."""
    return FakeFabric(RdmaMode.EXCLUSIVE, movable=False)


@pytest.fixture
def shared_fabric() -> Fabric:
    """Return a machine in shared mode."""
    return FakeFabric(RdmaMode.SHARED, movable=False)


# --------------------------------------------------------------------------- observations


def test_host_rdma_device_is_found_by_its_nic(movable: Bench) -> None:
    observed = movable.seen()

    (link,) = observed.host
    assert (link.name, bool(link.node_guid)) == ("soft0", True)
    assert observed == ObservedRdma(
        RdmaMode.EXCLUSIVE, (link,), (), frozenset({"soft1"}), frozenset()
    )
    assert movable.on_host("soft1").index != link.index


def test_rdma_device_without_a_parent_is_found_by_name(fixed: Bench) -> None:
    assert [rdma.name for rdma in fixed.seen().host] == ["soft0"]


@pytest.mark.parametrize("name", NAMES)
def test_rdma_device_without_a_parent_is_found_by_its_port(fixed: Bench, name: str) -> None:
    key = fixed.fabric.key(name)
    nic = fixed.session.observe(key, "").host
    assert nic is not None

    observed = fixed.session.rdma(RdmaIdentity(key, (), host_netdev=nic.link.index))

    assert [rdma.name for rdma in observed.host] == [name]


def test_nic_without_rdma_has_no_rdma_device(movable: Bench) -> None:
    key = replace(movable.fabric.key("soft0"), parent="0000:ff:1f.7", pci="0000:ff:1f.7")

    observed = movable.session.rdma(RdmaIdentity(key, ("soft7",), host_netdev=UNSPECIFIED))

    assert (observed.host, observed.taken_host_names) == ((), frozenset({"soft0", "soft1"}))


def test_session_without_a_pod_searches_only_the_host(movable: Bench) -> None:
    link = movable.move_in()

    with closing(movable.fabric.kernel.session(None)) as session:
        observed = session.rdma(RdmaIdentity(movable.fabric.key("soft0"), ("soft0",), (link,)))

    assert (observed.host, observed.pod, observed.mode) == ((), (), RdmaMode.EXCLUSIVE)


# --------------------------------------------------------------------------- moves


def test_rdma_move_keeps_index_name_and_guid(movable: Bench) -> None:
    link = movable.move_in()

    observed = movable.seen(link)

    assert (observed.host, observed.pod) == ((), (link,))
    assert (observed.taken_host_names, observed.taken_pod_names) == (
        frozenset({"soft1"}),
        frozenset(),
    )


def test_unrecorded_rdma_device_in_the_pod_is_found_by_name(movable: Bench) -> None:
    link = movable.move_in()

    observed = movable.seen()
    other = movable.session.rdma(RdmaIdentity(movable.fabric.key("soft0"), ("soft7",)))

    assert (observed.host, observed.pod, observed.taken_pod_names) == ((), (link,), frozenset())
    assert (other.host, other.pod, other.taken_pod_names) == ((), (), frozenset({"soft0"}))


def test_unrecorded_rdma_device_is_found_by_the_claimed_name(
    movable: Bench,
) -> None:
    link = movable.move_in()
    movable.session.apply(RenameRdma(Ns.POD, link.index, "hca0"))
    identity = RdmaIdentity(movable.fabric.key("soft0"), ("soft0",), pod_name="hca0")

    observed = movable.session.rdma(identity)
    movable.session.apply(RenameRdma(Ns.POD, link.index, link.name))

    assert observed.pod == (replace(link, name="hca0"),)


def test_rdma_device_on_the_host_is_not_searched_in_the_pod(movable: Bench) -> None:
    movable.move_in()

    observed = movable.session.rdma(RdmaIdentity(movable.fabric.key("soft1"), ("soft0",)))

    assert ([rdma.name for rdma in observed.host], observed.pod) == (["soft1"], ())


def test_recorded_rdma_device_is_found_only_by_its_identity(movable: Bench) -> None:
    movable.move_in()

    assert movable.seen(RdmaLink(UNSPECIFIED, "soft0")).pod == ()


def test_rdma_device_returns_unchanged(movable: Bench) -> None:
    link = movable.move_in()

    movable.session.apply(MoveRdma(Ns.POD, link.index, Ns.HOST, link.name))

    assert (movable.seen(link).host, movable.seen(link).pod) == ((link,), ())


@pytest.mark.parametrize("way", ["in", "out"])
def test_move_is_idempotent(movable: Bench, way: str) -> None:
    link = movable.move_in()
    op = MoveRdma(Ns.HOST, link.index, Ns.POD, link.name)
    if way == "out":
        op = MoveRdma(Ns.POD, link.index, Ns.HOST, link.name)
        movable.session.apply(op)

    movable.session.apply(op)

    assert bool(movable.seen(link).pod) == (way == "in")


def test_move_of_a_missing_rdma_device_is_an_error(movable: Bench) -> None:
    with bench(movable.fabric) as elsewhere:
        link = elsewhere.move_in()

        moved = movable.refused(MoveRdma(Ns.HOST, link.index, Ns.POD, link.name))
        never = movable.refused(MoveRdma(Ns.HOST, UNSPECIFIED, Ns.POD, "soft9"))
        elsewhere.session.apply(MoveRdma(Ns.POD, link.index, Ns.HOST, link.name))

    assert (moved.code, never.code) == (ENODEV, ENODEV)
    assert moved.already_gone


def test_driver_without_move_support_refuses(fixed: Bench) -> None:
    link = fixed.on_host()

    error = fixed.refused(MoveRdma(Ns.HOST, link.index, Ns.POD, link.name))

    assert (error.code, bool(error.detail)) == (EOPNOTSUPP, True)
    assert fixed.on_host() == link


def test_recreated_rdma_device_is_another_device(movable: Bench) -> None:
    link = movable.move_in()

    movable.fabric.unplug("soft0", movable.pod)
    gone = movable.seen(link)
    movable.fabric.plug("soft0")

    assert (gone.host, gone.pod, gone.taken_pod_names) == ((), (), frozenset())
    again = movable.on_host()
    assert (again.name, again.node_guid) == (link.name, link.node_guid)
    assert again.index != link.index


# --------------------------------------------------------------------------- shared


def test_shared_rdma_devices_are_on_the_host(shared: Bench) -> None:
    link = shared.on_host()

    observed = shared.seen(link)

    assert observed == ObservedRdma(
        RdmaMode.SHARED, (link,), (), frozenset({"soft1"}), software=("soft0",)
    )


def test_shared_rdma_device_does_not_move(shared: Bench) -> None:
    link = shared.on_host()

    error = shared.refused(MoveRdma(Ns.HOST, link.index, Ns.POD, link.name))

    assert (error.code, bool(error.detail)) == (EOPNOTSUPP, True)


def test_shared_rdma_device_has_the_same_files_everywhere(shared: Bench) -> None:
    link = shared.on_host()

    files = shared.files(Ns.HOST, link)

    assert len(files) == 1
    assert shared.files(Ns.POD, link) == files


# --------------------------------------------------------------------------- names


def test_rdma_device_is_renamed_and_named_back_in_the_pod(movable: Bench) -> None:
    link = movable.move_in()
    named = RenameRdma(Ns.POD, link.index, "hca0")

    movable.session.apply(named)
    movable.session.apply(named)

    assert movable.seen(link).pod == (replace(link, name="hca0"),)
    movable.session.apply(RenameRdma(Ns.POD, link.index, link.name))
    movable.session.apply(MoveRdma(Ns.POD, link.index, Ns.HOST, link.name))
    assert movable.on_host() == link


def test_rdma_device_with_any_name_is_moved(movable: Bench) -> None:
    link = movable.move_in()
    movable.session.apply(RenameRdma(Ns.POD, link.index, "hca0"))

    movable.session.apply(MoveRdma(Ns.POD, link.index, Ns.HOST, link.name))

    assert movable.seen(link).host == (replace(link, name="hca0"),)
    movable.session.apply(RenameRdma(Ns.HOST, link.index, link.name))


@pytest.mark.parametrize("where", Ns)
def test_rdma_name_of_any_namespace_is_refused(movable: Bench, where: Ns) -> None:
    if where is Ns.POD:
        movable.move_in("soft1")
    link = movable.move_in()

    error = movable.refused(RenameRdma(Ns.POD, link.index, "soft1"))

    assert (error.code, bool(error.detail)) == (EEXIST, True)
    assert movable.seen(link).pod == (link,)


def test_rdma_device_is_not_renamed_from_another_namespace(movable: Bench) -> None:
    link = movable.move_in()

    moved = movable.refused(RenameRdma(Ns.HOST, link.index, "hca0"))
    never = movable.refused(RenameRdma(Ns.POD, UNSPECIFIED, "hca0"))

    assert (moved.code, never.code) == (ENODEV, ENODEV)


# --------------------------------------------------------------------------- device files


def test_files_are_the_existing_ones_of_the_requested_kinds(movable: Bench) -> None:
    link = movable.on_host()

    every = movable.files(Ns.HOST, link, "uverbs", "rdma_cm", "issm")

    paths = [char_device.path for char_device in every]
    assert [path.rstrip("0123456789") for path in paths] == [
        "/dev/infiniband/rdma_cm",
        "/dev/infiniband/uverbs",
    ]
    assert movable.files(Ns.HOST, link) == every[1:]


def test_rdma_devices_have_own_files(movable: Bench) -> None:
    links = movable.on_host("soft0"), movable.on_host("soft1")

    (first,), (second,) = (movable.files(Ns.HOST, link) for link in links)

    assert first.path != second.path
    assert (first.major, first.minor) != (second.major, second.minor)


def test_files_are_resolved_in_the_namespace_of_the_device(movable: Bench) -> None:
    link = movable.on_host()
    before = movable.files(Ns.HOST, link)
    movable.move_in()

    inside = movable.files(Ns.POD, link)
    with pytest.raises(KernelError) as caught:
        movable.files(Ns.HOST, link)

    assert inside == before, "it gave its number back, and that was the lowest that is free"
    assert caught.value.code == ENODEV


def test_returned_rdma_device_gets_the_lowest_free_number(movable: Bench) -> None:
    first, second = movable.on_host("soft0"), movable.on_host("soft1")
    (low,), (high,) = movable.files(Ns.HOST, first), movable.files(Ns.HOST, second)

    movable.fabric.unplug("soft0")
    movable.move_in("soft1")

    assert low.minor < high.minor
    assert movable.files(Ns.POD, second) == (low,)
    movable.session.apply(MoveRdma(Ns.POD, second.index, Ns.HOST, "soft1"))


@pytest.mark.parametrize("ns", Ns)
def test_missing_rdma_device_has_no_files(movable: Bench, ns: Ns) -> None:
    with pytest.raises(KernelError) as caught:
        movable.files(ns, RdmaLink(UNSPECIFIED, "soft9"))

    assert caught.value.code == ENODEV


# --------------------------------------------------------------------------- namespaces that die


def test_rdma_device_returns_when_its_namespace_is_deleted(movable: Bench) -> None:
    with bench(movable.fabric) as doomed:
        link = doomed.move_in()
        doomed.session.apply(RenameRdma(Ns.POD, link.index, "hca0"))
        movable.fabric.unlink(doomed.pod)
        held = movable.seen(link)
    wait_until("the device to be restored", lambda: movable.seen(link).host)

    assert held.host == (), "a namespace that is held lives on"
    assert movable.seen(link).host == (replace(link, name="hca0"),)
    movable.session.apply(RenameRdma(Ns.HOST, link.index, link.name))
