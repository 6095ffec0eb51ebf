"""The reporter in trouble: servers that do not answer or will not, records that cannot be used."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dra_shim.prepare import PrepareFailed
from dra_shim.settings import State
from dra_shim.status import (
    Applied,
    ClaimGone,
    ClaimRefused,
    EventLost,
    Posted,
    StatusNotKept,
    Trouble,
)
from dra_shim.status.agenda import FIRST_LASTING_S, FIRST_PAUSE_S, REST_S
from dra_shim.status.backlog import BURST, MAX_WAITING, REFILL_S
from dra_shim.status.claims import PROBE_S
from dra_shim.status.records import RETRY_S
from dra_shim.status.verdict import DEPARTURE_S, SLOW_S
from dranet_nri.model import ObjectRef, Phase
from dranet_nri.state.reader import name_of as file_of
from dranet_nri.state.record import encode_attachment
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.claim_rules import DEVICE_STATUS
from tests.fakes.documents import status
from tests.fakes.exchange import Asked, Told
from tests.process.api_bench import talking
from tests.process.plugin_bench import finish
from tests.process.status_bench import (
    START,
    Bench,
    attached,
    conditions,
    entries,
    failed,
    given,
    ref_of,
)
from tests.process.test_api_contract import allocated_claim
from tests.state.places import no_descriptors

CLAIM = ObjectRef("default", "fast", "c1")


@asynccontextmanager
async def reporting(
    directory: Path, server: FakeApiServer | None = None
) -> AsyncIterator[tuple[FakeApiServer, Bench]]:
    """Run a reporter and a server in memory."""
    async with talking(server) as (running, api):
        bench = Bench(api, State(directory / "state", directory / "run"))
        async with bench.running():
            yield running, bench


async def prepared(it: Bench, *devices: str) -> ObjectRef:
    """Record a claim that the server has as well."""
    ref = ref_of(await allocated_claim(it.api, *devices))
    it.allocations.put(given(ref, *devices))
    return ref


def applying(asked: Asked) -> bool:
    """Whether the request is one of ours to write a status."""
    return asked.method == "PATCH" and asked.query["fieldManager"] == "dra.net"


def posting(asked: Asked) -> bool:
    """Whether the request is about an event."""
    return "/events" in asked.path


def counting(asked: Asked) -> bool:
    """Whether the request reads an event in order to count."""
    return asked.method == "GET" and posting(asked)


def refusal(code: int, reason: str, **details: Any) -> Told:
    """Return an answer that refuses."""
    return Told(code, status(code, reason, "no", **details), {"Retry-After": "90"})


def right_missing() -> Told:
    """Return what a server of 1.36 and newer answers for want of the driver's own right."""
    message = (
        'Forbidden: changing status.devices requires resource="resourceclaims/driver", '
        'verb="[associated-node:patch arbitrary-node:patch]" permission: denied'
    )
    causes = [{"field": "status.devices", "message": message}]
    return Told(422, status(422, "Invalid", message, causes=causes))


# --------------------------------------------------------------------------- claim status


def test_a_server_that_is_away_for_minutes_costs_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            other = await prepared(it, "nic-1")
            server.fail(None, times=8)
            it.attachments.put(failed(given(ref, "nic-0"), "first"))
            it.attachments.put(attached(given(other, "nic-1")))
            await it.rest()
            pauses = []
            for count in range(1, 9):
                trouble = await it.until_said(Trouble, count)
                pauses.append(trouble.retry_s)
                if count == 4:
                    it.attachments.put(attached(given(ref, "nic-0")))
                await it.rest(trouble.retry_s)
            await it.until_said(Applied, 2)

            assert max(pauses) <= 60.0
            for each in (ref, other):
                (entry,) = entries(await it.claim(each)).values()
                assert conditions(entry)["Ready"] == ("True", "NetworkDeviceReady")
            assert len([each for each in server.asked if applying(each)]) == 2, "the last state"
            it.clock.pass_time(60.0)
            server.fail(None, applying)
            it.attachments.put(failed(given(ref, "nic-0"), "second"))
            await it.rest()
            assert (await it.until_said(Trouble, 9)).retry_s == FIRST_PAUSE_S, "it begins anew"

    finish(scene())


def test_a_server_that_asks_for_time_has_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.fail(refusal(429, "TooManyRequests"), applying)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            trouble = await it.until_said(Trouble)
            await it.rest(90.0)
            await it.until_said(Applied)

            assert trouble.retry_s == 90.0

    finish(scene())


def test_an_answer_that_was_lost_is_found_written(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.lose_answer(applying)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(Trouble)
            writes = len(server.writes)
            count = len(server.asked)
            await it.rest(FIRST_PAUSE_S)
            await server.until(lambda: len(server.asked) > count)
            other = await prepared(it, "nic-1")
            it.attachments.put(attached(given(other, "nic-1")))
            await it.rest()
            await it.until_said(Applied)

            assert [each for each in server.writes[writes:] if ref.name in each] == []

    finish(scene())


@pytest.mark.parametrize("refused", [refusal(403, "Forbidden"), right_missing()])
def test_a_right_that_is_missing_is_told_and_asked_for_slowly(
    tmp_path: Path, refused: Told
) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.fail(refused, lambda asked: applying(asked) and ref.name in asked.path, times=2)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(Trouble)
            other = await prepared(it, "nic-1")
            it.attachments.put(attached(given(other, "nic-1")))
            await it.rest()
            await it.until_said(Applied)
            await it.rest(FIRST_LASTING_S - 0.2)
            await it.until_said(Trouble, 2)
            await it.rest(2 * FIRST_LASTING_S)
            await it.until_said(Applied, 2)

            told = it.said(Trouble)
            assert [each.retry_s for each in told] == [FIRST_LASTING_S, 2 * FIRST_LASTING_S]
            assert "grant" in str(told[0].error)
            assert "on resourceclaims/" in str(told[0].error)

    finish(scene())


def test_what_a_server_does_not_take_is_told_once_and_the_rest_goes_on(tmp_path: Path) -> None:
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
            await it.until_noted(Applied)

            assert len(it.said(ClaimRefused)) == 1
            assert entries(await it.claim(ref))

    finish(scene())


def test_a_claim_that_cannot_be_read_is_told_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.alter(
                "resourceclaims",
                ref.name,
                lambda each: each["status"]["allocation"]["devices"].update(results="?"),
                "default",
            )
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            told = await it.until_noted(ClaimRefused)

            assert "status.allocation.devices.results" in told.reason

    finish(scene())


def test_a_claim_that_somebody_deletes_is_forgotten(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.remove("resourceclaims", ref.name)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()

            assert await it.until_said(ClaimGone) == ClaimGone(ref)

    finish(scene())


def test_a_claim_that_is_replaced_between_reading_and_writing_is_read_again(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            server.fail(refusal(409, "Conflict"), applying)
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(Trouble)
            await it.rest(FIRST_PAUSE_S)

            assert await it.until_said(Applied) == Applied(ref, 1)

    finish(scene())


def test_a_server_that_drops_the_status_is_not_fought(tmp_path: Path) -> None:
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
            before = len([each for each in server.asked if applying(each)])
            server.features |= {DEVICE_STATUS}
            it.clock.pass_time(PROBE_S)
            await it.until_said(Applied, 2)

            assert before == 1
            assert len(it.said(StatusNotKept)) == 1
            assert entries(await it.claim(ref))
            assert entries(await it.claim(other))

    finish(scene())


def test_records_that_change_all_the_time_are_a_write_in_5_seconds(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            for turn in range(4):
                for change in range(5):
                    record = failed(given(ref, "nic-0"), f"{turn} {change}", START + turn)
                    it.attachments.put(record)
                await it.rest(REST_S if turn else 0.2)
                await it.until_said(Applied, turn + 1)

            assert len([each for each in server.asked if applying(each)]) == 4

    finish(scene())


def test_a_pod_that_ends_with_its_claim_costs_no_write(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(Applied)
            it.clock.pass_time(60.0)
            it.attachments.put(attached(given(ref, "nic-0"), Phase.DETACHING))
            it.attachments.put(attached(given(ref, "nic-0"), Phase.HOME))
            it.allocations.remove(ref.uid)
            it.attachments.remove(ref.uid)
            server.remove("resourceclaims", ref.name)
            await it.rest(DEPARTURE_S)
            await it.until_said(ClaimGone)

            assert len([each for each in server.asked if applying(each)]) == 1

    finish(scene())


# --------------------------------------------------------------------------- delays


def test_a_claim_that_is_not_attached_in_time_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            await it.clock.until_asleep(SLOW_S)
            assert [each for each in server.asked if applying(each)] == []
            it.clock.pass_time(SLOW_S)
            await it.rest()
            await it.until_said(Applied)
            posted = await it.until_said(Posted)

            (entry,) = entries(await it.claim(ref)).values()
            assert conditions(entry)["Ready"] == ("False", "NetworkDeviceAttachPending")
            assert posted.reason == "NetworkDeviceAttachPending"

    finish(scene())


def test_a_claim_that_is_attached_in_time_is_no_delay(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (_, it):
            ref = await prepared(it, "nic-0")
            await it.clock.until_asleep(SLOW_S)
            it.clock.pass_time(SLOW_S - 1)
            it.attachments.put(attached(given(ref, "nic-0"), Phase.INTENT))
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(Applied)
            it.clock.pass_time(2 * SLOW_S)

            (entry,) = entries(await it.claim(ref)).values()
            assert conditions(entry)["Ready"] == ("True", "NetworkDeviceReady")
            assert it.said(Posted) == []

    finish(scene())


# --------------------------------------------------------------------------- records


def test_a_record_that_cannot_be_used_proves_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (_, it):
            ref = await prepared(it, "nic-0")
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(Applied)
            it.clock.pass_time(60.0)
            (it.state.allocations / file_of(ref.uid)).write_bytes(b"{")
            for count in (2, 3):
                other = await prepared(it, f"nic-{count}")
                it.attachments.put(attached(given(other, f"nic-{count}")))
                await it.rest()
                assert await it.until_said(Applied, count) == Applied(other, 1)
                it.clock.pass_time(60.0)

            assert conditions(entries(await it.claim(ref))["nic-0"])["Ready"][0] == "True"

    finish(scene())


def test_a_record_that_could_not_be_read_is_tried_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (_, it):
            ref = await prepared(it, "nic-0")
            record = attached(given(ref, "nic-0"))
            staged = it.state.attachments / ".staged"
            staged.write_bytes(encode_attachment(record))
            with no_descriptors():
                staged.rename(it.state.attachments / file_of(ref.uid))
                await it.clock.until_asleep(RETRY_S)
            it.clock.pass_time(RETRY_S)
            await it.rest()

            assert await it.until_said(Applied) == Applied(ref, 1)

    finish(scene())


def test_directories_that_come_late_are_found(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (_, it):
            ref = await prepared(it, "nic-0")
            it.state.run.rename(tmp_path / "old")
            it.state.attachments.mkdir(parents=True)
            kept = (tmp_path / "old" / "attachments").rename(it.state.attachments)
            assert kept == it.state.attachments
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()

            assert await it.until_said(Applied) == Applied(ref, 1)

    finish(scene())


def test_a_reporter_that_was_stopped_goes_on(tmp_path: Path) -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            bench = Bench(api, State(tmp_path / "state", tmp_path / "run"))
            async with bench.at_work():
                ref = await prepared(bench, "nic-0")
                bench.attachments.put(attached(given(ref, "nic-0")))
                await bench.rest()
                await bench.until_said(Applied)
                bench.clock.pass_time(60.0)
                released = server.hold(applying)
                record = failed(given(ref, "nic-0"), "no")
                bench.attachments.put(record)
                await bench.rest()
                await server.until(lambda: len([each for each in server.asked if applying(each)]) == 2)  # fmt: skip # noqa: E501
            released.set()
            count = len(server.asked)
            async with bench.at_work():
                await server.until(lambda: any(ref.name in each.path for each in server.asked[count:]))  # fmt: skip # noqa: E501
            bench.allocations.remove(ref.uid)
            bench.attachments.remove(ref.uid)
            async with bench.running():
                await bench.rest(DEPARTURE_S)
                told = await bench.until_said(Applied, 2)

                assert told == Applied(ref, 0)
                assert bench.reporter._known == {}, "nothing is kept of it"

    finish(scene())


# --------------------------------------------------------------------------- events


def test_an_event_waits_for_its_server(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            server.fail(None, posting, times=2)
            it.reporter.tell(PrepareFailed(CLAIM, "no such device"))
            for count in (1, 2):
                trouble = await it.until_said(Trouble, count)
                it.reporter.tell(PrepareFailed(CLAIM, "no such device"))
                await it.rest(trouble.retry_s)
            posted = await it.until_said(Posted)

            (event,) = server.objects("events")
            assert (posted.count, event["count"]) == (2, 2), "the first try and one a second later"

    finish(scene())


def test_an_event_that_is_refused_is_lost_and_told_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            server.fail(refusal(403, "Forbidden"), posting, times=2)
            for text in ("one", "two", "three"):
                it.reporter.tell(PrepareFailed(CLAIM, text))
            await it.until_said(Posted)
            assert len(it.said(EventLost)) == 1
            server.fail(refusal(403, "Forbidden"), posting)
            it.reporter.tell(PrepareFailed(CLAIM, "four"))
            await it.until_said(EventLost, 2)

            assert it.said(EventLost) == [EventLost("grant create on events to the service account")] * 2  # fmt: skip # noqa: E501
            assert [each["message"] for each in server.objects("events")] == ["three"]

    finish(scene())


def test_an_event_of_a_namespace_that_is_gone_is_nobodys(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            server.fail(refusal(404, "NotFound", name="default"), posting)
            it.reporter.tell(PrepareFailed(CLAIM, "one"))
            it.reporter.tell(PrepareFailed(CLAIM, "two"))
            await it.until_said(Posted)

            assert [each["message"] for each in server.objects("events")] == ["two"]
            assert it.said(EventLost) == []

    finish(scene())


def test_an_event_that_somebody_else_counts_is_read_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            it.reporter.tell(PrepareFailed(CLAIM, "one"))
            await it.until_said(Posted)
            server.fail(refusal(409, "Conflict"), lambda asked: asked.method == "PUT")
            it.clock.pass_time(60.0)
            it.reporter.tell(PrepareFailed(CLAIM, "one"))
            trouble = await it.until_said(Trouble)
            await it.rest(trouble.retry_s)
            await it.until_said(Posted, 2)

            (event,) = server.objects("events")
            assert event["count"] == 2

    finish(scene())


def test_a_flood_is_25_events_and_then_one_in_five_minutes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            for number in range(MAX_WAITING + 5):
                it.reporter.tell(PrepareFailed(CLAIM, str(number)))
            await it.until_said(Posted, BURST)
            await it.clock.until_asleep(REFILL_S)
            assert len(server.objects("events")) == BURST
            it.clock.pass_time(REFILL_S)
            await it.until_said(Posted, BURST + 1)
            await it.clock.until_asleep(REFILL_S)

            assert len(server.objects("events")) == BURST + 1
            assert it.said(EventLost) == [EventLost(f"{MAX_WAITING} events wait already")]

    finish(scene())


def test_a_restart_does_not_tell_of_a_failure_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            it.attachments.put(failed(given(ref, "nic-0"), "no"))
            await it.until_said(Posted)
        async with reporting(tmp_path, server) as (_, again):
            await server.until(lambda: any(counting(each) for each in server.asked))
            again.reporter.tell(PrepareFailed(CLAIM, "one"))
            await again.until_said(Posted)

            assert [each["count"] for each in server.objects("events")] == [1, 1]

    finish(scene())
