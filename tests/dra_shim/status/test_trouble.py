"""The reporter under failures of the API server: timeouts and rejected writes."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.prepare import ClaimPrepared
from dra_shim.status import ClaimGone, ClaimRefused, StatusApplied, StatusNotKept, StatusSyncFailed
from dra_shim.status.claim_writer import MAX_KNOWN, PROBE_S
from dra_shim.status.summary import DEPARTURE_S
from dra_shim.status.workqueue import FIRST_LASTING_S, FIRST_PAUSE_S, REST_S
from dranet_nri.component.deferred import DELAY_S
from dranet_nri.model import Phase
from tests.dra_shim.status.status_bench import (
    POD,
    START,
    attached,
    conditions,
    entries,
    failed,
    given,
)
from tests.dra_shim.status.status_trouble import (
    applying,
    posting,
    prepared,
    refusal,
    reporting,
    right_missing,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.claim_rules import DEVICE_STATUS
from tests.fakes.exchange import Told

pytestmark = pytest.mark.process


def test_outage_of_minutes_loses_no_status(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            other = await prepared(it, "nic-1")
            server.fail(None, lambda asked: not posting(asked), times=8)
            it.attachments.put(failed(given(ref, "nic-0"), "first"))
            it.attachments.put(attached(given(other, "nic-1")))
            await it.rest()
            pauses = []
            for count in range(1, 9):
                trouble = await it.until_said(StatusSyncFailed, count)
                pauses.append(trouble.retry_s)
                if count == 4:
                    it.attachments.put(attached(given(ref, "nic-0")))
                    await asyncio.sleep(5 * DELAY_S)  # the loop reads a record DELAY_S later
                await it.rest(trouble.retry_s)
            await it.until_said(StatusApplied, 2)

            assert max(pauses) <= 60.0
            for claim_ref in (ref, other):
                (entry,) = entries(await it.claim(claim_ref)).values()
                assert conditions(entry)["Ready"] == ("True", "NetworkDeviceReady")
            assert len([request for request in server.asked if applying(request)]) == 2, (
                "the last state"
            )
            it.clock.pass_time(60.0)
            server.fail(None, applying)
            it.attachments.put(failed(given(ref, "nic-0"), "second"))
            await it.rest()
            assert (await it.until_said(StatusSyncFailed, 9)).retry_s == FIRST_PAUSE_S, (
                "it begins anew"
            )

    finish(scene())


def test_retry_after_is_respected(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.fail(refusal(429, "TooManyRequests"), applying)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            trouble = await it.until_said(StatusSyncFailed)
            await it.rest(90.0)
            await it.until_said(StatusApplied)

            assert trouble.retry_s == 90.0

    finish(scene())


def test_lost_response_is_detected_as_written(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.lose_answer(applying)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(StatusSyncFailed)
            writes = len(server.writes)
            count = len(server.asked)
            await it.rest(FIRST_PAUSE_S)
            await server.until(lambda: len(server.asked) > count)
            other = await prepared(it, "nic-1")
            it.attachments.put(attached(given(other, "nic-1")))
            await it.rest()
            await it.until_said(StatusApplied)

            assert [write for write in server.writes[writes:] if ref.name in write] == []

    finish(scene())


@pytest.mark.parametrize("refused", [refusal(403, "Forbidden"), right_missing()])
def test_missing_right_is_reported_and_retried_slowly(tmp_path: Path, refused: Told) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.fail(refused, lambda asked: applying(asked) and ref.name in asked.path, times=2)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(StatusSyncFailed)
            other = await prepared(it, "nic-1")
            it.attachments.put(attached(given(other, "nic-1")))
            await it.rest()
            await it.until_said(StatusApplied)
            await it.rest(FIRST_LASTING_S - 0.2)
            await it.until_said(StatusSyncFailed, 2)
            await it.rest(2 * FIRST_LASTING_S)
            await it.until_said(StatusApplied, 2)

            told = it.said(StatusSyncFailed)
            assert [event.retry_s for event in told] == [FIRST_LASTING_S, 2 * FIRST_LASTING_S]
            assert "grant" in str(told[0].error)
            assert "on resourceclaims/" in str(told[0].error)

    finish(scene())


def test_invalid_status_is_reported_once_and_others_continue(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.fail(refusal(422, "Invalid"), applying)
            it.attachments.put(failed(given(ref, "nic-0"), "first"))
            await it.rest()
            await it.until_noted(ClaimRefused)
            it.clock.pass_time(3600.0)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_noted(StatusApplied)

            assert len(it.said(ClaimRefused)) == 1
            assert entries(await it.claim(ref))

    finish(scene())


def test_unreadable_claim_is_reported_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.alter(
                "resourceclaims",
                ref.name,
                lambda status: status["status"]["allocation"]["devices"].update(results="?"),
                "default",
            )
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            told = await it.until_noted(ClaimRefused)

            assert "status.allocation.devices.results" in told.reason

    finish(scene())


def test_deleted_claim_is_dropped(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.remove("resourceclaims", ref.name)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()

            assert await it.until_said(ClaimGone) == ClaimGone(ref)

    finish(scene())


def test_claim_replaced_before_the_write_is_read_again(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.fail(refusal(409, "Conflict"), applying)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(StatusSyncFailed)
            await it.rest(FIRST_PAUSE_S)

            assert await it.until_said(StatusApplied) == StatusApplied(ref, 1)

    finish(scene())


def test_returned_claim_is_not_read_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            document = await it.claim(ref)
            it.reporter.notify(ClaimPrepared(ref, POD, gated=True, document=document))
            before = len(server.asked)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(StatusApplied)
            it.attachments.put(failed(given(ref, "nic-0"), "gone"))
            await it.rest(REST_S)
            await it.until_said(StatusApplied, 2)

            asked = [request for request in server.asked[before:] if not posting(request)]
            assert [request.method for request in asked] == ["PATCH", "PATCH"]

    finish(scene())


def test_newest_returned_claims_are_kept(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            refs = [await prepared(it, f"nic-{number}") for number in range(2)]
            for ref in refs:
                it.reporter.notify(
                    ClaimPrepared(ref, POD, gated=True, document=await it.claim(ref))
                )
            for number in range(MAX_KNOWN - 1):
                other = replace(refs[0], uid=f"other-{number}")
                it.reporter.notify(ClaimPrepared(other, POD, gated=True, document={"metadata": {}}))
            before = len(server.asked)
            for number in (1, 0):
                it.attachments.put(attached(given(refs[number], f"nic-{number}")))
                await it.rest()
                await it.until_said(StatusApplied, 2 - number)

            asked = [request for request in server.asked[before:] if not posting(request)]
            assert [request.method for request in asked] == ["PATCH", "GET", "PATCH"]

    finish(scene())


def test_status_dropped_by_the_server_is_not_written_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            server.features -= {DEVICE_STATUS}
            ref = await prepared(it, "nic-0")
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(StatusNotKept)
            other = await prepared(it, "nic-1")
            it.attachments.put(attached(given(other, "nic-1")))
            await it.rest()
            await it.clock.until_asleep(PROBE_S - 0.2)
            before = len([request for request in server.asked if applying(request)])
            server.features |= {DEVICE_STATUS}
            it.clock.pass_time(PROBE_S)
            await it.until_said(StatusApplied, 2)

            assert before == 1
            assert len(it.said(StatusNotKept)) == 1
            assert entries(await it.claim(ref))
            assert entries(await it.claim(other))

    finish(scene())


def test_frequent_changes_cause_one_write_in_5_seconds(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            for turn in range(4):
                for change in range(5):
                    record = failed(given(ref, "nic-0"), f"{turn} {change}", START + turn)
                    it.attachments.put(record)
                await it.rest(REST_S if turn else 0.2)
                await it.until_said(StatusApplied, turn + 1)

            assert len([request for request in server.asked if applying(request)]) == 4

    finish(scene())


def test_pod_that_ends_with_its_claim_causes_no_write(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(StatusApplied)
            it.clock.pass_time(60.0)
            it.attachments.put(attached(given(ref, "nic-0"), Phase.DETACHING))
            it.attachments.put(attached(given(ref, "nic-0"), Phase.HOME))
            it.allocations.remove(ref.uid)
            it.attachments.remove(ref.uid)
            server.remove("resourceclaims", ref.name)
            await it.rest(DEPARTURE_S)
            await it.until_said(ClaimGone)

            assert len(it.said(StatusApplied)) == 1

    finish(scene())
