"""A server whose gates are off gets what it can take, and nobody fights over the rest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dra_shim.goods import Feature, goods_of
from dra_shim.slices import FeaturesMissing
from tests.cluster.control_plane import ControlPlane
from tests.cluster.subject import RealSubject
from tests.process.plugin_bench import finish
from tests.process.publisher_bench import names_of
from tests.process.test_slices_contract import CARD, VFS, publisher

OFF = frozenset({Feature.COUNTERS, Feature.SHARING})


@pytest.fixture(scope="module")
def old(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane that knows neither counters nor shares."""
    directory = tmp_path_factory.mktemp("old")
    with ControlPlane(programs, directory, dict.fromkeys(OFF, False)) as plane:
        yield plane


def test_what_the_gates_keep_from_a_server_is_not_fought_over(old: ControlPlane) -> None:
    subject = RealSubject(old)

    async def scene() -> None:
        async with publisher(subject) as (_, it):
            goods = goods_of(it.node, CARD, frozenset({"shared"}), {"vf-1": "NoCarrier"}, VFS)
            told = await it.publish(goods)
            await it.until_at_ease()
            before = await it.versions()
        async with publisher(subject, it.node) as (_, again):
            restarted = await again.publish(goods)

            (document,) = await again.slices()
            assert (told.writes, restarted.writes) == (1, 0)
            assert await again.versions() == before
            assert it.said(FeaturesMissing) == [FeaturesMissing(OFF)]
            assert names_of(document) == ["pf", "vf-0", "vf-1", "vf-2"]
            assert "NoCarrier" in str(document)

    finish(scene())
