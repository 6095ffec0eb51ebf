"""The reporter under failures of the API server: timeouts and rejected writes."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.kubeapi import CLAIM
from dra_shim.prepare import ClaimPrepared
from dra_shim.status import ClaimGone, ClaimRefused, StatusApplied, StatusNotKept, StatusSyncFailed
from dra_shim.status.claim_writer import MAX_CACHED, PROBE_S
from dra_shim.status.summary import ENDED_DELAY_S
from dra_shim.status.workqueue import FIRST_LASTING_S, FIRST_PAUSE_S, MIN_INTERVAL_S
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
    is_apply,
    is_event_post,
    prepared,
    refusal,
    reporting,
    right_missing,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.claim_rules import DEVICE_STATUS
from tests.fakes.exchange import Response

pytestmark = pytest.mark.process


def test_outage_of_minutes_loses_no_status(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            other = await prepared(bench, "nic-1")
            server.fail(None, lambda request: not is_event_post(request), times=8)
            bench.attachments.put(failed(given(ref, "nic-0"), "first"))
            bench.attachments.put(attached(given(other, "nic-1")))
            await bench.rest()
            pauses = []
            for count in range(1, 9):
                failure = await bench.until_notice(StatusSyncFailed, count)
                pauses.append(failure.retry_s)
                if count == 4:
                    bench.attachments.put(attached(given(ref, "nic-0")))
                    await asyncio.sleep(5 * DELAY_S)  # the loop reads a record DELAY_S later
                await bench.rest(failure.retry_s)
            await bench.until_notice(StatusApplied, 2)

            assert max(pauses) <= 60.0
            for claim_ref in (ref, other):
                (entry,) = entries(await bench.claim(claim_ref)).values()
                assert conditions(entry)["Ready"] == ("True", "NetworkDeviceReady")
            assert len([request for request in server.requests if is_apply(request)]) == 2, (
                "the last state"
            )
            bench.clock.pass_time(60.0)
            server.fail(None, is_apply)
            bench.attachments.put(failed(given(ref, "nic-0"), "second"))
            await bench.rest()
            assert (await bench.until_notice(StatusSyncFailed, 9)).retry_s == FIRST_PAUSE_S, (
                "it begins anew"
            )

    finish(scenario())


def test_retry_after_is_respected(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            server.fail(refusal(429, "TooManyRequests"), is_apply)
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            failure = await bench.until_notice(StatusSyncFailed)
            await bench.rest(90.0)
            await bench.until_notice(StatusApplied)

            assert failure.retry_s == 90.0

    finish(scenario())


def test_redirect_by_a_proxy_is_retried(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            server.fail(Response(302, b"", {"Location": "/login"}), is_apply)
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_any_notice(StatusSyncFailed)
            await bench.rest(FIRST_PAUSE_S)
            await bench.until_notice(StatusApplied)

    finish(scenario())


def test_lost_response_is_detected_as_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            server.lose_answer(is_apply)
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusSyncFailed)
            writes = len(server.writes)
            count = len(server.requests)
            await bench.rest(FIRST_PAUSE_S)
            await server.until(lambda: len(server.requests) > count)
            other = await prepared(bench, "nic-1")
            bench.attachments.put(attached(given(other, "nic-1")))
            await bench.rest()
            await bench.until_notice(StatusApplied)

            assert [write for write in server.writes[writes:] if ref.name in write] == []

    finish(scenario())


@pytest.mark.parametrize("refused", [refusal(403, "Forbidden"), right_missing()])
def test_missing_right_is_reported_and_retried_slowly(tmp_path: Path, refused: Response) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            server.fail(
                refused, lambda request: is_apply(request) and ref.name in request.path, times=2
            )
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusSyncFailed)
            other = await prepared(bench, "nic-1")
            bench.attachments.put(attached(given(other, "nic-1")))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            await bench.rest(FIRST_LASTING_S - 0.2)
            await bench.until_notice(StatusSyncFailed, 2)
            await bench.rest(2 * FIRST_LASTING_S)
            await bench.until_notice(StatusApplied, 2)

            refused_claim = bench.notices_of(StatusSyncFailed)
            assert [event.retry_s for event in refused_claim] == [
                FIRST_LASTING_S,
                2 * FIRST_LASTING_S,
            ]
            assert "grant" in str(refused_claim[0].error)
            assert "on resourceclaims/" in str(refused_claim[0].error)

    finish(scenario())


def test_invalid_status_is_reported_once_and_others_continue(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            server.fail(refusal(422, "Invalid"), is_apply)
            bench.attachments.put(failed(given(ref, "nic-0"), "first"))
            await bench.rest()
            await bench.until_any_notice(ClaimRefused)
            bench.clock.pass_time(3600.0)
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_any_notice(StatusApplied)

            assert len(bench.notices_of(ClaimRefused)) == 1
            assert entries(await bench.claim(ref))

    finish(scenario())


def test_unreadable_claim_is_reported_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            server.alter(
                "resourceclaims",
                ref.name,
                lambda status: status["status"]["allocation"]["devices"].update(results="?"),
                "default",
            )
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            refused_claim = await bench.until_any_notice(ClaimRefused)

            assert "status.allocation.devices.results" in refused_claim.reason

    finish(scenario())


def test_deleted_claim_is_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            server.remove("resourceclaims", ref.name)
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()

            assert await bench.until_notice(ClaimGone) == ClaimGone(ref)

    finish(scenario())


def test_claim_replaced_before_the_write_is_read_again(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            server.fail(refusal(409, "Conflict"), is_apply)
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusSyncFailed)
            await bench.rest(FIRST_PAUSE_S)

            assert await bench.until_notice(StatusApplied) == StatusApplied(ref, 1)

    finish(scenario())


def test_returned_claim_is_not_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            document = await bench.claim(ref)
            bench.reporter.notify(ClaimPrepared(ref, POD, gated=True, document=document))
            before = len(server.requests)
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            bench.attachments.put(failed(given(ref, "nic-0"), "gone"))
            await bench.rest(MIN_INTERVAL_S)
            await bench.until_notice(StatusApplied, 2)

            sent = [request for request in server.requests[before:] if not is_event_post(request)]
            assert [request.method for request in sent] == ["PATCH", "PATCH"]

    finish(scenario())


def test_claim_of_a_slow_prepare_hides_no_difference(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (_server, bench):
            ref = await prepared(bench, "nic-0")
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            ready = await bench.claim(ref)
            bench.attachments.put(failed(given(ref, "nic-0"), "gone"))
            await bench.rest(MIN_INTERVAL_S)
            await bench.until_notice(StatusApplied, 2)
            bench.reporter.notify(ClaimPrepared(ref, POD, gated=True, document=ready))
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest(MIN_INTERVAL_S)
            await bench.until_notice(StatusApplied, 3)

            (entry,) = entries(await bench.claim(ref)).values()
            assert {status for status, _ in conditions(entry).values()} == {"True"}

    finish(scenario())


def test_newest_returned_claims_are_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            refs = [await prepared(bench, f"nic-{number}") for number in range(2)]
            for ref in refs:
                bench.reporter.notify(
                    ClaimPrepared(ref, POD, gated=True, document=await bench.claim(ref))
                )
            for number in range(MAX_CACHED - 1):
                other = replace(refs[0], uid=f"other-{number}")
                bench.reporter.notify(
                    ClaimPrepared(other, POD, gated=True, document={"metadata": {}})
                )
            before = len(server.requests)
            for number in (1, 0):
                bench.attachments.put(attached(given(refs[number], f"nic-{number}")))
                await bench.rest()
                await bench.until_notice(StatusApplied, 2 - number)

            sent = [request for request in server.requests[before:] if not is_event_post(request)]
            assert [request.method for request in sent] == ["PATCH", "GET", "PATCH"]

    finish(scenario())


def test_status_dropped_by_the_server_is_not_written_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            server.features -= {DEVICE_STATUS}
            ref = await prepared(bench, "nic-0")
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusNotKept)
            other = await prepared(bench, "nic-1")
            bench.attachments.put(attached(given(other, "nic-1")))
            await bench.rest()
            await bench.clock.until_asleep(PROBE_S - 0.2)
            before = len([request for request in server.requests if is_apply(request)])
            server.features |= {DEVICE_STATUS}
            bench.clock.pass_time(PROBE_S)
            await bench.until_notice(StatusApplied, 2)

            assert before == 1
            assert len(bench.notices_of(StatusNotKept)) == 1
            assert entries(await bench.claim(ref))
            assert entries(await bench.claim(other))

    finish(scenario())


def test_frequent_changes_cause_one_write_in_5_seconds(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            for turn in range(4):
                for change in range(5):
                    record = failed(given(ref, "nic-0"), f"{turn} {change}", START + turn)
                    bench.attachments.put(record)
                await bench.rest(MIN_INTERVAL_S if turn else 0.2)
                await bench.until_notice(StatusApplied, turn + 1)

            assert len([request for request in server.requests if is_apply(request)]) == 4

    finish(scenario())


def test_status_of_a_claim_that_its_pod_owns_is_left_to_the_deletion_of_the_claim(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            owned, other = [await prepared(bench, device) for device in ("nic-0", "nic-1")]
            claim = await bench.claim(owned)
            owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "pod-1"}
            claim["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
            await bench.api.replace(CLAIM, claim, "default")
            for ref, device in ((owned, "nic-0"), (other, "nic-1")):
                bench.attachments.put(attached(given(ref, device)))
            await bench.rest()
            await bench.until_notice(StatusApplied, 2)
            bench.clock.pass_time(60.0)
            count = len(server.requests)
            for ref in (owned, other):
                bench.attachments.remove(ref.uid)
                bench.allocations.remove(ref.uid)
            await bench.rest(ENDED_DELAY_S)
            await bench.until_notice(StatusApplied, 3)

            requests = server.requests[count:]
            assert [request.method for request in requests] == ["GET", "PATCH"], "for the other"
            assert not [request for request in requests if owned.name in request.path]
            assert list(entries(await bench.claim(owned))) == ["nic-0"]

    finish(scenario())


def test_pod_that_ends_with_its_claim_causes_no_write(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            bench.clock.pass_time(60.0)
            bench.attachments.put(attached(given(ref, "nic-0"), Phase.DETACHING))
            bench.attachments.put(attached(given(ref, "nic-0"), Phase.RESTORED))
            bench.allocations.remove(ref.uid)
            bench.attachments.remove(ref.uid)
            server.remove("resourceclaims", ref.name)
            await bench.rest(ENDED_DELAY_S)
            await bench.until_notice(ClaimGone)

            assert len(bench.notices_of(StatusApplied)) == 1

    finish(scenario())
