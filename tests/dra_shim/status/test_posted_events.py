"""Events that the API server rejects or throttles."""

from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.prepare import PrepareFailed
from dra_shim.status import EventLost, EventPosted, StatusSyncFailed
from dra_shim.status.correlator import BURST, MAX_WAITING, REFILL_S
from dra_shim.status.recorder import FIRST_PAUSE_S, MAX_TRIES
from tests.dra_shim.status.status_bench import failed, given
from tests.dra_shim.status.status_trouble import (
    CLAIM,
    counting,
    posting,
    prepared,
    refusal,
    reporting,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.exchange import Asked, Told

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    "refused",
    [None, refusal(401, "Unauthorized"), refusal(403, "Forbidden")],
    ids=["silent", "knows-nobody-yet", "refuses-everybody-yet"],
)
def test_event_is_posted_after_an_outage(tmp_path: Path, refused: Told | None) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            server.fail(refused, posting, times=2)
            it.reporter.notify(PrepareFailed(CLAIM, "no such device"))
            for count in (1, 2):
                trouble = await it.until_said(StatusSyncFailed, count)
                it.reporter.notify(PrepareFailed(CLAIM, "no such device"))
                await it.rest(trouble.retry_s)
            posted = await it.until_said(EventPosted)

            pauses = [notice.retry_s for notice in it.said(StatusSyncFailed)]
            assert pauses == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S]
            (event,) = server.objects("events")
            assert (posted.count, event["count"]) == (2, 2), "the first try and one a second later"

    finish(scene())


@pytest.mark.parametrize("refused", [refusal(500, "InternalError"), refusal(403, "Forbidden")])
def test_permanently_failing_event_is_dropped_without_delaying_others(
    tmp_path: Path, refused: Told
) -> None:
    def in_ill(asked: Asked) -> bool:
        return posting(asked) and "/namespaces/ill/" in asked.path

    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            server.fail(refused, in_ill, times=1000)
            it.reporter.notify(PrepareFailed(replace(CLAIM, namespace="ill"), "one"))
            it.reporter.notify(PrepareFailed(CLAIM, "two"))
            for count in range(1, MAX_TRIES):
                trouble = await it.until_said(StatusSyncFailed, count)
                await it.rest(trouble.retry_s)
                await it.until_said(EventPosted)
            lost = await it.until_said(EventLost)
            it.clock.pass_time(3600.0)
            it.reporter.notify(PrepareFailed(CLAIM, "three"))
            await it.until_said(EventPosted, 2)

            assert lost.reason.startswith(f"tried {MAX_TRIES} times: create Event")
            assert {event["message"] for event in server.objects("events")} == {"two", "three"}
            assert len([request for request in server.asked if in_ill(request)]) == MAX_TRIES

    finish(scene())


def test_invalid_event_is_dropped_and_logged(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            server.fail(refusal(422, "Invalid"), posting)
            it.reporter.notify(PrepareFailed(CLAIM, "one"))
            it.reporter.notify(PrepareFailed(CLAIM, "two"))
            await it.until_said(EventPosted)

            (lost,) = it.said(EventLost)
            assert lost.reason.startswith("create Event")
            assert it.said(StatusSyncFailed) == []
            assert [event["message"] for event in server.objects("events")] == ["two"]

    finish(scene())


@pytest.mark.parametrize(
    "refused",
    [
        refusal(404, "NotFound", name="default"),
        refusal(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}]),
    ],
    ids=["gone", "going"],
)
def test_event_of_a_deleted_namespace_is_dropped(tmp_path: Path, refused: Told) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            server.fail(refused, posting)
            it.reporter.notify(PrepareFailed(CLAIM, "one"))
            it.reporter.notify(PrepareFailed(CLAIM, "two"))
            await it.until_said(EventPosted)

            assert [event["message"] for event in server.objects("events")] == ["two"]
            assert it.said(EventLost) == []

    finish(scene())


def test_event_changed_by_another_client_is_read_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            it.reporter.notify(PrepareFailed(CLAIM, "one"))
            await it.until_said(EventPosted)
            server.fail(refusal(409, "Conflict"), lambda asked: asked.method == "PUT")
            it.clock.pass_time(60.0)
            it.reporter.notify(PrepareFailed(CLAIM, "one"))
            trouble = await it.until_said(StatusSyncFailed)
            await it.rest(trouble.retry_s)
            await it.until_said(EventPosted, 2)

            (event,) = server.objects("events")
            assert event["count"] == 2

    finish(scene())


def test_flood_is_limited_to_25_events_then_one_in_five_minutes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            for number in range(MAX_WAITING + 5):
                it.reporter.notify(PrepareFailed(CLAIM, str(number)))
            await it.until_said(EventPosted, BURST)
            await it.clock.until_asleep(REFILL_S)
            assert len(server.objects("events")) == BURST
            it.clock.pass_time(REFILL_S)
            await it.until_said(EventPosted, BURST + 1)
            await it.clock.until_asleep(REFILL_S)

            assert len(server.objects("events")) == BURST + 1
            assert it.said(EventLost) == [EventLost(f"{MAX_WAITING} events wait already")]

    finish(scene())


def test_restart_does_not_repeat_failure_events(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            it.attachments.put(failed(given(ref, "nic-0"), "no"))
            await it.until_said(EventPosted)
        async with reporting(tmp_path, server) as (_, again):
            await server.until(lambda: any(counting(request) for request in server.asked))
            again.reporter.notify(PrepareFailed(CLAIM, "one"))
            await again.until_said(EventPosted)

            assert [event["count"] for event in server.objects("events")] == [1, 1]

    finish(scene())
