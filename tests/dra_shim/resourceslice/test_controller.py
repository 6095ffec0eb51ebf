"""Writes of the publisher: on changes, at a limited rate, and after writes of other clients."""

import threading
from typing import Any

import pytest

from dra_shim.kubeapi import SLICE
from dra_shim.pool import DriverResources
from dra_shim.resourceslice import SlicesPublished, controller
from dra_shim.resourceslice.layout import SliceContent, laid_out
from dra_shim.resourceslice.schedule import DEBOUNCE_S, MIN_INTERVAL_S, REPAIR_S
from tests.dra_shim.resourceslice.pools import many
from tests.dra_shim.resourceslice.publisher_bench import (
    FIRST,
    is_write,
    names_of,
    plain,
    publishing,
    unhealthy_devices,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


# --------------------------------------------------------------------------- when it writes


def test_nothing_is_written_before_the_first_devices() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await server.until(lambda: server.watching == 1)

            assert bench.clock.asleep() == []
            assert server.writes == []

    finish(scenario())


def test_node_without_devices_has_an_empty_slice() -> None:
    async def scenario() -> None:
        async with publishing() as (_, bench):
            notice = await bench.publish(DriverResources())

            (document,) = await bench.slices()
            assert (notice.devices, notice.slices, names_of(document)) == (0, 1, [])

    finish(scenario())


def test_pass_is_planned_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[threading.Thread] = []

    def laid(*args: Any) -> tuple[SliceContent, ...]:
        where.append(threading.current_thread())
        return laid_out(*args)

    monkeypatch.setattr(controller, "laid_out", laid)

    async def scenario() -> None:
        async with publishing() as (_, bench):
            await bench.publish(plain("a"))

    finish(scenario())

    assert where
    assert threading.main_thread() not in where


def test_equal_devices_start_no_pass() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain("a"))
            await bench.until_in_sync()
            count = len(server.requests)

            for _ in range(50):
                bench.publisher.publish(plain("a"))
            bench.clock.pass_time(3600)
            await bench.until_in_sync()

            assert len(server.requests) == count

    finish(scenario())


def test_simultaneous_changes_are_one_write() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            for number in range(1, 30):
                bench.publisher.publish(plain(*many(number)))
            notice = await bench.publish(plain(*many(30)))

            assert (notice.devices, server.writes) == (30, [f"create resourceslices/{FIRST}"])

    finish(scenario())


def test_flapping_link_causes_one_write_in_5_seconds() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(unhealthy_devices())
            for turn in range(12):
                for flap in range(40):
                    bench.publisher.publish(
                        unhealthy_devices("a") if flap % 2 else unhealthy_devices()
                    )
                bench.publisher.publish(
                    unhealthy_devices("a") if turn % 2 else unhealthy_devices("b")
                )
                await bench.rest(MIN_INTERVAL_S)
                await bench.until_notice(SlicesPublished, turn + 2)

            assert len(server.writes) == 13

    finish(scenario())


def test_changes_of_many_slices_cause_at_most_12_writes_a_minute() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            names = many(300)
            await bench.publish(plain(*names))
            for turn in range(4):
                bench.publisher.publish(plain(*names, mtu=9000 if turn % 2 == 0 else 1500))
                await bench.rest(3 * MIN_INTERVAL_S)
                notice = await bench.until_notice(SlicesPublished, turn + 2)
                assert notice.writes == 3

            assert len(server.writes) == 3 + 12

    finish(scenario())


def test_change_during_a_write_is_written_next() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            bench.publisher.publish(plain("a"))
            await bench.rest(DEBOUNCE_S)
            await server.until(lambda: any(is_write(request) for request in server.requests))
            bench.publisher.publish(plain("a", "b"))
            await bench.rest(MIN_INTERVAL_S)
            await bench.until_notice(SlicesPublished, 2)

            assert [names_of(resource_slice) for resource_slice in await bench.slices()] == [
                ["a", "b"]
            ]

    finish(scenario())


# --------------------------------------------------------------------------- what others do


def test_own_write_is_not_repaired() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain(*many(300)))
            await bench.until_in_sync()
            count = len(server.requests)
            bench.clock.pass_time(10 * REPAIR_S)
            await bench.until_in_sync()

            assert len(server.requests) == count

    finish(scenario())


def test_reverted_change_by_others_is_not_repaired() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain("a"))
            await bench.until_in_sync()
            right = server.objects("resourceslices")[0]["spec"]
            server.alter(
                "resourceslices", FIRST, lambda document: document["spec"].update(devices=[])
            )
            await bench.clock.until_asleep(REPAIR_S)
            server.alter("resourceslices", FIRST, lambda entry: entry.update(spec=right))
            await bench.until_in_sync()

            assert [write.split()[0] for write in server.writes] == ["create", "alter", "alter"]

    finish(scenario())


@pytest.mark.parametrize("metadata_field", ["labels", "annotations"])
def test_metadata_of_others_is_kept(metadata_field: str) -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain("a"))
            await bench.until_in_sync()
            server.alter(
                "resourceslices",
                FIRST,
                lambda document: document["metadata"].update({metadata_field: {"a": "b"}}),
            )
            await bench.until_in_sync()
            await bench.rest_over(1)
            await bench.publish(plain("a", "b"))

            (document,) = await bench.slices()
            assert document["metadata"][metadata_field] == {"a": "b"}

    finish(scenario())


def test_removed_owner_reference_is_restored() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain("a"))
            await bench.until_in_sync()
            owners = server.objects("resourceslices")[0]["metadata"]["ownerReferences"]
            server.alter(
                "resourceslices",
                FIRST,
                lambda document: document["metadata"].update(ownerReferences=[]),
            )
            await bench.rest(REPAIR_S)
            await bench.until_notice(SlicesPublished, 2)

            (document,) = await bench.slices()
            assert document["metadata"]["ownerReferences"] == owners

    finish(scenario())


def test_watch_event_before_the_response_is_not_repaired() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain("a"))
            await bench.rest_over(1)
            release = server.hold(is_write)
            bench.publisher.publish(plain("a", "b"))
            await bench.rest(DEBOUNCE_S)
            await bench.until_observed("a", "b")
            release.set()
            await bench.until_notice(SlicesPublished, 2)

            await bench.until_in_sync()

    finish(scenario())


def test_slice_added_by_others_is_deleted() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain("a"))
            await bench.until_in_sync()
            spec = {**server.objects("resourceslices")[0]["spec"], "devices": [{"name": "z"}]}
            await bench.api.create(SLICE, {"metadata": {"name": "stray"}, "spec": spec})
            await bench.rest(REPAIR_S)
            await bench.until_notice(SlicesPublished, 2)

            assert [names_of(resource_slice) for resource_slice in await bench.slices()] == [["a"]]

    finish(scenario())


def test_changed_node_uid_is_written_with_the_next_change() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain("a"))
            await bench.until_in_sync()
            server.remove("nodes")
            uid = await bench.add_node()
            await bench.rest_over(1)
            await bench.publish(plain("a", "b"))

            (document,) = await bench.slices()
            assert [owner["uid"] for owner in document["metadata"]["ownerReferences"]] == [uid]

    finish(scenario())
