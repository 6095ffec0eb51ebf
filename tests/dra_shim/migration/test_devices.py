"""Devices that another driver gave to pods: what slices, claims and the node tell of them."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dra_shim.checkpoint.cache import RecordedDevices
from dra_shim.discovery.snapshot import DeviceSelection, snapshot_of
from dra_shim.migration.devices import (
    PreviousDevices,
    claims_of_node,
    devices_of_slices,
    previous_devices,
    published_device,
)
from dra_shim.prepare.preparer import FIRST_PAUSE_S
from dra_shim.settings.common import StatePaths
from dranet_nri.inventory import NUMA_NODE, HostFacts
from dranet_nri.model import Allocation, Device, DeviceKey
from tests.dra_shim.migration.takeover_bench import ATTRIBUTES, NIC, slice_of
from tests.dra_shim.prepare.prepare_bench import Bench
from tests.dra_shim.resourceslice.pools import PF, function
from tests.fakes.cluster import POOL, claim_document, config, result, user

pytestmark = pytest.mark.process


IN_POD = {"interfaceName": "ens5", "hardwareAddress": "02:00:00:00:00:05", "ips": ["10.0.0.5/24"]}
STRIPPED = {
    "metadata": {"name": "s"},
    "spec": {"devices": [{"name": NIC.name, "attributes": {"dra.net/rdma": {"bool": False}}}]},
}


class Node:
    """Sees those devices."""

    def __init__(self, *devices: Device) -> None:
        self.seen = {device.name: device for device in devices}

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """See DeviceSource."""
        return {name: self.seen[name] for name in names if name in self.seen}


def in_use(
    *configs: dict[str, Any], network: object = None, device: str = NIC.name, **fields: Any
) -> dict[str, Any]:
    """Return a claim whose device is in a pod, with what its status says of that."""
    claim = claim_document("c", "u1", [result(device, **fields)], [user("train", "p1")], configs)
    status = {"driver": "dra.net", "pool": POOL, "device": device, "conditions": []}
    claim["status"]["devices"] = [{**status, "networkData": network}]
    return claim


def device_of_claim(claim: dict[str, Any], *slices: dict[str, Any]) -> Device:
    """Return what is known of the one device of a claim."""
    (device,) = previous_devices(claims_of_node([claim], POOL), slices).values()
    return device


def function_alone() -> Device:
    """Return a NIC as the node sees it while its interface is in a pod."""
    facts = HostFacts(functions=(function(),))
    return snapshot_of(POOL, facts, RecordedDevices(), DeviceSelection()).allocatable[NIC.name]


def record(directory: Path, claim: dict[str, Any], before: Device, live: Device) -> Allocation:
    """Return what is recorded of a claim of before."""
    bench = Bench(StatePaths(directory / "state", directory / "run"))
    ref = bench.cluster.add("c", "u1", NIC.name)
    bench.cluster.claims["c"] = claim
    source = PreviousDevices(Node(live), {before.name: before})
    try:
        with bench.preparer.adopting():
            asyncio.run(until_it_waits(bench, bench.preparer.adopt([ref], source)))
        made = bench.record(ref)
    finally:
        bench.close()
    assert made is not None, bench.notices
    return made


async def until_it_waits(bench: Bench, work: Coroutine[Any, Any, object]) -> None:
    """Do the work, unless it waits for something."""
    adopting, waiting = (
        asyncio.ensure_future(task) for task in (work, bench.clock.until_asleep(FIRST_PAUSE_S))
    )
    await asyncio.wait((adopting, waiting), return_when=asyncio.FIRST_COMPLETED)
    for entry in (adopting, waiting):
        entry.cancel()


@pytest.mark.parametrize(
    ("claim", "slices"),
    [
        pytest.param(in_use(), [slice_of("s")], id="the slice of before"),
        pytest.param(in_use(network=IN_POD), [], id="the claim's status"),
        pytest.param(in_use(network=IN_POD), [STRIPPED], id="a slice without the interface"),
        pytest.param(
            in_use(config({"interface": {"name": "ens5"}})), [], id="the claim's configuration"
        ),
    ],
)
def test_nic_in_a_pod_is_recorded_with_its_interface(
    tmp_path: Path, claim: dict[str, Any], slices: list[dict[str, Any]]
) -> None:
    alone = function_alone()
    assert not alone.key.name

    made = record(tmp_path, claim, device_of_claim(claim, *slices), alone)

    (given,) = made.devices
    assert given.device.key == DeviceKey("pci", PF, "ens5", PF)
    assert given.device.attribute("dra.net/ifName") == "ens5"


def test_nic_in_a_pod_is_recorded_with_its_published_facts(tmp_path: Path) -> None:
    claim = in_use(network={**IN_POD, "interfaceName": "eth7"})
    made = record(tmp_path, claim, device_of_claim(claim, slice_of("s")), function_alone())

    (given,) = made.devices
    assert given.device.rdma_devices == ("mlx5_0",)
    assert set(given.device.attributes) >= set(NIC.attributes)
    assert given.device.attribute("dra.net/mac") == IN_POD["hardwareAddress"]


def test_recorded_nic_keeps_the_parent_of_the_node() -> None:
    alone = replace(function_alone(), key=DeviceKey("virtio", "virtio5", "", PF))

    found = asyncio.run(PreviousDevices(Node(alone), {NIC.name: NIC}).devices({NIC.name}))

    assert found[NIC.name].key == DeviceKey("virtio", "virtio5", "ens5", PF)


def test_device_on_the_host_is_recorded_as_observed() -> None:
    slice_device = replace(
        NIC, key=replace(NIC.key, name="now"), attributes=(("dra.net/mtu", 9000),)
    )
    gone = Device("a", DeviceKey("", "", "a"))
    source = PreviousDevices(Node(slice_device), {NIC.name: NIC, "a": gone})

    assert asyncio.run(source.devices({"a", NIC.name, "c"})) == {"a": gone, NIC.name: slice_device}


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        pytest.param(in_use(device="dummy0"), "dummy0", id="its name has to do"),
        pytest.param(in_use(device="net-1", network=IN_POD), "ens5", id="as in the pod"),
        pytest.param(
            in_use(config({"interface": {"name": "ens5"}}), device="dummy0", network=IN_POD),
            "dummy0",
            id="the pod's is the claim's",
        ),
    ],
)
def test_virtual_device_is_recorded_with_its_host_name(claim: dict[str, Any], name: str) -> None:
    assert device_of_claim(claim).key == DeviceKey("", "", name)


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(in_use(network=IN_POD, adminAccess=True), id="who only observes"),
        pytest.param(in_use(config({"interface": {"nam": "x"}})), id="a broken configuration"),
        pytest.param(in_use(network={"interfaceName": 5, "hardwareAddress": ""}), id="odd words"),
    ],
)
def test_unusable_device_status_leaves_only_the_device_name(claim: dict[str, Any]) -> None:
    assert device_of_claim(claim) == published_device(NIC.name, {})


def test_admin_access_claim_ignores_status_of_other_claims() -> None:
    observer = in_use(adminAccess=True)
    for claims in ([observer, in_use(network=IN_POD)], [in_use(network=IN_POD), observer]):
        (device,) = previous_devices(claims_of_node(claims, POOL), []).values()
        assert device.key.name == "ens5"


def test_device_status_of_another_driver_is_ignored() -> None:
    claim = in_use(network=IN_POD)
    claim["status"]["devices"][0]["driver"] = "gpu.example.com"

    assert device_of_claim(claim) == published_device(NIC.name, {})


def test_devices_are_read_from_every_slice_version() -> None:
    old = {"spec": {"devices": [{"name": NIC.name, "basic": {"attributes": ATTRIBUTES}}]}}
    new = slice_of("x")
    incomplete: list[dict[str, Any]] = [{}, {"spec": {"devices": ["?", {"name": "n"}]}}]
    assert devices_of_slices([old]) == devices_of_slices([new]) == {NIC.name: NIC}
    assert devices_of_slices(incomplete) == {"n": Device("n", DeviceKey("", "", "n"))}


def test_first_numa_node_of_a_list_is_read() -> None:
    attributes = {NUMA_NODE: {"ints": [6, 4]}, "x": {"ints": []}}
    document = {"spec": {"devices": [{"name": "n", "attributes": attributes}]}}
    (found,) = devices_of_slices([document]).values()

    assert found.attributes == ((NUMA_NODE, 6),)


def test_device_name_contains_the_pci_address() -> None:
    found = published_device("pci-0000-8a-00-1-p1", {})
    assert found.key == DeviceKey("pci", "0000:8a:00.1", "", "0000:8a:00.1")
    assert published_device("eth0", {"ifName": "eth0"}).key == DeviceKey("", "", "eth0")
