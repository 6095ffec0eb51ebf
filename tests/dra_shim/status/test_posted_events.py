"""Events that the API server rejects or throttles."""

from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.prepare import PrepareFailed
from dra_shim.status import EventLost, EventPosted, StatusSyncFailed
from dra_shim.status.correlator import BURST, MAX_PENDING, REFILL_S
from dra_shim.status.recorder import FIRST_PAUSE_S, MAX_TRIES
from tests.dra_shim.status.status_bench import failed, given
from tests.dra_shim.status.status_trouble import (
    CLAIM,
    is_event_post,
    is_event_update,
    prepared,
    refusal,
    reporting,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.exchange import Request, Response

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    "refused",
    [None, refusal(401, "Unauthorized"), refusal(403, "Forbidden")],
    ids=["silent", "knows-nobody-yet", "refuses-everybody-yet"],
)
def test_event_is_posted_after_an_outage(tmp_path: Path, refused: Response | None) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            server.fail(refused, is_event_post, times=2)
            bench.reporter.notify(PrepareFailed(CLAIM, "no such device"))
            for count in (1, 2):
                failure = await bench.until_notice(StatusSyncFailed, count)
                bench.reporter.notify(PrepareFailed(CLAIM, "no such device"))
                await bench.rest(failure.retry_s)
            posted = await bench.until_notice(EventPosted)

            pauses = [notice.retry_s for notice in bench.notices_of(StatusSyncFailed)]
            assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S]
            (event,) = server.objects("events")
            assert (posted.count, event["count"]) == (2, 2), "the first try and one a second later"

    finish(scenario())


@pytest.mark.parametrize("refused", [refusal(500, "InternalError"), refusal(403, "Forbidden")])
def test_permanently_failing_event_is_dropped_without_delaying_others(
    tmp_path: Path, refused: Response
) -> None:
    def is_event_post_in_ill(request: Request) -> bool:
        return is_event_post(request) and "/namespaces/ill/" in request.path

    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            server.fail(refused, is_event_post_in_ill, times=1000)
            bench.reporter.notify(PrepareFailed(replace(CLAIM, namespace="ill"), "one"))
            bench.reporter.notify(PrepareFailed(CLAIM, "two"))
            for count in range(1, MAX_TRIES):
                failure = await bench.until_notice(StatusSyncFailed, count)
                await bench.rest(failure.retry_s)
                await bench.until_notice(EventPosted)
            lost = await bench.until_notice(EventLost)
            bench.clock.pass_time(3600.0)
            bench.reporter.notify(PrepareFailed(CLAIM, "three"))
            await bench.until_notice(EventPosted, 2)

            assert lost.reason.startswith(f"tried {MAX_TRIES} times: create Event")
            assert {event["message"] for event in server.objects("events")} == {"two", "three"}
            assert (
                len([request for request in server.requests if is_event_post_in_ill(request)])
                == MAX_TRIES
            )

    finish(scenario())


@pytest.mark.parametrize(
    "refused",
    [refusal(409, "Conflict"), Response(404, b"404 page not found\n")],
    ids=["changed quota", "starting server"],
)
def test_event_is_posted_after_a_temporary_refusal(tmp_path: Path, refused: Response) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            server.fail(refused, lambda request: request.method == "POST")
            bench.reporter.notify(PrepareFailed(CLAIM, "one"))
            failure = await bench.until_notice(StatusSyncFailed)
            await bench.rest(failure.retry_s)
            await bench.until_notice(EventPosted)

            assert [event["message"] for event in server.objects("events")] == ["one"]

    finish(scenario())


def test_invalid_event_is_dropped_and_logged(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            server.fail(refusal(422, "Invalid"), is_event_post)
            bench.reporter.notify(PrepareFailed(CLAIM, "one"))
            bench.reporter.notify(PrepareFailed(CLAIM, "two"))
            await bench.until_notice(EventPosted)

            (lost,) = bench.notices_of(EventLost)
            assert lost.reason.startswith("create Event")
            assert bench.notices_of(StatusSyncFailed) == []
            assert [event["message"] for event in server.objects("events")] == ["two"]

    finish(scenario())


@pytest.mark.parametrize(
    "refused",
    [
        refusal(404, "NotFound", name="default"),
        refusal(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}]),
    ],
    ids=["gone", "going"],
)
def test_event_of_a_deleted_namespace_is_dropped(tmp_path: Path, refused: Response) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            server.fail(refused, is_event_post)
            bench.reporter.notify(PrepareFailed(CLAIM, "one"))
            bench.reporter.notify(PrepareFailed(CLAIM, "two"))
            await bench.until_notice(EventPosted)

            assert [event["message"] for event in server.objects("events")] == ["two"]
            assert bench.notices_of(EventLost) == []

    finish(scenario())


def test_event_changed_by_another_client_is_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            bench.reporter.notify(PrepareFailed(CLAIM, "one"))
            await bench.until_notice(EventPosted)
            server.fail(refusal(409, "Conflict"), lambda request: request.method == "PUT")
            bench.clock.pass_time(60.0)
            bench.reporter.notify(PrepareFailed(CLAIM, "one"))
            failure = await bench.until_notice(StatusSyncFailed)
            await bench.rest(failure.retry_s)
            await bench.until_notice(EventPosted, 2)

            (event,) = server.objects("events")
            assert event["count"] == 2

    finish(scenario())


def test_flood_is_limited_to_25_events_then_one_in_five_minutes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            for number in range(MAX_PENDING + 5):
                bench.reporter.notify(PrepareFailed(CLAIM, str(number)))
            await bench.until_notice(EventPosted, BURST)
            await bench.clock.until_asleep(REFILL_S)
            assert len(server.objects("events")) == BURST
            bench.clock.pass_time(REFILL_S)
            await bench.until_notice(EventPosted, BURST + 1)
            await bench.clock.until_asleep(REFILL_S)

            assert len(server.objects("events")) == BURST + 1
            assert bench.notices_of(EventLost) == [EventLost(f"{MAX_PENDING} events wait already")]

    finish(scenario())


def test_restart_does_not_repeat_failure_events(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            bench.attachments.put(failed(given(ref, "nic-0"), "no"))
            await bench.until_notice(EventPosted)
        async with reporting(tmp_path, server) as (_, again):
            await server.until(lambda: any(is_event_update(request) for request in server.requests))
            again.reporter.notify(PrepareFailed(CLAIM, "one"))
            await again.until_notice(EventPosted)

            assert [event["count"] for event in server.objects("events")] == [1, 1]

    finish(scenario())
