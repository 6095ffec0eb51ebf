"""Virtual functions on two NUMA nodes: attach to pods and restore, under disturbances."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.box.attach import (
    assert_restored,
    cdi_of,
    container_once_open,
    cycle,
    links_in,
    remove,
    start_pod,
    test_container_waits_after_the_plugin_was_killed_in_the_hook,
    test_nics_are_attached_with_their_addresses_and_restored,
    test_parameters_of_the_claim_are_applied,
    test_plugin_restart_does_not_affect_running_pods,
    test_runtime_restart_keeps_the_nics_of_running_pods,
)
from tests.box.claims import allocate, release
from tests.box.cri import ContainerSpec, Cri, Pod
from tests.box.nics import Nic, ip
from tests.box.plugin import Plugin
from tests.box.refusals import refused
from tests.box.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

__all__ = [
    "test_container_waits_after_the_plugin_was_killed_in_the_hook",
    "test_nics_are_attached_with_their_addresses_and_restored",
    "test_parameters_of_the_claim_are_applied",
    "test_plugin_restart_does_not_affect_running_pods",
    "test_runtime_restart_keeps_the_nics_of_running_pods",
]


def inventory() -> dict[str, dict[str, object]]:
    """Return the inventory of dranet-nri: attributes by device name."""
    shown = subprocess.run(
        ("dranet-nri", "inventory", "--output", "json"), check=True, capture_output=True, text=True
    ).stdout
    return {device["name"]: device["attributes"] for device in json.loads(shown)["devices"]}


@pytest.mark.every_runtime
@pytest.mark.emulated
def test_inventory_agrees_with_sysfs(functions: tuple[Path, ...], nics: tuple[Nic, ...]) -> None:
    published = inventory()

    for function, nic in zip(functions, nics, strict=True):
        address = function.name
        attributes = published[f"pci-{address.replace(':', '-').replace('.', '-')}"]
        assert attributes["dra.net/ifName"] == nic.name
        assert attributes["dra.net/isSriovVf"] is True
        assert attributes["resource.kubernetes.io/pciBusID"] == address
        assert attributes["resource.kubernetes.io/numaNode"] == int(
            (function / "numa_node").read_text()
        )
        root = function.resolve().relative_to("/sys/devices").parts[0]
        assert attributes["resource.kubernetes.io/pcieRoot"] == root


@pytest.mark.every_runtime
def test_uplink_is_never_published() -> None:
    uplink = json.loads(ip("-j", "route", "show", "default"))[0]["dev"]

    assert uplink not in {attributes.get("dra.net/ifName") for attributes in inventory().values()}


@pytest.mark.every_runtime
@pytest.mark.emulated
def test_five_cycles_leave_the_host_unchanged(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    cycle(cri, nics[3:5], rounds=5)  # one on each NUMA node

    assert_restored(before)


@pytest.mark.every_runtime
@pytest.mark.emulated
def test_nic_of_a_destroyed_namespace_is_restored(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, _ = start_pod(cri, "doomed", nics[:2])
    plugin.kill()  # its descriptor goes with it
    netns = cri.netns(pod)
    cri.stop_pod(pod.sandbox_id)
    assert netns is not None
    wait_until("the namespace to be gone", lambda: not netns.exists())

    plugin.start()

    assert_restored(before)
    cri.remove_pod(pod.sandbox_id)
    release(pod.uid)


def test_recreated_sandbox_of_the_same_pod_takes_over_the_nic(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    old, _ = start_pod(cri, "reborn", nics[:1])
    cri.stop_pod(old.sandbox_id)
    cri.remove_pod(old.sandbox_id)

    new: Pod = cri.run_pod("reborn")
    spec = ContainerSpec(cdi_devices=cdi_of("reborn"))
    container = container_once_open(cri, new, spec)

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    remove(cri, new)
    assert_restored(before)


def test_vlan_loses_its_setup_when_its_parent_moves_and_other_kinds_do_not() -> None:
    ip("netns", "add", "pod0")
    for number, kind in enumerate(KINDS):
        name, below = f"{kind}0", f"below-{kind}"
        ip("link", "add", below, "up", "type", "dummy")
        ip("link", "add", "link", below, "name", name, "type", *KINDS[kind])
        ip("link", "set", name, "up")
        ip("address", "add", f"10.7{number}.0.5/24", "dev", name)
        ip("address", "add", f"2001:db8:7{number}::5/64", "nodad", "dev", name)
        ip("route", "add", f"10.8{number}.0.0/16", "via", f"10.7{number}.0.1", "dev", name)
    before = {kind: setup(f"{kind}0") for kind in KINDS}

    for kind in KINDS:
        ip("link", "set", f"below-{kind}", "netns", "pod0")
        ip("-n", "pod0", "link", "set", f"below-{kind}", "netns", "1")
        ip("link", "set", f"below-{kind}", "up")

    lost = {kind: before[kind] - setup(f"{kind}0") for kind in KINDS}
    for kind in KINDS:
        ip("link", "delete", f"below-{kind}")
    ip("netns", "delete", "pod0")
    assert lost == {
        "vlan": {"2001:db8:70::5/64", "10.80.0.0/16"},
        "macvlan": set(),
        "ipvlan": set(),
    }


KINDS = {"vlan": ("vlan", "id", "7"), "macvlan": ("macvlan",), "ipvlan": ("ipvlan",)}


def setup(link: str) -> set[str]:
    """Return the global addresses and the static routes of a link."""
    shown = json.loads(ip("-j", "address", "show", "dev", link, "scope", "global"))
    reported = filter(None, shown[0]["addr_info"])  # iproute2 leaves {} for what it does not show
    addresses = [f"{address['local']}/{address['prefixlen']}" for address in reported]
    routes = json.loads(ip("-j", "route", "show", "dev", link, "proto", "boot"))
    return {*addresses, *(route["dst"] for route in routes)}


def test_nic_below_a_vlan_with_host_addresses_is_refused(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    name = nics[0].name
    allocate("tagged", nics[:1], "tagged-uid")
    ip("link", "add", "link", name, "name", "vlan7", "type", "vlan", "id", "7")
    assert name in {attributes.get("dra.net/ifName") for attributes in inventory().values()}, (
        "it is unused"
    )
    ip("address", "add", "10.7.0.5/24", "dev", "vlan7")

    refused(cri, "tagged", "carries vlan7, a VLAN that the host uses: its routes")

    assert name not in {attributes.get("dra.net/ifName") for attributes in inventory().values()}
    ip("link", "delete", "vlan7")
    release("tagged-uid")
    assert_restored(before)
