"""Restore of RDMA devices under their names after failures of pods, plugin or drivers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box import rdma
from tests.box.attach import assert_restored, remove
from tests.box.claims import release
from tests.box.cri import Cri
from tests.box.nics import Nic, make_functions, remove_functions
from tests.box.plugin import Plugin
from tests.box.rdma import Driver, soft_rdma
from tests.box.rdma_facts import shown_by_both
from tests.box.rdma_pods import (
    Hca,
    cycle_rdma,
    endless_traffic,
    guids,
    kill_all,
    links_on_host,
    make_hcas,
    run_container,
    serving,
    start_rdma_pod,
)
from tests.box.runtime import Runtime
from tests.box.target import NODE, checked
from tests.box.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

CYCLES = 20
SELDOM = ("--resync-period", "3600")  # so that only kernel events trigger a reconcile
FUNCTIONS = 2


@pytest.fixture(scope="module")
def movable_rdma() -> Iterator[None]:
    """Load soft-RoCE whose devices move, for all tests of this module."""
    with soft_rdma(Driver.MOVABLE, "exclusive"):
        yield


@pytest.fixture(scope="module")
def functions(movable_rdma: None) -> Iterator[tuple[Path, ...]]:
    """Return virtual functions of as many NICs as are needed."""
    yield make_functions(FUNCTIONS)
    remove_functions(FUNCTIONS)


@pytest.fixture(scope="module")
def hcas(nics: tuple[Nic, ...]) -> tuple[Hca, ...]:
    """Return the NICs with their RDMA devices."""
    return make_hcas(nics)


def assert_all_restored(before: dict[str, object], hcas: tuple[Hca, ...]) -> None:
    """Assert that the host is as it was, its RDMA devices included."""
    assert_restored(before)
    assert rdma.links() == links_on_host(hcas)


def test_twenty_consecutive_pods_keep_all_names_and_devices(
    cri: Cri, plugin: Plugin, hcas: tuple[Hca, ...], before: dict[str, object]
) -> None:
    identities = guids()

    cycle_rdma(cri, hcas, CYCLES)

    assert guids() == identities
    assert_all_restored(before, hcas)


def test_inventory_agrees_with_the_rdma_tool_before_during_and_after_a_claim(
    cri: Cri, plugin: Plugin, hcas: tuple[Hca, ...], before: dict[str, object]
) -> None:
    shown_before, listed_before = shown_by_both()
    claimed = start_rdma_pod(cri, "shown", hcas[:1], 1)
    shown_during, listed_during = shown_by_both()
    shown_inside, listed_inside = shown_by_both(claimed.netns)
    remove(cri, claimed.pod)
    shown_after, listed_after = shown_by_both()

    assert listed_before == shown_before
    assert listed_during == shown_during
    assert {key.split()[0].partition("/")[0] for key in shown_during} == {hcas[1].device}
    assert listed_inside == shown_inside
    assert shown_inside[f"{hcas[0].device}/1 netdev"] == [hcas[0].nic.name]
    assert listed_after == shown_after == shown_before


def test_pods_killed_under_traffic_lose_no_device(
    cri: Cri, plugin: Plugin, hcas: tuple[Hca, ...], before: dict[str, object]
) -> None:
    server = start_rdma_pod(cri, "server", hcas[:1], 1)
    client = start_rdma_pod(cri, "client", hcas[1:], 2)

    with endless_traffic(server, client):
        kill_all(client.netns)
        cri.stop_pod(server.pod.sandbox_id)
    for end in (server, client):
        remove(cri, end.pod)

    assert_all_restored(before, hcas)


def test_destroyed_namespace_returns_all_devices_under_their_own_names(
    cri: Cri, plugin: Plugin, hcas: tuple[Hca, ...], before: dict[str, object]
) -> None:
    doomed = start_rdma_pod(cri, "doomed", hcas[:1], 1, rdma_name="hca0")
    renamed = rdma.links(doomed.container), checked(doomed.container, "env")
    plugin.kill()  # its descriptor goes with it
    cri.stop_pod(doomed.pod.sandbox_id)
    wait_until("the kernel to return the device", lambda: len(rdma.links()) == len(hcas))
    returned = rdma.links()

    plugin.start()

    assert renamed[0] == {"hca0": hcas[0].nic.name}
    assert "DRA_NET_DOOMED_NIC0_RDMA_DEVICES=hca0\n" in renamed[1]
    assert "hca0" in returned
    assert_all_restored(before, hcas)
    cri.remove_pod(doomed.pod.sandbox_id)
    release(doomed.pod.uid)


def test_namespace_unlinked_while_its_pod_runs_loses_no_device(
    cri: Cri, plugin: Plugin, hcas: tuple[Hca, ...], before: dict[str, object]
) -> None:
    server = start_rdma_pod(cri, "server", hcas[:1], 1)
    client = start_rdma_pod(cri, "client", hcas[1:], 2)

    with endless_traffic(server, client):
        checked(NODE, "ip", "netns", "delete", client.netns.netns)
        cri.stop_pod(client.pod.sandbox_id)
        remove(cri, server.pod)
    cri.remove_pod(client.pod.sandbox_id)
    release(client.pod.uid)

    assert_all_restored(before, hcas)


def test_runtime_restart_keeps_the_rdma_device_in_the_pod(
    runtime: Runtime,
    cri: Cri,
    plugin: Plugin,
    hcas: tuple[Hca, ...],
    before: dict[str, object],
) -> None:
    pod = start_rdma_pod(cri, "survivor", hcas[:1], 1)

    runtime.kill()
    runtime.start(runtime.options)
    wait_until("the plugin to be back", lambda: plugin.since().count("serving") > 1)

    assert rdma.links(pod.container) == links_on_host(hcas[:1])
    assert "hca_id:" in checked(pod.container, "ibv_devinfo")
    remove(cri, pod.pod)
    assert_all_restored(before, hcas)


def test_rdma_name_is_set_in_the_pod_and_removed_on_the_host(
    cri: Cri, plugin: Plugin, hcas: tuple[Hca, ...], before: dict[str, object]
) -> None:
    pod = start_rdma_pod(cri, "named", hcas[:1], 1, rdma_name="hca0")

    assert rdma.links(pod.container) == {"hca0": hcas[0].nic.name}
    assert "hca0" in checked(pod.container, "ibv_devinfo")
    remove(cri, pod.pod)

    assert_all_restored(before, hcas)


def test_container_without_cdi_gets_the_files_if_the_claim_lists_no_container(
    cri: Cri, plugin: Plugin, hcas: tuple[Hca, ...], before: dict[str, object]
) -> None:
    pod = start_rdma_pod(cri, "loose", hcas[:1], 1, containers=())
    unclaimed = run_container(cri, pod.pod, None, "bare")

    files = checked(unclaimed, "ls", "/dev/infiniband").split()
    assert files == checked(pod.container, "ls", "/dev/infiniband").split()
    assert {f"/dev/infiniband/{file}" for file in files} == set(rdma.device_files(hcas[0].device))
    assert hcas[0].device in checked(unclaimed, "ibv_devinfo")
    remove(cri, pod.pod)
    assert_all_restored(before, hcas)


def test_rdma_device_recreated_by_its_driver_is_moved_to_the_running_pod(
    cri: Cri, hcas: tuple[Hca, ...], before: dict[str, object]
) -> None:
    hca, recreated = hcas[0], "rxe_anew"
    with serving(cri, *SELDOM) as plugin:
        pod = start_rdma_pod(cri, "reloaded", hcas[:1], 1, containers=("main", "late"))

        rdma.delete_link(hca.device, pod.netns)
        wait_until("the loss to be reported", lambda: row_of("reloaded")["state"] != "attached")
        lost = row_of("reloaded")
        rdma.add_link(recreated, hca.nic.name, pod.netns)  # on the host, as a driver makes it
        wait_until("it to come after its NIC", lambda: row_of("reloaded")["state"] == "attached")
        found = rdma.links(pod.container)
        late = run_container(cri, pod.pod, pod.claim, "late")
        opened, environment = checked(late, "ibv_devinfo"), checked(late, "env")
        remove(cri, pod.pod)

        assert plugin.running
        assert_restored(before)
        on_host = rdma.links()
    rdma.delete_link(recreated)
    rdma.add_link(hca.device, hca.nic.name)
    assert hca.device in lost["reason"]
    assert found == {recreated: hca.nic.name}
    assert recreated in opened
    assert f"DRA_NET_RELOADED_NIC0_RDMA_DEVICES={recreated}\n" in environment
    assert on_host == {recreated: hca.nic.name, **links_on_host(hcas[1:])}


@pytest.mark.emulated
def test_nic_removed_under_its_pod_returns_with_its_rdma_device(
    cri: Cri, functions: tuple[Path, ...], hcas: tuple[Hca, ...], before: dict[str, object]
) -> None:
    hca = hcas[0]
    count = (functions[0] / "physfn" / "sriov_numvfs").resolve()
    with serving(cri, *SELDOM):
        pod = start_rdma_pod(cri, "unplugged", hcas[:1], 1)

        count.write_text("0")
        wait_until("the loss to be reported", lambda: row_of("unplugged")["state"] == "failed")
        lost, left = row_of("unplugged"), rdma.links(pod.container)
        count.write_text("1")
        wait_until("it to be back", Path("/sys/class/net", hca.nic.name).exists)
        rdma.add_link(hca.device, hca.nic.name)
        wait_until("the pod to have it", lambda: row_of("unplugged")["state"] == "attached")
        found = rdma.links(pod.container)
        remove(cri, pod.pod)

    assert hca.device in lost["reason"]
    assert left == {}
    assert found == links_on_host(hcas[:1])
    assert_all_restored(before, hcas)


def row_of(pod: str) -> dict[str, str]:
    """Return the row of `dranet-nri status` for the pod's only device."""
    shown = json.loads(checked(NODE, "dranet-nri", "status", "--output", "json"))
    (row,) = [device for device in shown["devices"] if device["pod"] == f"default/{pod}"]
    return {name: str(value) for name, value in row.items()}
