"""The client on a real socket: tokens, versions, failures of server and connection, limits."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from dra_shim.kubeapi import (
    NODE,
    SLICE,
    ApiClient,
    ExpiredError,
    NotServedError,
    RejectedError,
    UnavailableError,
    WatchEventType,
    version_of,
)
from dra_shim.kubeapi.client import MAX_EVENT, MAX_REPLY
from tests.dra_shim.kubeapi.client_bench import client_of, slice_document, talking
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.exchange import End, NoResponse, Response
from tests.fakes.http import served

pytestmark = pytest.mark.process


NODE_1 = {"metadata": {"name": "node-1"}}


def test_rotated_token_is_used_by_the_next_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")

    async def scenario() -> None:
        async with talking(token_file=str(token)) as (server, api):
            server.tokens = {"first"}
            await api.create(NODE, NODE_1)
            token.write_text("second\n")
            server.tokens = {"second"}

            await api.get(NODE, "node-1")

            sent = [request.headers["authorization"] for request in server.requests]
            assert sent == ["Bearer first", "Bearer second"]

    finish(scenario())


def test_body_is_sent_again_with_the_new_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")

    async def scenario() -> None:
        async with talking(token_file=str(token)) as (server, api):
            server.tokens = {"first"}
            await api.version(SLICE)
            token.write_text("second")
            server.tokens = {"second"}

            await api.create(SLICE, slice_document("s"))

            assert [
                resourceslice["metadata"]["name"]
                for resourceslice in server.objects("resourceslices")
            ] == ["s"]

    finish(scenario())


def test_unknown_token_is_reported(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("stale")

    async def scenario() -> None:
        async with talking(token_file=str(token)) as (server, api):
            server.tokens = {"another"}
            with pytest.raises(RejectedError, match="refused the token"):
                await api.get(NODE, "node-1")

    finish(scenario())


def test_unreadable_token_file_is_a_retryable_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talking(token_file=str(tmp_path / "gone")) as (_, api):
            with pytest.raises(UnavailableError, match="gone: no token: "):
                await api.get(NODE, "node-1")

    finish(scenario())


def test_api_version_is_discovered_once_and_again_when_it_is_not_served() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.versions = ("v1beta1", "v1beta2")
            await api.create(SLICE, slice_document("s"))
            first = await api.version(SLICE)
            server.versions = ("v1",)
            with pytest.raises(NotServedError):
                await api.get(SLICE, "s")
            second = await api.version(SLICE)
            await api.get(SLICE, "s")

            assert (first, second) == ("v1beta2", "v1")
            discoveries = [
                request for request in server.requests if request.path == "/apis/resource.k8s.io"
            ]
            assert len(discoveries) == 2

    finish(scenario())


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_api_version_is_discovered_again_after_a_failed_list_or_watch(verb: str) -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            await api.version(SLICE)
            server.versions = ("v1beta1",)
            with pytest.raises(NotServedError):
                await (api.list(SLICE) if verb == "list" else anext(api.watch(SLICE, {}, "1", 1)))
            assert await api.version(SLICE) == "v1beta1"

    finish(scenario())


def test_retry_after_of_a_busy_server_is_returned() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.fail(Response(429, b"too many requests", {"Retry-After": "4"}))
            with pytest.raises(UnavailableError) as caught:
                await api.get(NODE, "node-1")
            assert caught.value.after_s == 4.0

    finish(scenario())


def test_broken_connection_is_a_retryable_error() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            await api.create(NODE, NODE_1)
            server.fail(None)
            with pytest.raises(UnavailableError, match="get Node node-1: no connection to 127"):
                await api.get(NODE, "node-1")
            assert (await api.get(NODE, "node-1"))["metadata"]

    finish(scenario())


def test_unreachable_server_is_a_retryable_error() -> None:
    async def scenario() -> None:
        async with served(FakeApiServer()) as url:
            pass
        async with client_of(url) as api:
            with pytest.raises(UnavailableError, match="list Node: no connection to 127"):
                await api.list(NODE)

    finish(scenario())


def test_request_without_an_answer_times_out() -> None:
    async def scenario() -> None:
        server = FakeApiServer()
        server.fail(NoResponse())
        async with served(server) as url, client_of(url, answer_s=0.05) as api:
            with pytest.raises(UnavailableError, match="no answer within 0"):
                await api.list(NODE)

    finish(scenario())


@pytest.mark.parametrize(
    "body", [b"<html>log in here</html>", b"", b"[]"], ids=["a page", "nothing", "an array"]
)
def test_answer_that_is_no_kubernetes_object_is_a_retryable_error(body: bytes) -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.fail(Response(200, body))
            with pytest.raises(UnavailableError, match="the answer is not Kubernetes'"):
                await api.get(NODE, "node-1")

    finish(scenario())


def test_size_of_an_answer_is_limited() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.fail(Response(200, b" " * (MAX_REPLY + 1)))
            with pytest.raises(UnavailableError, match="larger than 16 MiB"):
                await api.get(NODE, "node-1")

    finish(scenario())


# --------------------------------------------------------------------------- watches


async def watched(
    api: ApiClient, server: FakeApiServer, act: Callable[[], None]
) -> list[WatchEventType]:
    """Watch; act when the watch is open; return the changes until it ends."""
    changes: list[WatchEventType] = []
    since = (await api.list(SLICE)).version
    async with aclosing(api.watch(SLICE, {}, since, 60)) as events:
        first = asyncio.ensure_future(anext(events))
        await server.until(lambda: server.watching == 1)
        act()
        with suppress(StopAsyncIteration):
            changes.append((await first).change)
        changes.extend([event.change async for event in events])
    return changes


def test_watch_closed_by_the_server_ends_without_an_error() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            assert await watched(api, server, server.end_watches) == []

    finish(scenario())


def test_bookmark_is_returned_as_an_event() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):

            def act() -> None:
                server.bookmark()
                server.end_watches()

            assert await watched(api, server, act) == [WatchEventType.BOOKMARK]

    finish(scenario())


def test_watch_from_an_expired_resource_version_raises_expired() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            since = (await api.list(SLICE)).version
            await api.create(SLICE, slice_document("s"))
            server.forget_history()
            async with aclosing(api.watch(SLICE, {}, since, 60)) as events:
                with pytest.raises(ExpiredError):
                    await anext(events)

    finish(scenario())


def test_error_event_in_a_watch_raises_expired() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            with pytest.raises(ExpiredError):
                await watched(api, server, lambda: server.fail_watches(410))

    finish(scenario())


def test_incomplete_event_is_ignored() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):

            def act() -> None:
                server.send_to_watches(b'{"type": "ADDED", "object": {}}')
                server.end_watches()

            assert await watched(api, server, act) == []

    finish(scenario())


def test_events_are_parsed_across_chunk_boundaries() -> None:
    line = b'{"type": "MODIFIED", "object": {"metadata": {}}}\n'

    def act(server: FakeApiServer) -> None:
        server.send_to_watches(line[:9])
        server.send_to_watches(line[9:] + line + b"\n" + line[:-1])
        server.send_to_watches(b"\n")
        server.end_watches()

    async def scenario() -> None:
        async with talking() as (server, api):
            assert await watched(api, server, lambda: act(server)) == [WatchEventType.MODIFIED] * 3

    finish(scenario())


def test_size_of_an_event_is_limited() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            with pytest.raises(UnavailableError, match="an event is larger than 8 MiB"):
                await watched(api, server, lambda: server.send_to_watches(b" " * (MAX_EVENT + 1)))

    finish(scenario())


def test_broken_watch_is_a_retryable_error() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            with pytest.raises(UnavailableError, match="watch ResourceSlice: no connection"):
                await watched(api, server, lambda: server.end_watches(End.BROKEN))

    finish(scenario())


def test_silent_watch_times_out() -> None:
    async def scenario() -> None:
        server = FakeApiServer()
        async with served(server) as url, client_of(url, margin_s=-0.95) as api:
            since = (await api.list(SLICE)).version
            server.fail(NoResponse())
            with pytest.raises(UnavailableError, match="1 sent nothing for too long"):
                await anext(api.watch(SLICE, {}, since, 1))

    finish(scenario())


def test_refused_watch_is_reported_with_the_missing_right() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            since = (await api.list(SLICE)).version
            server.fail(Response(403, {"code": 403, "message": "not yours"}))
            with pytest.raises(RejectedError, match="grant watch on resourceslices"):
                await anext(api.watch(SLICE, {}, since, 60))

    finish(scenario())


def test_connection_of_an_abandoned_watch_is_closed() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            made = await api.create(SLICE, slice_document("s"))
            since = str(int(version_of(made)) - 1)
            async with aclosing(api.watch(SLICE, {}, since, 60)) as events:
                await anext(events)
                assert server.watching == 1
            await server.until(lambda: server.watching == 0)

    finish(scenario())
