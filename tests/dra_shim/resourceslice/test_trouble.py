"""The publisher under failures of the API server."""

import asyncio

import pytest

from dra_shim.kubeapi import NODE, ApiClient, Kind, Object
from dra_shim.resourceslice import (
    SlicesPublished,
)
from dra_shim.resourceslice.schedule import DEBOUNCE_S, MIN_INTERVAL_S, REPAIR_S
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dra_shim.resourceslice.pools import many
from tests.dra_shim.resourceslice.publisher_bench import (
    FIRST,
    NODE_1,
    Bench,
    is_write,
    names_of,
    plain,
    publishing,
)
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.exchange import Response

pytestmark = pytest.mark.process


def test_write_with_a_lost_response_is_not_repeated() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.lose_answer(lambda request: request.method == "POST")
            bench.publisher.publish(plain("a"))
            await bench.rest(DEBOUNCE_S)
            await bench.rest(MIN_INTERVAL_S)
            response = await bench.until_notice(SlicesPublished)

            assert response.writes == 0
            assert server.writes == [f"create resourceslices/{FIRST}"]

    finish(scenario())


@pytest.mark.parametrize(
    ("response", "pause_s"),
    [
        (Response(409, {"code": 409, "message": "changed"}), MIN_INTERVAL_S),
        (Response(503, b""), MIN_INTERVAL_S),
        (Response(429, b"", {"Retry-After": "17"}), 17.0),
        (None, MIN_INTERVAL_S),
    ],
    ids=["a conflict", "a server that goes down", "a busy one", "a broken connection"],
)
def test_failed_write_is_retried(response: Response | None, pause_s: float) -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.fail(response, is_write)
            bench.publisher.publish(plain("a"))
            await bench.rest(DEBOUNCE_S)
            await bench.rest(pause_s)
            await bench.until_notice(SlicesPublished)

            assert [pause for _, pause in bench.troubles()] == [pause_s]
            assert [names_of(resource_slice) for resource_slice in await bench.slices()] == [["a"]]

    finish(scenario())


def test_slices_changed_by_a_backup_restore_are_written_again() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            empty = server.backup()
            await bench.publish(plain("a", "b"))
            await bench.rest_over(1)
            stale = server.backup()
            await bench.publish(plain("a", "b", "c"))
            await bench.rest_over(1)
            for backup, count in ((stale, 3), (empty, 4)):
                server.restore(backup)
                await bench.rest(0.5)
                await bench.rest(REPAIR_S)
                await bench.until_notice(SlicesPublished, count)
                await bench.until_in_sync()

                assert [names_of(resource_slice) for resource_slice in await bench.slices()] == [
                    ["a", "b", "c"]
                ]

    finish(scenario())


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
    async def scenario() -> None:
        async with talking() as (_, api):
            bench = Bench(FlawedOnce(api), NODE_1)
            await api.create(NODE, {"metadata": {"name": NODE_1}})
            worker = asyncio.create_task(bench.publisher.run())
            bench.publisher.publish(plain("a"))
            await bench.rest(DEBOUNCE_S)
            await asyncio.wait({worker})
            assert worker.exception() is not None

            async with bench.running():
                bench.publisher.publish(plain("a"))
                await bench.rest(DEBOUNCE_S)
                await bench.until_notice(SlicesPublished)

            assert [names_of(resource_slice) for resource_slice in await bench.slices()] == [["a"]]

    finish(scenario())


def test_failed_read_is_retried_sooner() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await server.until(lambda: server.watching == 1)
            server.fail(Response(503, b""), times=3)
            bench.publisher.publish(plain("a"))
            await bench.rest(DEBOUNCE_S)
            for pause_s in (0.5, 1.0, 2.0):
                await bench.rest(pause_s)
            await bench.until_notice(SlicesPublished)

    finish(scenario())


def test_missing_right_to_write_is_named() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            message = 'User "sa" cannot create resource "resourceslices"'
            server.fail(Response(403, {"code": 403, "message": message}), is_write)
            bench.publisher.publish(plain("a"))
            await bench.rest(DEBOUNCE_S)
            await bench.rest(MIN_INTERVAL_S)
            await bench.until_notice(SlicesPublished)

            assert bench.troubles() == [
                (
                    f"create ResourceSlice {FIRST}: {message}; "
                    "grant create on resourceslices to the service account",
                    5.0,
                )
            ]

    finish(scenario())


def test_missing_node_object_is_awaited() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.remove("nodes")
            bench.publisher.publish(plain("a"))
            await bench.rest(DEBOUNCE_S)
            await bench.clock.until_asleep(0.5)
            await bench.add_node()
            bench.clock.pass_time(0.5)
            await bench.until_notice(SlicesPublished)

            assert bench.troubles() == [('get Node node-1: nodes "node-1" not found', 0.5)]

    finish(scenario())


def test_publishing_works_without_the_right_to_watch() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            refusal = {"code": 403, "message": "no"}
            server.fail(Response(403, refusal), lambda entry: "watch" in entry.query, times=99)
            response = await bench.publish(plain("a"))

            assert response.writes == 1
            assert "grant watch on resourceslices" in bench.troubles()[0][0]

    finish(scenario())


def test_changes_by_others_are_not_repaired_without_a_watch() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            refusal = Response(403, {"code": 403, "message": "no"})
            server.fail(refusal, lambda entry: entry.query.get("resourceVersion") == "0", times=99)
            await bench.clock.until_asleep(0.5)
            await bench.publish(plain("a"))
            bench.clock.pass_time(0.5 - DEBOUNCE_S)
            await bench.clock.until_asleep(1.0)

            assert bench.clock.asleep() == [1.0]

    finish(scenario())


def test_upgraded_server_gets_its_api_version() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            server.versions = ("v1beta1",)
            await bench.publish(plain("a"))
            await bench.until_in_sync()
            server.versions = ("v1",)
            await bench.rest_over(1)
            bench.publisher.publish(plain("a", "b"))
            await bench.rest(DEBOUNCE_S)
            await bench.rest(5.0)
            response = await bench.until_notice(SlicesPublished, 2)

            assert response.writes == 1
            assert [
                names_of(resourceslice) for resourceslice in server.objects("resourceslices")
            ] == [["a", "b"]]

    finish(scenario())


def test_slice_deleted_concurrently_is_no_error() -> None:
    async def scenario() -> None:
        async with publishing() as (server, bench):
            await bench.publish(plain(*many(200)))
            await bench.rest_over(2)
            missing = {
                "code": 404,
                "reason": "NotFound",
                "message": "gone",
                "details": {"name": "x"},
            }
            server.fail(Response(404, missing), lambda request: request.method == "DELETE")
            response = await bench.publish(plain(*many(10)))

            assert response.slices == 1
            assert bench.troubles() == []

    finish(scenario())
