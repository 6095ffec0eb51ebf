"""The publisher under failures of the API server."""

import asyncio

import pytest

from dra_shim.kubeapi import NODE, ApiClient, Kind, Object
from dra_shim.resourceslice import (
    SlicesPublished,
)
from dra_shim.resourceslice.schedule import GATHER_S, REPAIR_S, REST_S
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dra_shim.resourceslice.pools import many
from tests.dra_shim.resourceslice.publisher_bench import (
    FIRST,
    NODE_1,
    Bench,
    names_of,
    plain,
    publishing,
    writing,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.exchange import Told

pytestmark = pytest.mark.process


def test_write_with_a_lost_response_is_not_repeated() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.lose_answer(lambda asked: asked.method == "POST")
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.rest(REST_S)
            told = await it.until_said(SlicesPublished)

            assert told.writes == 0
            assert server.writes == [f"create resourceslices/{FIRST}"]

    finish(scene())


@pytest.mark.parametrize(
    ("told", "pause_s"),
    [
        (Told(409, {"code": 409, "message": "changed"}), REST_S),
        (Told(503, b""), REST_S),
        (Told(429, b"", {"Retry-After": "17"}), 17.0),
        (None, REST_S),
    ],
    ids=["a conflict", "a server that goes down", "a busy one", "a broken connection"],
)
def test_failed_write_is_retried(told: Told | None, pause_s: float) -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.fail(told, writing)
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.rest(pause_s)
            await it.until_said(SlicesPublished)

            assert [pause for _, pause in it.troubles()] == [pause_s]
            assert [names_of(resource_slice) for resource_slice in await it.slices()] == [["a"]]

    finish(scene())


def test_slices_changed_by_a_backup_restore_are_written_again() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            empty = server.backup()
            await it.publish(plain("a", "b"))
            await it.rest_over(1)
            stale = server.backup()
            await it.publish(plain("a", "b", "c"))
            await it.rest_over(1)
            for backup, count in ((stale, 3), (empty, 4)):
                server.restore(backup)
                await it.rest(0.5)
                await it.rest(REPAIR_S)
                await it.until_said(SlicesPublished, count)
                await it.until_at_ease()

                assert [names_of(resource_slice) for resource_slice in await it.slices()] == [
                    ["a", "b", "c"]
                ]

    finish(scene())


class FlawedOnce(ApiClient):
    """A client with a fault of ours, which is met once."""

    def __init__(self, sound: ApiClient) -> None:
        self.__dict__.update(sound.__dict__)
        self.flaws = 1

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        if self.flaws:
            self.flaws -= 1
            raise RuntimeError("a fault of ours")
        return await super().get(kind, name, namespace)


def test_restarted_controller_publishes_the_last_devices() -> None:
    async def scene() -> None:
        async with talking() as (_, api):
            it = Bench(FlawedOnce(api), NODE_1)
            await api.create(NODE, {"metadata": {"name": NODE_1}})
            part = asyncio.create_task(it.publisher.run())
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await asyncio.wait({part})
            assert part.exception() is not None

            async with it.running():
                it.publisher.offer(plain("a"))
                await it.rest(GATHER_S)
                await it.until_said(SlicesPublished)

            assert [names_of(resource_slice) for resource_slice in await it.slices()] == [["a"]]

    finish(scene())


def test_failed_read_is_retried_sooner() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await server.until(lambda: server.watching == 1)
            server.fail(Told(503, b""), times=3)
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            for pause_s in (0.5, 1.0, 2.0):
                await it.rest(pause_s)
            await it.until_said(SlicesPublished)

    finish(scene())


def test_missing_right_to_write_is_named() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            words = 'User "sa" cannot create resource "resourceslices"'
            server.fail(Told(403, {"code": 403, "message": words}), writing)
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.rest(REST_S)
            await it.until_said(SlicesPublished)

            assert it.troubles() == [
                (
                    f"create ResourceSlice {FIRST}: {words}; "
                    "grant create on resourceslices to the service account",
                    5.0,
                )
            ]

    finish(scene())


def test_missing_node_object_is_awaited() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.remove("nodes")
            it.publisher.offer(plain("a"))
            await it.rest(GATHER_S)
            await it.clock.until_asleep(0.5)
            await it.add_node()
            it.clock.pass_time(0.5)
            await it.until_said(SlicesPublished)

            assert it.troubles() == [('get Node node-1: nodes "node-1" not found', 0.5)]

    finish(scene())


def test_publishing_works_without_the_right_to_watch() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            refusal = {"code": 403, "message": "no"}
            server.fail(Told(403, refusal), lambda entry: "watch" in entry.query, times=99)
            told = await it.publish(plain("a"))

            assert told.writes == 1
            assert "grant watch on resourceslices" in it.troubles()[0][0]

    finish(scene())


def test_changes_by_others_are_not_repaired_without_a_watch() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            refusal = Told(403, {"code": 403, "message": "no"})
            server.fail(refusal, lambda entry: entry.query.get("resourceVersion") == "0", times=99)
            await it.clock.until_asleep(0.5)
            await it.publish(plain("a"))
            it.clock.pass_time(0.5 - GATHER_S)
            await it.clock.until_asleep(1.0)

            assert it.clock.asleep() == [1.0]

    finish(scene())


def test_upgraded_server_gets_its_api_version() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            server.versions = ("v1beta1",)
            await it.publish(plain("a"))
            await it.until_at_ease()
            server.versions = ("v1",)
            await it.rest_over(1)
            it.publisher.offer(plain("a", "b"))
            await it.rest(GATHER_S)
            await it.rest(5.0)
            told = await it.until_said(SlicesPublished, 2)

            assert told.writes == 1
            assert [
                names_of(resourceslice) for resourceslice in server.objects("resourceslices")
            ] == [["a", "b"]]

    finish(scene())


def test_slice_deleted_concurrently_is_no_error() -> None:
    async def scene() -> None:
        async with publishing() as (server, it):
            await it.publish(plain(*many(200)))
            await it.rest_over(2)
            missing = {
                "code": 404,
                "reason": "NotFound",
                "message": "gone",
                "details": {"name": "x"},
            }
            server.fail(Told(404, missing), lambda request: request.method == "DELETE")
            told = await it.publish(plain(*many(10)))

            assert told.slices == 1
            assert it.troubles() == []

    finish(scene())
