"""The contract between the publisher and an API server, tested against the in-memory server.

tests/system/cluster/test_slices_contract.py holds the same against a real server. Time passes when
a test says so, on both.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from dra_shim.kubeapi import NODE, SLICE, ApiClient, name_of, uid_of
from dra_shim.pool import DriverResources, driver_resources
from dra_shim.resourceapi import ResourceSlice, SliceDevice, parse_document
from dra_shim.resourceslice import DeviceRefused, FieldsDropped, SlicesPublished
from dra_shim.resourceslice.layout import slice_name
from dra_shim.resourceslice.schedule import REPAIR_S
from dra_shim.scheduling.allocator import pools_of
from tests.dra_shim.kubeapi.client_bench import FakeSubject, Subject
from tests.dra_shim.resourceslice.pools import PF, device, many
from tests.dra_shim.resourceslice.publisher_bench import Bench, names_of
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


VFS = {f"0000:8a:00.{index}": PF for index in range(1, 4)}
CARD = [
    device("pf", PF, "eth0", linkSpeed=100_000, rdma=True),
    *(device(f"vf-{index}", address) for index, address in enumerate(VFS)),
    device("shared", "0000:8b:00.0", "ib0", linkSpeed=400_000),
]


@pytest.fixture
def subject() -> Subject:
    """Return the server in memory."""
    return FakeSubject()


@asynccontextmanager
async def publisher(
    subject: Subject, node: str = "", version: str = ""
) -> AsyncIterator[tuple[ApiClient, Bench]]:
    """Run a publisher of a new node, or of one that there is."""
    async with subject.client() as api:
        if version:
            api._versions["resource.k8s.io"] = version
        bench = Bench(api, node or f"node-{uuid4().hex[:12]}")
        if not node:
            await bench.add_node()
        async with bench.running():
            yield api, bench


def plain(node: str, *names: str) -> DriverResources:
    """Return the driver resources of a node with these devices."""
    return driver_resources(node, [device(name, mtu=1500) for name in names])


def rich(node: str) -> DriverResources:
    """Return those of a node with VFs, a shared NIC and a NIC without carrier."""
    return driver_resources(node, CARD, frozenset({"shared"}), {"vf-1": "NoCarrier"}, VFS)


async def published(bench: Bench) -> tuple[tuple[SliceDevice, ...], int]:
    """Return what a scheduler sees of the node's pool, and of which generation."""
    slices = [parse_document(resource_slice) for resource_slice in await bench.slices()]
    found = [
        resource_slice for resource_slice in slices if isinstance(resource_slice, ResourceSlice)
    ]
    (pool,) = pools_of(found, bench.node)
    assert pool.problem == ""
    devices = tuple(sorted(pool.devices, key=lambda ref: ref.name))
    return devices, max(resource_slice.generation for resource_slice in found)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_slices_contain_the_devices_of_the_node(subject: Subject, version: str) -> None:
    async def scenario() -> None:
        async with publisher(subject, version=version) as (_, bench):
            resources = rich(bench.node)

            notice = await bench.publish(resources)

            assert await published(bench) == (resources.devices, 1)
            assert notice == SlicesPublished(devices=5, slices=1, writes=2)
            assert bench.notices_of(FieldsDropped) == []

    finish(scenario())


@pytest.mark.every_kubernetes
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_restart_causes_no_write(subject: Subject, version: str) -> None:
    async def scenario() -> None:
        async with publisher(subject, version=version) as (_, bench):
            await bench.publish(rich(bench.node))
            before = await bench.versions()
        async with publisher(subject, bench.node, version) as (_, again):
            notice = await again.publish(rich(bench.node))

            assert notice.writes == 0
            assert await again.versions() == before

    finish(scenario())


def test_restart_keeps_devices_in_their_slices(subject: Subject) -> None:
    async def scenario() -> None:
        names = many(100)
        devices = [device(name) for name in names]
        async with publisher(subject) as (_, bench):
            await bench.publish(
                driver_resources(bench.node, devices, unhealthy={names[0]: "NoCarrier"})
            )
            await bench.rest_over(2)
            await bench.publish(driver_resources(bench.node, devices))
        async with publisher(subject, bench.node) as (_, again):
            notice = await again.publish(driver_resources(bench.node, devices))

            assert notice == SlicesPublished(devices=100, slices=2, writes=0)

    finish(scenario())


def test_slice_has_its_node_as_owner(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (api, bench):
            await bench.publish(plain(bench.node, "a"))

            (document,) = await bench.slices()
            (owner,) = document["metadata"]["ownerReferences"]
            node = await api.get(NODE, bench.node)
            assert (owner["kind"], owner["uid"]) == ("Node", uid_of(node))

    finish(scenario())


def test_many_devices_are_several_slices_of_one_generation(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (_, bench):
            resources = plain(bench.node, *many(300))

            notice = await bench.publish(resources)

            assert notice == SlicesPublished(devices=300, slices=3, writes=3)
            assert await published(bench) == (resources.devices, 1)
            assert [len(names_of(resource_slice)) for resource_slice in await bench.slices()] == [
                128,
                128,
                44,
            ]

    finish(scenario())


def test_removed_taint_moves_no_device(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (_, bench):
            names = many(100)
            devices = [device(name) for name in names]
            await bench.publish(driver_resources(bench.node, devices))
            await bench.rest_over(1)
            tainted = await bench.publish(
                driver_resources(bench.node, devices, unhealthy={names[0]: "NoCarrier"})
            )
            await bench.rest_over(2)
            healed = await bench.publish(driver_resources(bench.node, devices))

            assert (tainted.writes, healed.writes) == (2, 1)
            assert [len(names_of(resource_slice)) for resource_slice in await bench.slices()] == [
                64,
                36,
            ]
            assert (await published(bench))[1] == 2

    finish(scenario())


def test_change_of_a_device_is_one_write(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (_, bench):
            names = many(300)
            await bench.publish(plain(bench.node, *names))
            await bench.rest_over(3)
            before = await bench.versions()
            changed = [device(name, mtu=9000 if name == names[200] else 1500) for name in names]

            notice = await bench.publish(driver_resources(bench.node, changed))

            after = await bench.versions()
            assert notice.writes == 1
            assert [old == new for old, new in zip(before, after, strict=True)] == [
                True,
                False,
                True,
            ]
            assert (await published(bench))[1] == 1

    finish(scenario())


def test_only_the_refused_device_is_left_out(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (_, bench):
            bad = SliceDevice("dra.net", bench.node, "b", (("dra.net/alias", "x" * 65),))
            resources = plain(bench.node, "a", "c")
            notice = await bench.publish(replace(resources, devices=(*resources.devices, bad)))
            (refused,) = bench.notices_of(DeviceRefused)

            assert await published(bench) == (resources.devices, 1)
            assert (notice.devices, notice.writes) == (2, 2)
            assert refused.device == "b"
            assert refused.reason.startswith("attributes[dra.net/alias].string: ")

    finish(scenario())


def test_deleted_slice_is_created_again(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (api, bench):
            resources = plain(bench.node, *many(200))
            await bench.publish(resources)
            await bench.until_in_sync()
            first = (await bench.slices())[0]

            await api.delete(SLICE, name_of(first), uid_of(first))
            await bench.rest(REPAIR_S)
            notice = await bench.until_notice(SlicesPublished, 2)

            assert notice.writes == 1
            assert await published(bench) == (resources.devices, 1)

    finish(scenario())


def test_slice_edited_by_others_is_restored(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (api, bench):
            resources = plain(bench.node, "a", "b")
            await bench.publish(resources)
            await bench.until_in_sync()
            (document,) = await bench.slices()
            spec = {**document["spec"], "devices": [{"name": "somebody-elses"}]}

            await api.replace(SLICE, {**document, "spec": spec})
            await bench.rest(REPAIR_S)
            notice = await bench.until_notice(SlicesPublished, 2)

            assert notice.writes == 1
            assert await published(bench) == (resources.devices, 1)

    finish(scenario())


@pytest.mark.every_kubernetes
def test_slices_deleted_by_a_starting_kubelet_are_created_again(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (api, bench):
            resources = plain(bench.node, *many(200))
            await bench.publish(resources)
            for attempt in range(2):
                await bench.until_in_sync()
                for resource_slice in await bench.slices():
                    await api.delete(SLICE, name_of(resource_slice), uid_of(resource_slice))
                await bench.rest(REPAIR_S)
                await bench.until_notice(SlicesPublished, 2 + attempt)

                assert await published(bench) == (resources.devices, 1)

    finish(scenario())


def test_slices_of_an_older_driver_are_replaced(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (api, bench):
            pool = {"name": bench.node, "generation": 7, "resourceSliceCount": 1}
            old: dict[str, Any] = {
                "metadata": {"name": f"0-dra.net-{bench.node}-x7k2p"},
                "spec": {
                    "driver": "dra.net",
                    "nodeName": bench.node,
                    "pool": pool,
                    "devices": [{"name": "a"}],
                },
            }
            await api.create(SLICE, old)
            resources = plain(bench.node, "a", "b")

            await bench.publish(resources)

            assert [name_of(resource_slice) for resource_slice in await bench.slices()] == [
                slice_name(bench.node, 0)
            ]
            assert await published(bench) == (resources.devices, 8)
            await bench.until_in_sync()

    finish(scenario())


def test_recreated_node_owns_its_slices(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (api, bench):
            resources = plain(bench.node, "a")
            await bench.publish(resources)
            await bench.until_in_sync()
            (before,) = await bench.slices()

            await api.delete(NODE, bench.node, uid_of(await api.get(NODE, bench.node)))
            uid = await bench.add_node()
            subject.collect_garbage()
            await bench.rest(REPAIR_S)
            await bench.until_notice(SlicesPublished, 2)

            (after,) = await bench.slices()
            assert uid_of(after) != uid_of(before)
            assert after["metadata"]["ownerReferences"][0]["uid"] == uid

    finish(scenario())


def test_taint_keeps_its_time(subject: Subject) -> None:
    async def scenario() -> None:
        async with publisher(subject) as (_, bench):
            devices = [device("a"), device("b", mtu=1500)]
            await bench.publish(driver_resources(bench.node, devices, unhealthy={"a": "NoCarrier"}))
            (before,) = await bench.slices()
            await bench.rest_over(1)
            changed = [device("a", mtu=9000), device("b", mtu=9000)]
            await bench.publish(driver_resources(bench.node, changed, unhealthy={"a": "NoCarrier"}))

            (after,) = await bench.slices()
            taint = after["spec"]["devices"][0]["taints"][0]
            assert taint["timeAdded"]
            assert taint == before["spec"]["devices"][0]["taints"][0]

    finish(scenario())
