"""The reporter with late, invalid and missing records, and after a restart."""

from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.prepare import PodSuperseded
from dra_shim.settings.common import StatePaths
from dra_shim.status import ClaimGone, EventPosted, StatusApplied
from dra_shim.status.record_watch import RETRY_S
from dra_shim.status.summary import ENDED_DELAY_S, SLOW_S
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
from tests.dra_shim.status.status_trouble import is_apply, prepared, reporting
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.dranet_nri.state.directories import no_descriptors

pytestmark = pytest.mark.process


NEXT = ObjectRef("default", "train-2", "pod-2")


def test_late_attach_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            await bench.clock.until_asleep(SLOW_S)
            assert [request for request in server.requests if is_apply(request)] == []
            bench.clock.pass_time(SLOW_S)
            await bench.rest()
            await bench.until_notice(StatusApplied)
            posted = await bench.until_notice(EventPosted)

            (entry,) = entries(await bench.claim(ref)).values()
            assert conditions(entry)["Ready"] == ("False", "NetworkDeviceAttachPending")
            assert posted.reason == "NetworkDeviceAttachPending"

    finish(scenario())


def test_attach_in_time_is_not_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (_, bench):
            ref = await prepared(bench, "nic-0")
            await bench.clock.until_asleep(SLOW_S)
            bench.clock.pass_time(SLOW_S - 1)
            bench.attachments.put(attached(given(ref, "nic-0"), Phase.INTENT))
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            bench.clock.pass_time(2 * SLOW_S)

            (entry,) = entries(await bench.claim(ref)).values()
            assert conditions(entry)["Ready"] == ("True", "NetworkDeviceReady")
            assert bench.notices_of(EventPosted) == []

    finish(scenario())


def test_unusable_record_causes_no_report(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (_, bench):
            ref = await prepared(bench, "nic-0")
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            bench.clock.pass_time(60.0)
            (bench.state.allocations / file_of(ref.uid)).write_bytes(b"{")
            for count in (2, 3):
                other = await prepared(bench, f"nic-{count}")
                bench.attachments.put(attached(given(other, f"nic-{count}")))
                await bench.rest()
                assert await bench.until_notice(StatusApplied, count) == StatusApplied(other, 1)
                bench.clock.pass_time(60.0)

            assert conditions(entries(await bench.claim(ref))["nic-0"])["Ready"][0] == "True"

    finish(scenario())


def test_unreadable_record_is_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (_, bench):
            ref = await prepared(bench, "nic-0")
            record = attached(given(ref, "nic-0"))
            staged = bench.state.attachments / ".staged"
            staged.write_bytes(encode_attachment(record))
            with no_descriptors():
                staged.rename(bench.state.attachments / file_of(ref.uid))
                await bench.clock.until_asleep(RETRY_S)
            bench.clock.pass_time(RETRY_S)
            await bench.rest()

            assert await bench.until_notice(StatusApplied) == StatusApplied(ref, 1)

    finish(scenario())


def test_directories_created_later_are_watched(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (_, bench):
            ref = await prepared(bench, "nic-0")
            bench.state.run.rename(tmp_path / "old")
            bench.state.attachments.mkdir(parents=True)
            renamed = (tmp_path / "old" / "attachments").rename(bench.state.attachments)
            assert renamed == bench.state.attachments
            bench.attachments.put(attached(given(ref, "nic-0")))
            await bench.rest()

            assert await bench.until_notice(StatusApplied) == StatusApplied(ref, 1)

    finish(scenario())


def test_restarted_reporter_continues(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            bench = Bench(api, StatePaths(tmp_path / "state", tmp_path / "run"))
            async with bench.controller_running():
                ref = await prepared(bench, "nic-0")
                bench.attachments.put(attached(given(ref, "nic-0")))
                await bench.rest()
                await bench.until_notice(StatusApplied)
                bench.clock.pass_time(60.0)
                released = server.hold(is_apply)
                record = failed(given(ref, "nic-0"), "no")
                bench.attachments.put(record)
                await bench.rest()
                await server.until(lambda: len([request for request in server.requests if is_apply(request)]) == 2)  # fmt: skip # noqa: E501
            released.set()
            count = len(server.requests)
            async with bench.controller_running():
                await server.until(lambda: any(ref.name in request.path for request in server.requests[count:]))  # fmt: skip # noqa: E501
            bench.allocations.remove(ref.uid)
            bench.attachments.remove(ref.uid)
            async with bench.running():
                await bench.rest(ENDED_DELAY_S)
                applied = await bench.until_notice(StatusApplied, 2)

                assert applied == StatusApplied(ref, 0)
                assert bench.reporter._claims == {}, "nothing is kept of it"

    finish(scenario())


@pytest.mark.parametrize("stale", [False, True], ids=["nothing to say", "a record of before"])
def test_status_of_another_node_is_kept(tmp_path: Path, *, stale: bool) -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            state = StatePaths(tmp_path / "state", tmp_path / "run")
            bench = Bench(api, state, "node-0")
            claim = await allocated_claim(api, "nic-0")
            await apply_status(api, claim, "dra.net", [device_status("nic-0")])
            ref, count = ref_of(claim), len(server.requests)
            before = await bench.claim(ref)
            async with bench.running():
                record = given(ref, "nic-0")
                here = replace(record, devices=(replace(record.devices[0], pool="node-0"),))
                bench.allocations.put(here)
                if stale:
                    bench.attachments.put(attached(here))
                    await bench.rest()
                else:
                    await bench.clock.until_asleep(SLOW_S)
                    bench.allocations.remove(ref.uid)
                    await bench.rest(ENDED_DELAY_S)
                bench.attachments.put(attached(given(replace(ref, uid="gone"), "nic-0")))
                await bench.rest(ENDED_DELAY_S)
                await bench.until_notice(ClaimGone)

                read = [request for request in server.requests[count:] if ref.name in request.path]
                assert [request.method for request in read] == ["GET"] * 3, (
                    "by us, for it, for the other"
                )
                assert await bench.claim(ref) == before
                assert bench.notices_of(StatusApplied) == []

    finish(scenario())


async def reason_of(bench: Bench, ref: ObjectRef) -> str:
    """Return the reason of the condition Ready of a claim's one device."""
    (entry,) = entries(await bench.claim(ref)).values()
    return conditions(entry)["Ready"][1]


def test_status_of_a_blocked_pod_is_not_withdrawn(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (server, bench):
            ref = await prepared(bench, "nic-0")
            bench.attachments.put(attached(given(ref, "nic-0"), Phase.RESTORED))
            await bench.rest(ENDED_DELAY_S)
            await bench.until_notice(StatusApplied)
            reasons = [await reason_of(bench, ref)]
            for count, waiting in ((2, (NEXT,)), (3, ())):
                bench.reporter.notify(PodSuperseded(ref, POD, waiting))
                await bench.rest(ENDED_DELAY_S)
                await bench.until_notice(StatusApplied, count)
                reasons.append(await reason_of(bench, ref))

            back = "NetworkDeviceDetached"
            assert reasons == [back, "ClaimInUseByEndedPod", back]
            (event,) = server.objects("events")
            assert event["reason"] == "ClaimInUseByEndedPod"
            assert event["involvedObject"]["name"] == NEXT.name

    finish(scenario())


def test_claim_blocked_by_a_never_started_pod_is_reported(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (_, bench):
            ref = await prepared(bench, "nic-0")
            await bench.clock.until_asleep(SLOW_S)
            bench.reporter.notify(PodSuperseded(ref, POD, (NEXT,)))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            bench.clock.pass_time(2 * SLOW_S)

            assert await reason_of(bench, ref) == "ClaimInUseByEndedPod"
            assert [notice.reason for notice in bench.notices_of(EventPosted)] == [
                "ClaimInUseByEndedPod"
            ]

    finish(scenario())


def test_pod_that_gets_its_claim_is_no_longer_blocked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reporting(tmp_path) as (_, bench):
            ref = await prepared(bench, "nic-0")
            bench.reporter.notify(PodSuperseded(ref, POD, (NEXT,)))
            record = given(ref, "nic-0", pod=NEXT)
            bench.allocations.put(record)
            bench.attachments.put(attached(record))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            assert await reason_of(bench, ref) == "NetworkDeviceReady"

            bench.allocations.remove(ref.uid)
            bench.attachments.remove(ref.uid)
            await bench.rest(ENDED_DELAY_S)
            await bench.until_notice(StatusApplied, 2)
            assert bench.reporter._superseded == {}, "nothing is kept of it"

    finish(scenario())
