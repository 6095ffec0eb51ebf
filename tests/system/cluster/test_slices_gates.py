"""The publisher on a server with disabled gates: supported fields only, no repeated writes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dra_shim.pool import Feature, driver_resources
from dra_shim.resourceslice import FeaturesMissing
from tests.dra_shim.resourceslice.pools import many, on_node
from tests.dra_shim.resourceslice.publisher_bench import names_of
from tests.dra_shim.resourceslice.test_contract import CARD as PLAIN_CARD
from tests.dra_shim.resourceslice.test_contract import VFS, published, publisher
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.subject import RealSubject

CARD = [*PLAIN_CARD, on_node(1, "with-numa")]
OFF = frozenset({Feature.COUNTERS, Feature.SHARING})


@pytest.fixture(scope="module")
def old(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane that knows neither counters nor shares."""
    directory = tmp_path_factory.mktemp("old")
    with ControlPlane(programs, directory, dict.fromkeys(OFF, False)) as plane:
        yield plane


def test_fields_dropped_by_feature_gates_cause_no_repeated_writes(old: ControlPlane) -> None:
    subject = RealSubject(old)

    async def scenario() -> None:
        async with publisher(subject) as (_, bench):
            # Lists are off by default.
            resources = driver_resources(
                bench.node, CARD, frozenset({"shared"}), {"vf-1": "NoCarrier"}, VFS, {}
            )
            notice = await bench.publish(resources)
            await bench.until_in_sync()
            before = await bench.versions()
        async with publisher(subject, bench.node) as (_, again):
            restarted = await again.publish(resources)

            (document,) = await again.slices()
            assert (notice.writes, restarted.writes) == (1, 0)
            assert await again.versions() == before
            assert bench.notices_of(FeaturesMissing) == [FeaturesMissing(OFF | {Feature.LISTS})]
            assert names_of(document) == ["pf", "vf-0", "vf-1", "vf-2", "with-numa"]
            assert "NoCarrier" in str(document)

    finish(scenario())


@pytest.fixture
def listing(programs: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """Return a control plane that knows lists."""
    with ControlPlane(programs, tmp_path, {Feature.LISTS: True}) as plane:
        yield plane


def test_numa_nodes_are_lists_if_the_feature_gate_is_on(listing: ControlPlane) -> None:
    async def scenario() -> None:
        async with publisher(RealSubject(listing)) as (_, bench):
            devices = [on_node(1, name) for name in many(65)]
            resources = driver_resources(
                bench.node, devices, unhealthy={"nic-0000": "NoCarrier"}, near={1: (1, 0)}
            )
            notice = await bench.publish(resources)

            assert (notice.devices, notice.slices) == (65, 2)
            assert (await published(bench))[0] == resources.devices
            assert bench.notices_of(FeaturesMissing) == []

    finish(scenario())
