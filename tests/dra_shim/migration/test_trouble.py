"""Claims of before that cannot be taken over at once, and what goes on meanwhile."""

import asyncio
from pathlib import Path

import pytest

from dra_shim.kubeapi import SLICE
from dra_shim.migration.controller import (
    FIRST_PAUSE_S,
    PAGE,
    PATIENCE_S,
    MigrationFailed,
    MigrationFinished,
)
from dra_shim.resourceslice.layout import slice_name
from tests.dra_shim.migration.takeover_bench import NIC, lists_claims, lists_slices, node, slice_of
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.cluster import POOL, result
from tests.fakes.documents import status
from tests.fakes.exchange import Told

pytestmark = pytest.mark.process


def test_list_is_retried_after_a_server_error(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.add_claim("nics", result(NIC.name))
            stage.server.fail(None, lists_claims, times=2)
            looking = asyncio.create_task(stage.run())
            for pause_s in (FIRST_PAUSE_S, 2 * FIRST_PAUSE_S):
                await stage.clock.until_asleep(pause_s)
                trouble = stage.notices[-1]
                assert isinstance(trouble, MigrationFailed)
                assert trouble.retry_s == pause_s
                assert not stage.state.adopted.exists()
                stage.clock.pass_time(pause_s)
            await looking

            assert stage.notices[2:] == [MigrationFinished(1)]

    finish(scene())


def test_expired_list_is_restarted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            for number in range(PAGE + 1):
                await stage.add_claim(f"claim-{number}", result(f"nic-{number}"))
            gone = Told(410, status(410, "Expired", "too old to display a consistent list"))
            stage.server.fail(gone, lambda asked: "continue" in asked.query)
            looking = asyncio.create_task(stage.run())
            await stage.clock.until_asleep(FIRST_PAUSE_S)
            stage.clock.pass_time(FIRST_PAUSE_S)
            await looking

            ((refs, _),) = stage.asked
            assert len(refs) == len(set(refs)) == PAGE + 1
            assert stage.notices[1:] == [MigrationFinished(PAGE + 1)]

    finish(scene())


def test_publishing_waits_for_previous_claims_with_a_limit(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.server.fail(None, lists_claims, times=1000)
            adoption = stage.adoption()
            looking = asyncio.create_task(adoption.run())
            publishing = asyncio.create_task(adoption.awaited())
            await stage.clock.until_asleep(FIRST_PAUSE_S)
            await stage.clock.until_asleep(PATIENCE_S)
            stage.clock.pass_time(PATIENCE_S - 1)
            await asyncio.sleep(0)
            assert not publishing.done()

            stage.clock.pass_time(1)
            await publishing

            assert not looking.done(), "it goes on beside publishing"
            looking.cancel()

    finish(scene())


def test_publishing_starts_when_previous_claims_have_records(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.add_claim("nics", result(NIC.name))
            adoption = stage.adoption()
            publishing = asyncio.create_task(adoption.awaited())

            await asyncio.gather(adoption.run(), publishing)

            assert stage.notices == [MigrationFinished(1)]

    finish(scene())


def test_nothing_is_published_before_previous_slices_are_read(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.server.fail(None, lists_slices)
            adoption = stage.adoption()
            publishing = asyncio.create_task(adoption.awaited())
            looking = asyncio.create_task(adoption.run())
            await stage.clock.until_asleep(FIRST_PAUSE_S)
            assert stage.clock.asleep() == [FIRST_PAUSE_S], "no patience has begun"
            assert not publishing.done()

            stage.clock.pass_time(FIRST_PAUSE_S)
            await asyncio.gather(looking, publishing)

    finish(scene())


def test_previous_slices_are_kept_after_publishing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.api.create(SLICE, slice_of("node-1-dra.net-x7k2p"))
            await stage.add_claim("nics", result(NIC.name))
            stage.server.fail(None, lists_claims)
            looking = asyncio.create_task(stage.run())
            await stage.clock.until_asleep(FIRST_PAUSE_S)
            stage.server.remove("resourceslices")
            ours = slice_of(slice_name(POOL, 0))
            await stage.api.create(SLICE, {**ours, "spec": {**ours["spec"], "devices": []}})

            stage.clock.pass_time(FIRST_PAUSE_S)
            await looking

            ((_, devices),) = stage.asked
            assert devices == {NIC.name: NIC}

    finish(scene())


def test_failure_to_store_previous_slices_is_reported(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.state.directory.rmdir()

            await stage.run()

            _, trouble = stage.notices
            assert isinstance(trouble, MigrationFailed)
            assert isinstance(trouble.error, FileNotFoundError)
            assert trouble.retry_s is None

    finish(scene())
