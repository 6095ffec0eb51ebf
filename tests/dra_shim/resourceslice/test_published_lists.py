"""Lists in attributes: the probe of the server, and the slices without support for lists."""

import pytest

from dra_shim.pool import Feature, driver_resources
from dra_shim.resourceslice import DeviceRefused, FeaturesMissing
from dra_shim.resourceslice.controller import PROBE_S
from dranet_nri.inventory import NUMA_NODE
from tests.dra_shim.resourceslice.pools import device, on_node
from tests.dra_shim.resourceslice.publisher_bench import (
    NODE_1,
    names_of,
    publishing,
    unhealthy_devices,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.slice_rules import FEATURES

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("off", "probes"),
    [
        (frozenset(), 1),
        ({Feature.LISTS}, 2),
        ({Feature.LISTS, Feature.TAINTS}, 2),
        ({Feature.TAINTS}, 1),
    ],
    ids=["knows all", "no lists", "neither", "no taints"],
)
def test_server_is_probed_for_lists_if_needed(off: frozenset[Feature], probes: int) -> None:
    gates = {Feature.LISTS: "lists", Feature.TAINTS: "taints"}

    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.features = frozenset(FEATURES) - {gates[entry] for entry in off}
            resources = driver_resources(
                NODE_1, [on_node(1)], unhealthy={"a": "NoCarrier"}, near={1: (1, 0)}
            )
            await bench.publish(resources)

            (document,) = await bench.slices()
            (body,) = document["spec"]["devices"]
            value = {"int": 1} if Feature.LISTS in off else {"ints": [1, 0]}
            assert body["attributes"] == {NUMA_NODE: value}
            assert ("taints" in body) == (Feature.TAINTS not in off)
            assert bench.notices_of(FeaturesMissing) == (
                [FeaturesMissing(frozenset(off))] if off else []
            )
            assert (
                len([request for request in server.requests if request.query.get("dryRun")])
                == probes
            )

    finish(scenario())


def test_server_is_probed_when_lists_become_needed() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.features = frozenset(FEATURES) - {"lists"}
            await bench.publish(unhealthy_devices("a"))
            await bench.rest_over(1)
            await bench.publish(driver_resources(NODE_1, [on_node(1)], near={1: (1, 0)}))

            assert "'int': 1" in str(await bench.slices())
            assert bench.notices_of(DeviceRefused) == []

    finish(scenario())


def test_nics_without_lists_stay_published_while_the_gate_is_off() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            devices = [on_node(1, "a"), on_node(0, "b"), device("c")]
            await bench.publish(driver_resources(NODE_1, devices, near={1: (1, 0), 0: (0, 1)}))
            await bench.rest_over(1)
            server.features = frozenset(FEATURES) - {"lists"}
            await bench.wiped(server)
            (without,) = await bench.slices()
            await bench.until_in_sync()
            bench.clock.pass_time(PROBE_S)
            server.features = frozenset(FEATURES)
            await bench.wiped(server)
            (after,) = await bench.slices()

            assert names_of(without) == names_of(after) == ["a", "b", "c"]
            assert "'int': 1" in str(without)
            assert "'ints': [1, 0]" in str(after)
            assert bench.notices_of(DeviceRefused) == []
            missing = [notice.features for notice in bench.notices_of(FeaturesMissing)]
            assert missing == [{Feature.LISTS}, frozenset()]

    finish(scenario())
