"""Writes of the publisher: on changes, at a limited rate, and after writes of other clients."""

import threading
from typing import Any

import pytest

from dra_shim.kubeapi import SLICE
from dra_shim.pool import DriverResources
from dra_shim.resourceslice import SlicesPublished, controller
from dra_shim.resourceslice.layout import SliceContent, laid_out
from dra_shim.resourceslice.schedule import GATHER_S, REPAIR_S, REST_S
from tests.dra_shim.resourceslice.pools import many
from tests.dra_shim.resourceslice.publisher_bench import (
    FIRST,
    ill,
    names_of,
    plain,
    publishing,
    writing,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


# --------------------------------------------------------------------------- when it writes


def test_nothing_is_written_before_the_first_devices() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await server.until(lambda: server.watching == 1)

            assert it.clock.asleep() == []
            assert server.writes == []

    finish(scene())


def test_node_without_devices_has_an_empty_slice() -> None:
    async def scene() -> None:
        async with publishing() as (_, it):
            told = await it.publish(DriverResources())

            (document,) = await it.slices()
            assert (told.devices, told.slices, names_of(document)) == (0, 1, [])

    finish(scene())


def test_pass_is_planned_outside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[threading.Thread] = []

    def laid(*args: Any) -> tuple[SliceContent, ...]:
        where.append(threading.current_thread())
        return laid_out(*args)

    monkeypatch.setattr(controller, "laid_out", laid)

    async def scene() -> None:
        async with publishing() as (_, it):
            await it.publish(plain("a"))

    finish(scene())

    assert where
    assert threading.main_thread() not in where


def test_equal_devices_start_no_pass() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            count = len(server.asked)

            for _ in range(50):
                it.publisher.offer(plain("a"))
            it.clock.pass_time(3600)
            await it.until_at_ease()

            assert len(server.asked) == count

    finish(scene())


def test_simultaneous_changes_are_one_write() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            for number in range(1, 30):
                it.publisher.offer(plain(*many(number)))
            told = await it.publish(plain(*many(30)))

            assert (told.devices, server.writes) == (30, [f"create resourceslices/{FIRST}"])

    finish(scene())


def test_flapping_link_causes_one_write_in_5_seconds() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(ill())
            for turn in range(12):
                for flap in range(40):
                    it.publisher.offer(ill("a") if flap % 2 else ill())
                it.publisher.offer(ill("a") if turn % 2 else ill("b"))
                await it.rest(REST_S)
                await it.until_said(SlicesPublished, turn + 2)

            assert len(server.writes) == 13

    finish(scene())


def test_changes_of_many_slices_cause_at_most_12_writes_a_minute() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            names = many(300)
            await it.publish(plain(*names))
            for turn in range(4):
                it.publisher.offer(plain(*names, mtu=9000 if turn % 2 == 0 else 1500))
                await it.rest(3 * REST_S)
                told = await it.until_said(SlicesPublished, turn + 2)
                assert told.writes == 3

            assert len(server.writes) == 3 + 12

    finish(scene())


def test_change_during_a_write_is_written_next() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await server.until(lambda: any(writing(request) for request in server.asked))
            it.publisher.offer(plain("a", "b"))
            await it.rest(REST_S)
            await it.until_said(SlicesPublished, 2)

            assert [names_of(resource_slice) for resource_slice in await it.slices()] == [
                ["a", "b"]
            ]

    finish(scene())


# --------------------------------------------------------------------------- what others do


def test_own_write_is_not_repaired() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain(*many(300)))
            await it.until_at_ease()
            count = len(server.asked)
            it.clock.pass_time(10 * REPAIR_S)
            await it.until_at_ease()

            assert len(server.asked) == count

    finish(scene())


def test_reverted_change_by_others_is_not_repaired() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            right = server.objects("resourceslices")[0]["spec"]
            server.alter(
                "resourceslices", FIRST, lambda document: document["spec"].update(devices=[])
            )
            await it.clock.until_asleep(REPAIR_S)
            server.alter("resourceslices", FIRST, lambda entry: entry.update(spec=right))
            await it.until_at_ease()

            assert [write.split()[0] for write in server.writes] == ["create", "alter", "alter"]

    finish(scene())


@pytest.mark.parametrize("what", ["labels", "annotations"])
def test_metadata_of_others_is_kept(what: str) -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            server.alter(
                "resourceslices",
                FIRST,
                lambda document: document["metadata"].update({what: {"a": "b"}}),
            )
            await it.until_at_ease()
            await it.rest_over(1)
            await it.publish(plain("a", "b"))

            (document,) = await it.slices()
            assert document["metadata"][what] == {"a": "b"}

    finish(scene())


def test_removed_owner_reference_is_restored() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            owners = server.objects("resourceslices")[0]["metadata"]["ownerReferences"]
            server.alter(
                "resourceslices",
                FIRST,
                lambda document: document["metadata"].update(ownerReferences=[]),
            )
            await it.rest(REPAIR_S)
            await it.until_said(SlicesPublished, 2)

            (document,) = await it.slices()
            assert document["metadata"]["ownerReferences"] == owners

    finish(scene())


def test_watch_event_before_the_response_is_not_repaired() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.rest_over(1)
            release = server.hold(writing)
            it.publisher.offer(plain("a", "b"))
            await it.rest(GATHER_S)
            await it.until_heard("a", "b")
            release.set()
            await it.until_said(SlicesPublished, 2)

            await it.until_at_ease()

    finish(scene())


def test_slice_added_by_others_is_deleted() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            spec = {**server.objects("resourceslices")[0]["spec"], "devices": [{"name": "z"}]}
            await it.api.create(SLICE, {"metadata": {"name": "stray"}, "spec": spec})
            await it.rest(REPAIR_S)
            await it.until_said(SlicesPublished, 2)

            assert [names_of(resource_slice) for resource_slice in await it.slices()] == [["a"]]

    finish(scene())


def test_changed_node_uid_is_written_with_the_next_change() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain("a"))
            await it.until_at_ease()
            server.remove("nodes")
            uid = await it.add_node()
            await it.rest_over(1)
            await it.publish(plain("a", "b"))

            (document,) = await it.slices()
            assert [owner["uid"] for owner in document["metadata"]["ownerReferences"]] == [uid]

    finish(scene())
