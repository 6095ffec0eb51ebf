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
    PATIENCE_S,
    REFUSED_S,
    ClaimNotMigrated,
    MigrationController,
    MigrationFailed,
    MigrationFinished,
)
from dra_shim.resourceslice.layout import slice_name
from dranet_nri.model import ObjectRef
from tests.dra_shim.migration.takeover_bench import NIC, Scene, lists_claims, node, slice_of
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.cluster import POOL, result
from tests.fakes.documents import status
from tests.fakes.exchange import Told

pytestmark = pytest.mark.process


FOREIGN = "node-1-dra.net-x7k2p"
FORBIDDEN = Told(403, status(403, "Forbidden", "clusterrole dranet not found"))
REFUSAL = "device pci-0000-8a-00-0: in use by claim ai/old of pod ai/ended"


@asynccontextmanager
async def at_work(adoption: MigrationController) -> AsyncIterator[asyncio.Task[None]]:
    """Look for claims of before meanwhile."""
    looking = asyncio.create_task(adoption.run())
    try:
        yield looking
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


async def publish(stage: Scene) -> None:
    """Put a slice of ours, without the NIC that is in a pod, in place of those of before."""
    stage.server.remove("resourceslices")
    ours = slice_of(slice_name(POOL, 0))
    await stage.api.create(SLICE, {**ours, "spec": {**ours["spec"], "devices": []}})


def lists(stage: Scene) -> int:
    return sum(map(lists_claims, stage.server.asked))


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Told(401, status(401, "Unauthorized", "who?")), id="unknown token"),
        pytest.param(FORBIDDEN, id="no right"),
        pytest.param(Told(404, b"404 page not found\n", {}), id="no such group"),
        pytest.param(Told(400, status(400, "BadRequest", "what?")), id="anything else"),
    ],
)
def test_refused_list_is_retried(tmp_path: Path, refusal: Told) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.api.create(SLICE, slice_of(FOREIGN))
            await stage.add_claim("nics", result(NIC.name))
            stage.server.fail(refusal, lists_claims)
            async with at_work(stage.adoption()) as looking:
                await stage.clock.until_asleep(FIRST_LASTING_S)
                await publish(stage)
                stage.clock.pass_time(FIRST_LASTING_S)
                await looking

            trouble, done = stage.notices
            assert isinstance(trouble, MigrationFailed)
            assert trouble.retry_s == FIRST_LASTING_S
            assert done == MigrationFinished(1)
            assert stage.asked[0][1] == {NIC.name: NIC}, "as it was published before"
            assert stage.state.adopted.exists()

    finish(scene())


def test_node_works_without_the_right_to_list_claims(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.server.fail(FORBIDDEN, lists_claims, times=1000)
            adoption = stage.adoption()
            publishing = asyncio.create_task(adoption.awaited())
            async with at_work(adoption) as looking:
                for pause_s in (30.0, 60.0, 120.0, 240.0, LONGEST_LASTING_S, LONGEST_LASTING_S):
                    await stage.clock.until_asleep(pause_s)
                    stage.clock.pass_time(pause_s)
                await publishing

                assert not looking.done(), "it goes on beside publishing"
                assert not stage.state.adopted.exists(), "the next start tries again"

    finish(scene())


def test_refusal_does_not_shorten_the_wait_before_publishing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.server.fail(FORBIDDEN, lists_claims, times=1000)
            adoption = stage.adoption()
            publishing = asyncio.create_task(adoption.awaited())
            async with at_work(adoption):
                await stage.clock.until_asleep(FIRST_LASTING_S)
                await stage.clock.until_asleep(PATIENCE_S)
                assert not publishing.done()

                stage.clock.pass_time(PATIENCE_S)
                await publishing

    finish(scene())


def test_refusal_after_an_outage_counts_as_the_first(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.server.fail(None, lists_claims, times=3)
            stage.server.fail(FORBIDDEN, lists_claims)
            async with at_work(stage.adoption()) as looking:
                for doublings in range(3):
                    await stage.clock.until_asleep(FIRST_PAUSE_S * 2**doublings)
                    stage.clock.pass_time(FIRST_PAUSE_S * 2**doublings)
                await stage.clock.until_asleep(FIRST_LASTING_S)
                stage.clock.pass_time(FIRST_LASTING_S)
                await looking

    finish(scene())


def test_refused_claim_is_retried_alone(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.api.create(SLICE, slice_of(FOREIGN))
            uid = await stage.add_claim("nics", result(NIC.name))
            stage.error = REFUSAL
            adoption = stage.adoption()
            async with at_work(adoption) as looking:
                await stage.clock.until_asleep(REFUSED_S)
                await adoption.awaited()
                await publish(stage)
                stage.clock.pass_time(REFUSED_S)
                await stage.clock.until_asleep(REFUSED_S)
                assert not stage.state.adopted.exists(), "the next start looks again"
                reason = f"claim ai/nics: {REFUSAL}"
                assert stage.notices == [
                    MigrationFinished(0, (reason,)), ClaimNotMigrated(reason)
                ], "reported once"  # fmt: skip

                stage.error = ""
                stage.clock.pass_time(REFUSED_S)
                await looking

            assert stage.notices[2:] == [MigrationFinished(1)]
            assert stage.asked == [((ObjectRef("ai", "nics", uid),), {NIC.name: NIC})] * 3
            assert stage.state.adopted.exists()
            assert lists(stage) == 1

    finish(scene())


def test_api_outage_does_not_change_the_adoption(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.add_claim("nics", result(NIC.name))
            stage.error = REFUSAL
            async with at_work(stage.adoption()) as looking:
                await stage.clock.until_asleep(REFUSED_S)
                stage.server.fail(None)
                stage.error = ""
                stage.clock.pass_time(REFUSED_S)
                await stage.clock.until_asleep(FIRST_PAUSE_S)
                stage.clock.pass_time(FIRST_PAUSE_S)
                await looking

            assert stage.notices[3:] == [MigrationFinished(1)]
            assert lists(stage) == 1

    finish(scene())


@pytest.mark.parametrize("end", ["gone", "replaced", "used by nobody"])
def test_refused_claim_without_a_pod_is_dropped(tmp_path: Path, end: str) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.add_claim("nics", result(NIC.name))
            stage.error = REFUSAL
            async with at_work(stage.adoption()) as looking:
                await stage.clock.until_asleep(REFUSED_S)
                if end == "used by nobody":
                    stage.server.alter(
                        "resourceclaims", "nics", lambda entry: entry["status"].clear(), "ai"
                    )
                else:
                    stage.server.remove("resourceclaims", "nics")
                if end == "replaced":
                    await stage.add_claim("nics", result(NIC.name))
                stage.clock.pass_time(REFUSED_S)
                await looking

            assert len(stage.asked) == 1
            assert stage.state.adopted.exists()

    finish(scene())


def test_restarted_shim_scans_until_no_claim_is_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.state.adopted.touch()
            await stage.api.create(SLICE, slice_of(FOREIGN))
            await stage.add_claim("nics", result(NIC.name))
            stage.error = REFUSAL
            async with at_work(stage.adoption()):
                await stage.clock.until_asleep(REFUSED_S)
                await publish(stage)
            stage.error = ""

            await stage.run()  # the next start

            assert stage.notices[2:] == [MigrationFinished(1)]
            assert stage.state.adopted.exists()

    finish(scene())


def test_ended_claim_is_neither_adopted_nor_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.over.add(await stage.add_claim("ended", result("ended")))
            await stage.add_claim("nics", result(NIC.name))

            await stage.run()

            assert stage.notices == [MigrationFinished(1)]
            assert stage.state.adopted.exists()

    finish(scene())
