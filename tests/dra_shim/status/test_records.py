"""The reporter with late, invalid and missing records, and after a restart."""

from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.prepare import PodSuperseded
from dra_shim.settings.common import StatePaths
from dra_shim.status import ClaimGone, EventPosted, StatusApplied
from dra_shim.status.record_watch import RETRY_S
from dra_shim.status.summary import DEPARTURE_S, SLOW_S
from dranet_nri.model import ObjectRef, Phase
from dranet_nri.state.reader import name_of as file_of
from dranet_nri.state.record import encode_attachment
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dra_shim.kubeapi.test_contract import allocated_claim, apply_status, device_status
from tests.dra_shim.status.status_bench import (
    POD,
    Bench,
    attached,
    conditions,
    entries,
    failed,
    given,
    ref_of,
)
from tests.dra_shim.status.status_trouble import applying, prepared, reporting
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.dranet_nri.state.places import no_descriptors

pytestmark = pytest.mark.process


NEXT = ObjectRef("default", "train-2", "pod-2")


def test_late_attach_is_reported(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            await it.clock.until_asleep(SLOW_S)
            assert [request for request in server.asked if applying(request)] == []
            it.clock.pass_time(SLOW_S)
            await it.rest()
            await it.until_said(StatusApplied)
            posted = await it.until_said(EventPosted)

            (entry,) = entries(await it.claim(ref)).values()
            assert conditions(entry)["Ready"] == ("False", "NetworkDeviceAttachPending")
            assert posted.reason == "NetworkDeviceAttachPending"

    finish(scene())


def test_attach_in_time_is_not_reported(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (_, it):
            ref = await prepared(it, "nic-0")
            await it.clock.until_asleep(SLOW_S)
            it.clock.pass_time(SLOW_S - 1)
            it.attachments.put(attached(given(ref, "nic-0"), Phase.INTENT))
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(StatusApplied)
            it.clock.pass_time(2 * SLOW_S)

            (entry,) = entries(await it.claim(ref)).values()
            assert conditions(entry)["Ready"] == ("True", "NetworkDeviceReady")
            assert it.said(EventPosted) == []

    finish(scene())


def test_unusable_record_causes_no_report(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (_, it):
            ref = await prepared(it, "nic-0")
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()
            await it.until_said(StatusApplied)
            it.clock.pass_time(60.0)
            (it.state.allocations / file_of(ref.uid)).write_bytes(b"{")
            for count in (2, 3):
                other = await prepared(it, f"nic-{count}")
                it.attachments.put(attached(given(other, f"nic-{count}")))
                await it.rest()
                assert await it.until_said(StatusApplied, count) == StatusApplied(other, 1)
                it.clock.pass_time(60.0)

            assert conditions(entries(await it.claim(ref))["nic-0"])["Ready"][0] == "True"

    finish(scene())


def test_unreadable_record_is_read_again(tmp_path: Path) -> None:
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

            assert await it.until_said(StatusApplied) == StatusApplied(ref, 1)

    finish(scene())


def test_directories_created_later_are_watched(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (_, it):
            ref = await prepared(it, "nic-0")
            it.state.run.rename(tmp_path / "old")
            it.state.attachments.mkdir(parents=True)
            kept = (tmp_path / "old" / "attachments").rename(it.state.attachments)
            assert kept == it.state.attachments
            it.attachments.put(attached(given(ref, "nic-0")))
            await it.rest()

            assert await it.until_said(StatusApplied) == StatusApplied(ref, 1)

    finish(scene())


def test_restarted_reporter_continues(tmp_path: Path) -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            bench = Bench(api, StatePaths(tmp_path / "state", tmp_path / "run"))
            async with bench.at_work():
                ref = await prepared(bench, "nic-0")
                bench.attachments.put(attached(given(ref, "nic-0")))
                await bench.rest()
                await bench.until_said(StatusApplied)
                bench.clock.pass_time(60.0)
                released = server.hold(applying)
                record = failed(given(ref, "nic-0"), "no")
                bench.attachments.put(record)
                await bench.rest()
                await server.until(lambda: len([request for request in server.asked if applying(request)]) == 2)  # fmt: skip # noqa: E501
            released.set()
            count = len(server.asked)
            async with bench.at_work():
                await server.until(lambda: any(ref.name in request.path for request in server.asked[count:]))  # fmt: skip # noqa: E501
            bench.allocations.remove(ref.uid)
            bench.attachments.remove(ref.uid)
            async with bench.running():
                await bench.rest(DEPARTURE_S)
                told = await bench.until_said(StatusApplied, 2)

                assert told == StatusApplied(ref, 0)
                assert bench.reporter._claims == {}, "nothing is kept of it"

    finish(scene())


@pytest.mark.parametrize("stale", [False, True], ids=["nothing to say", "a record of before"])
def test_status_of_another_node_is_kept(tmp_path: Path, *, stale: bool) -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            state = StatePaths(tmp_path / "state", tmp_path / "run")
            it = Bench(api, state, "node-0")
            claim = await allocated_claim(api, "nic-0")
            await apply_status(api, claim, "dra.net", [device_status("nic-0")])
            ref, count = ref_of(claim), len(server.asked)
            before = await it.claim(ref)
            async with it.running():
                record = given(ref, "nic-0")
                here = replace(record, devices=(replace(record.devices[0], pool="node-0"),))
                it.allocations.put(here)
                if stale:
                    it.attachments.put(attached(here))
                    await it.rest()
                else:
                    await it.clock.until_asleep(SLOW_S)
                    it.allocations.remove(ref.uid)
                    await it.rest(DEPARTURE_S)
                it.attachments.put(attached(given(replace(ref, uid="gone"), "nic-0")))
                await it.rest(DEPARTURE_S)
                await it.until_said(ClaimGone)

                read = [request for request in server.asked[count:] if ref.name in request.path]
                assert [request.method for request in read] == ["GET"] * 3, (
                    "by us, for it, for the other"
                )
                assert await it.claim(ref) == before
                assert it.said(StatusApplied) == []

    finish(scene())


async def reason_of(it: Bench, ref: ObjectRef) -> str:
    """Return the reason of the condition Ready of a claim's one device."""
    (entry,) = entries(await it.claim(ref)).values()
    return conditions(entry)["Ready"][1]


def test_status_of_a_blocked_pod_is_not_withdrawn(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (server, it):
            ref = await prepared(it, "nic-0")
            it.attachments.put(attached(given(ref, "nic-0"), Phase.HOME))
            await it.rest(DEPARTURE_S)
            await it.until_said(StatusApplied)
            seen = [await reason_of(it, ref)]
            for count, waiting in ((2, (NEXT,)), (3, ())):
                it.reporter.notify(PodSuperseded(ref, POD, waiting))
                await it.rest(DEPARTURE_S)
                await it.until_said(StatusApplied, count)
                seen.append(await reason_of(it, ref))

            back = "NetworkDeviceDetached"
            assert seen == [back, "ClaimHeldByEndedPod", back]
            (event,) = server.objects("events")
            assert event["reason"] == "ClaimHeldByEndedPod"
            assert event["involvedObject"]["name"] == NEXT.name

    finish(scene())


def test_claim_blocked_by_a_never_started_pod_is_reported(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (_, it):
            ref = await prepared(it, "nic-0")
            await it.clock.until_asleep(SLOW_S)
            it.reporter.notify(PodSuperseded(ref, POD, (NEXT,)))
            await it.rest()
            await it.until_said(StatusApplied)
            it.clock.pass_time(2 * SLOW_S)

            assert await reason_of(it, ref) == "ClaimHeldByEndedPod"
            assert [notice.reason for notice in it.said(EventPosted)] == ["ClaimHeldByEndedPod"]

    finish(scene())


def test_pod_that_gets_its_claim_is_no_longer_blocked(tmp_path: Path) -> None:
    async def scene() -> None:
        async with reporting(tmp_path) as (_, it):
            ref = await prepared(it, "nic-0")
            it.reporter.notify(PodSuperseded(ref, POD, (NEXT,)))
            record = given(ref, "nic-0", pod=NEXT)
            it.allocations.put(record)
            it.attachments.put(attached(record))
            await it.rest()
            await it.until_said(StatusApplied)
            assert await reason_of(it, ref) == "NetworkDeviceReady"

            it.allocations.remove(ref.uid)
            it.attachments.remove(ref.uid)
            await it.rest(DEPARTURE_S)
            await it.until_said(StatusApplied, 2)
            assert it.reporter._superseded == {}, "nothing is kept of it"

    finish(scene())
