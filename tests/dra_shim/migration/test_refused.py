"""Claims of before that are refused for now: we are, or one of them is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from dra_shim.kubeapi import SLICE
from dra_shim.migration.controller import (
    FIRST_LASTING_S,
    FIRST_PAUSE_S,
    LONGEST_LASTING_S,
    PUBLISH_DELAY_S,
    REFUSED_S,
    ClaimNotMigrated,
    MigrationController,
    MigrationFailed,
    MigrationFinished,
)
from dra_shim.resourceslice.layout import slice_name
from dranet_nri.model import ObjectRef
from tests.dra_shim.migration.takeover_bench import NIC, Bench, lists_claims, node, slice_of
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.cluster import POOL, result
from tests.fakes.documents import status
from tests.fakes.exchange import Response

pytestmark = pytest.mark.process


FOREIGN = "node-1-dra.net-x7k2p"
FORBIDDEN = Response(403, status(403, "Forbidden", "clusterrole dranet not found"))
REFUSAL = "device pci-0000-8a-00-0: in use by claim ai/old of pod ai/ended"


@asynccontextmanager
async def at_work(controller: MigrationController) -> AsyncIterator[asyncio.Task[None]]:
    """Look for claims of before meanwhile."""
    looking = asyncio.create_task(controller.run())
    try:
        yield looking
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


async def publish(bench: Bench) -> None:
    """Replace the slices of the previous driver by one without the NIC that is in a pod."""
    bench.server.remove("resourceslices")
    document = slice_of(slice_name(POOL, 0))
    await bench.api.create(SLICE, {**document, "spec": {**document["spec"], "devices": []}})


def lists(bench: Bench) -> int:
    return sum(map(lists_claims, bench.server.requests))


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Response(401, status(401, "Unauthorized", "who?")), id="unknown token"),
        pytest.param(FORBIDDEN, id="no right"),
        pytest.param(Response(404, b"404 page not found\n", {}), id="no such group"),
        pytest.param(Response(400, status(400, "BadRequest", "what?")), id="anything else"),
    ],
)
def test_refused_list_is_retried(tmp_path: Path, refusal: Response) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.api.create(SLICE, slice_of(FOREIGN))
            await bench.add_claim("nics", result(NIC.name))
            bench.server.fail(refusal, lists_claims)
            async with at_work(bench.controller()) as looking:
                await bench.clock.until_asleep(FIRST_LASTING_S)
                await publish(bench)
                bench.clock.pass_time(FIRST_LASTING_S)
                await looking

            failed, done = bench.notices
            assert isinstance(failed, MigrationFailed)
            assert failed.retry_s == FIRST_LASTING_S
            assert done == MigrationFinished(1)
            assert bench.prepared[0][1] == {NIC.name: NIC}, "as it was published before"
            assert bench.state.adopted.exists()

    finish(scenario())


def test_node_works_without_the_right_to_list_claims(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            bench.server.fail(FORBIDDEN, lists_claims, times=1000)
            controller = bench.controller()
            publishing = asyncio.create_task(controller.until_publishable())
            async with at_work(controller) as looking:
                for pause_s in (30.0, 60.0, 120.0, 240.0, LONGEST_LASTING_S, LONGEST_LASTING_S):
                    await bench.clock.until_asleep(pause_s)
                    bench.clock.pass_time(pause_s)
                await publishing

                assert not looking.done(), "it goes on beside publishing"
                assert not bench.state.adopted.exists(), "the next start tries again"

    finish(scenario())


def test_refusal_does_not_shorten_the_wait_before_publishing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            bench.server.fail(FORBIDDEN, lists_claims, times=1000)
            controller = bench.controller()
            publishing = asyncio.create_task(controller.until_publishable())
            async with at_work(controller):
                await bench.clock.until_asleep(FIRST_LASTING_S)
                await bench.clock.until_asleep(PUBLISH_DELAY_S)
                assert not publishing.done()

                bench.clock.pass_time(PUBLISH_DELAY_S)
                await publishing

    finish(scenario())


def test_refusal_after_an_outage_counts_as_the_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            bench.server.fail(None, lists_claims, times=3)
            bench.server.fail(FORBIDDEN, lists_claims)
            async with at_work(bench.controller()) as looking:
                for doublings in range(3):
                    await bench.clock.until_asleep(FIRST_PAUSE_S * 2**doublings)
                    bench.clock.pass_time(FIRST_PAUSE_S * 2**doublings)
                await bench.clock.until_asleep(FIRST_LASTING_S)
                bench.clock.pass_time(FIRST_LASTING_S)
                await looking

    finish(scenario())


def test_refused_claim_is_retried_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.api.create(SLICE, slice_of(FOREIGN))
            uid = await bench.add_claim("nics", result(NIC.name))
            bench.error = REFUSAL
            controller = bench.controller()
            async with at_work(controller) as looking:
                await bench.clock.until_asleep(REFUSED_S)
                await controller.until_publishable()
                await publish(bench)
                bench.clock.pass_time(REFUSED_S)
                await bench.clock.until_asleep(REFUSED_S)
                assert not bench.state.adopted.exists(), "the next start looks again"
                reason = f"claim ai/nics: {REFUSAL}"
                assert bench.notices == [
                    MigrationFinished(0, (reason,)), ClaimNotMigrated(reason)
                ], "reported once"  # fmt: skip

                bench.error = ""
                bench.clock.pass_time(REFUSED_S)
                await looking

            assert bench.notices[2:] == [MigrationFinished(1)]
            assert bench.prepared == [((ObjectRef("ai", "nics", uid),), {NIC.name: NIC})] * 3
            assert bench.state.adopted.exists()
            assert lists(bench) == 1

    finish(scenario())


def test_api_outage_does_not_change_the_adoption(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.add_claim("nics", result(NIC.name))
            bench.error = REFUSAL
            async with at_work(bench.controller()) as looking:
                await bench.clock.until_asleep(REFUSED_S)
                bench.server.fail(None)
                bench.error = ""
                bench.clock.pass_time(REFUSED_S)
                await bench.clock.until_asleep(FIRST_PAUSE_S)
                bench.clock.pass_time(FIRST_PAUSE_S)
                await looking

            assert bench.notices[3:] == [MigrationFinished(1)]
            assert lists(bench) == 1

    finish(scenario())


@pytest.mark.parametrize("end", ["gone", "replaced", "used by nobody"])
def test_refused_claim_without_a_pod_is_dropped(tmp_path: Path, end: str) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.add_claim("nics", result(NIC.name))
            bench.error = REFUSAL
            async with at_work(bench.controller()) as looking:
                await bench.clock.until_asleep(REFUSED_S)
                if end == "used by nobody":
                    bench.server.alter(
                        "resourceclaims", "nics", lambda entry: entry["status"].clear(), "ai"
                    )
                else:
                    bench.server.remove("resourceclaims", "nics")
                if end == "replaced":
                    await bench.add_claim("nics", result(NIC.name))
                bench.clock.pass_time(REFUSED_S)
                await looking

            assert len(bench.prepared) == 1
            assert bench.state.adopted.exists()

    finish(scenario())


def test_restarted_shim_scans_until_no_claim_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            bench.state.adopted.touch()
            await bench.api.create(SLICE, slice_of(FOREIGN))
            await bench.add_claim("nics", result(NIC.name))
            bench.error = REFUSAL
            async with at_work(bench.controller()):
                await bench.clock.until_asleep(REFUSED_S)
                await publish(bench)
            bench.error = ""

            await bench.run()  # the next start

            assert bench.notices[2:] == [MigrationFinished(1)]
            assert bench.state.adopted.exists()

    finish(scenario())


def test_ended_claim_is_neither_adopted_nor_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            bench.over.add(await bench.add_claim("ended", result("ended")))
            await bench.add_claim("nics", result(NIC.name))

            await bench.run()

            assert bench.notices == [MigrationFinished(1)]
            assert bench.state.adopted.exists()

    finish(scenario())
