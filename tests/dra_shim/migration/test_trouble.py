"""Claims of before that cannot be taken over at once, and what goes on meanwhile."""

import asyncio
from pathlib import Path

import pytest

from dra_shim.kubeapi import SLICE
from dra_shim.migration.controller import (
    FIRST_PAUSE_S,
    PAGE,
    PUBLISH_DELAY_S,
    MigrationFailed,
    MigrationFinished,
)
from dra_shim.resourceslice.layout import slice_name
from tests.dra_shim.migration.takeover_bench import NIC, lists_claims, lists_slices, node, slice_of
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.cluster import POOL, result
from tests.fakes.documents import status
from tests.fakes.exchange import Response

pytestmark = pytest.mark.process


def test_list_is_retried_after_a_server_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.add_claim("nics", result(NIC.name))
            bench.server.fail(None, lists_claims, times=2)
            looking = asyncio.create_task(bench.run())
            for pause_s in (FIRST_PAUSE_S, 2 * FIRST_PAUSE_S):
                await bench.clock.until_asleep(pause_s)
                failed = bench.notices[-1]
                assert isinstance(failed, MigrationFailed)
                assert failed.retry_s == pause_s
                assert not bench.state.adopted.exists()
                bench.clock.pass_time(pause_s)
            await looking

            assert bench.notices[2:] == [MigrationFinished(1)]

    finish(scenario())


def test_expired_list_is_restarted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            for number in range(PAGE + 1):
                await bench.add_claim(f"claim-{number}", result(f"nic-{number}"))
            gone = Response(410, status(410, "Expired", "too old to display a consistent list"))
            bench.server.fail(gone, lambda request: "continue" in request.query)
            looking = asyncio.create_task(bench.run())
            await bench.clock.until_asleep(FIRST_PAUSE_S)
            bench.clock.pass_time(FIRST_PAUSE_S)
            await looking

            ((refs, _),) = bench.prepared
            assert len(refs) == len(set(refs)) == PAGE + 1
            assert bench.notices[1:] == [MigrationFinished(PAGE + 1)]

    finish(scenario())


def test_publishing_waits_for_previous_claims_with_a_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            bench.server.fail(None, lists_claims, times=1000)
            controller = bench.controller()
            looking = asyncio.create_task(controller.run())
            publishing = asyncio.create_task(controller.until_publishable())
            await bench.clock.until_asleep(FIRST_PAUSE_S)
            await bench.clock.until_asleep(PUBLISH_DELAY_S)
            bench.clock.pass_time(PUBLISH_DELAY_S - 1)
            await asyncio.sleep(0)
            assert not publishing.done()

            bench.clock.pass_time(1)
            await publishing

            assert not looking.done(), "it goes on beside publishing"
            looking.cancel()

    finish(scenario())


def test_publishing_starts_when_previous_claims_have_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.add_claim("nics", result(NIC.name))
            controller = bench.controller()
            publishing = asyncio.create_task(controller.until_publishable())

            await asyncio.gather(controller.run(), publishing)

            assert bench.notices == [MigrationFinished(1)]

    finish(scenario())


def test_nothing_is_published_before_previous_slices_are_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            bench.server.fail(None, lists_slices)
            controller = bench.controller()
            publishing = asyncio.create_task(controller.until_publishable())
            looking = asyncio.create_task(controller.run())
            await bench.clock.until_asleep(FIRST_PAUSE_S)
            assert bench.clock.asleep() == [FIRST_PAUSE_S], "no patience has begun"
            assert not publishing.done()

            bench.clock.pass_time(FIRST_PAUSE_S)
            await asyncio.gather(looking, publishing)

    finish(scenario())


def test_previous_slices_are_kept_after_publishing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.api.create(SLICE, slice_of("node-1-dra.net-x7k2p"))
            await bench.add_claim("nics", result(NIC.name))
            bench.server.fail(None, lists_claims)
            looking = asyncio.create_task(bench.run())
            await bench.clock.until_asleep(FIRST_PAUSE_S)
            bench.server.remove("resourceslices")
            document = slice_of(slice_name(POOL, 0))
            await bench.api.create(SLICE, {**document, "spec": {**document["spec"], "devices": []}})

            bench.clock.pass_time(FIRST_PAUSE_S)
            await looking

            ((_, devices),) = bench.prepared
            assert devices == {NIC.name: NIC}

    finish(scenario())


def test_failure_to_store_previous_slices_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            bench.state.directory.rmdir()

            await bench.run()

            _, failed = bench.notices
            assert isinstance(failed, MigrationFailed)
            assert isinstance(failed.error, FileNotFoundError)
            assert failed.retry_s is None

    finish(scenario())
