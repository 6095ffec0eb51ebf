"""The informer: its copy of the server's objects, across watches, failures and restores."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from dra_shim.kubeapi import NODE, POD, ApiClient, ApiError, Informer, uid_of
from dra_shim.kubeapi.informer import STEADY_S
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.clock import FakeClock
from tests.fakes.exchange import End, Response

pytestmark = pytest.mark.process


@dataclass
class Bench:
    """An informer of nodes, its server and its clock."""

    server: FakeApiServer
    api: ApiClient
    random: float = 1.0
    clock: FakeClock = field(default_factory=FakeClock)
    failures: list[tuple[ApiError, float]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Create the informer; it is started later."""
        self.informer = Informer(
            self.api,
            NODE,
            {},
            self.changed.set,
            lambda error, pause_s: self.failures.append((error, pause_s)),
            self.clock.timing(lambda: self.random),
        )

    @property
    def names(self) -> list[str]:
        """Return the names of the informer's objects."""
        return sorted(self.informer.objects)

    async def until(self, names: list[str]) -> None:
        """Wait until the informer has exactly these objects."""
        while self.names != names or not self.informer.complete:
            self.changed.clear()
            await self.changed.wait()

    async def rest(self, pause_s: float) -> None:
        """Wait until the informer pauses for this time, and let the time pass."""
        await self.clock.until_asleep(pause_s)
        self.clock.pass_time(pause_s)

    async def add(self, name: str) -> dict[str, Any]:
        """Create a node."""
        return await self.api.create(NODE, {"metadata": {"name": name}})


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """Run an informer of a server that has node "a"."""
    async with talking() as (server, api):
        scenario = Bench(server, api)
        await scenario.add("a")
        server.requests.clear()
        task = asyncio.create_task(scenario.informer.run())
        try:
            yield scenario
        finally:
            task.cancel()
            await asyncio.wait({task})


def queries(server: FakeApiServer, *fields: str) -> list[tuple[str | None, ...]]:
    """Return query fields of the lists and watches that the server received."""
    reads = [request for request in server.requests if request.method == "GET"]
    return [tuple(read.query.get(name) for name in fields) for read in reads]


def test_informer_has_current_objects_after_create_replace_and_delete() -> None:
    async def scenario() -> None:
        async with bench() as env:
            await env.until(["a"])
            node = await env.add("b")
            await env.until(["a", "b"])
            await env.api.replace(NODE, {**node, "spec": {"x": 1}})
            await env.server.until(lambda: len(env.server.writes) == 3)
            await env.api.delete(NODE, "a", uid_of(env.informer.objects["a"]))
            await env.until(["b"])

            assert env.informer.objects["b"]["spec"] == {"x": 1}
            assert env.failures == []

    finish(scenario())


def test_informer_lists_once_from_the_cache_and_watches_from_there() -> None:
    async def scenario() -> None:
        async with bench() as env:
            env.random = 0.5
            await env.server.until(lambda: env.server.watching == 1)

            assert queries(env.server, "watch", "resourceVersion") == [(None, "0"), ("true", "101")]
            assert env.server.requests[1].query["timeoutSeconds"] == "450"

    finish(scenario())


def test_informer_resumes_a_closed_watch_at_the_last_resource_version() -> None:
    async def scenario() -> None:
        async with bench() as env:
            await env.server.until(lambda: env.server.watching == 1)
            env.server.bookmark()
            await env.add("b")
            await env.until(["a", "b"])
            env.clock.pass_time(STEADY_S)
            env.server.end_watches()
            await env.server.until(lambda: len(env.server.requests) == 4)

            assert queries(env.server, "watch", "resourceVersion")[2] == ("true", "102")
            assert env.failures == []

    finish(scenario())


def test_next_watch_begins_at_the_last_bookmark() -> None:
    async def scenario() -> None:
        async with bench() as env:
            await env.server.until(lambda: env.server.watching == 1)
            await env.api.create(POD, {"metadata": {"name": "p"}}, "default")
            env.server.bookmark()
            env.clock.pass_time(STEADY_S)
            env.server.end_watches()
            await env.server.until(lambda: len(queries(env.server)) == 3)

            assert queries(env.server, "resourceVersion")[2] == ("102",)
            assert env.names == ["a"]

    finish(scenario())


@pytest.mark.parametrize("case", ["in the watch", "when it begins"])
def test_expired_watch_is_followed_by_a_list_of_the_newest_state(case: str) -> None:
    async def scenario() -> None:
        async with bench() as env:
            await env.server.until(lambda: env.server.watching == 1)
            if case == "in the watch":
                env.server.fail_watches(410)
            else:
                env.server.bookmark()
                env.clock.pass_time(STEADY_S)
                env.server.end_watches()
                env.server.fail(Response(410, b""), lambda queries: "watch" in queries.query)
            await env.clock.until_asleep(0.5)
            await env.api.delete(NODE, "a", uid_of(env.informer.objects["a"]))
            await env.add("b")
            env.clock.pass_time(0.5)
            await env.until(["b"])

            assert queries(env.server, "watch", "resourceVersion")[-1] == (None, None)
            assert env.failures == []

    finish(scenario())


@pytest.mark.parametrize("case", ["the watch breaks", "the next is refused", "the next is silent"])
def test_object_lost_by_a_restore_of_the_server_is_removed(case: str) -> None:
    async def scenario() -> None:
        async with bench() as env:
            await env.server.until(lambda: env.server.watching == 1)
            backup = env.server.backup()
            await env.add("b")
            await env.until(["a", "b"])
            env.clock.pass_time(STEADY_S)
            if case == "the next is refused":
                env.server.fail(None, lambda queries: "watch" in queries.query)
            env.server.restore(backup, End.BROKEN if case == "the watch breaks" else End.PROPER)
            if case == "the next is silent":
                await env.server.until(lambda: env.server.watching == 1)
                env.server.end_watches()
            await env.rest(0.5)
            await env.until(["a"])
            await env.server.until(lambda: env.server.watching == 1)

            assert queries(env.server, "watch", "resourceVersion")[-2:] == [
                (None, "0"),
                ("true", "101"),
            ]
            assert len(env.failures) == (case != "the next is silent")

    finish(scenario())


def test_list_after_a_later_failure_uses_the_cache_again() -> None:
    async def scenario() -> None:
        async with bench() as env:
            await env.server.until(lambda: env.server.watching == 1)
            env.server.fail_watches(410)
            await env.rest(0.5)
            await env.server.until(lambda: env.server.watching == 1)
            env.server.end_watches(End.BROKEN)
            await env.rest(1.0)
            await env.server.until(lambda: env.server.watching == 1)

            lists = [
                state
                for watch, state in queries(env.server, "watch", "resourceVersion")
                if not watch
            ]
            assert lists == ["0", None, "0"]

    finish(scenario())


def test_failure_is_reported_and_retried_with_exponential_back_off() -> None:
    async def scenario() -> None:
        async with bench() as env:
            env.server.fail(Response(503, b""), times=9)
            for pause_s in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0):
                await env.rest(pause_s)
            await env.until(["a"])

            assert [pause_s for _, pause_s in env.failures[-2:]] == [60.0, 60.0]
            assert {str(error) for error, _ in env.failures} == {"list Node: HTTP status 503"}

    finish(scenario())


def test_back_off_has_random_jitter() -> None:
    async def scenario() -> None:
        async with bench() as env:
            env.random = 0.2
            env.server.fail(Response(503, b""))
            await env.rest(0.5 * 0.6)
            await env.until(["a"])

    finish(scenario())


def test_retry_after_of_the_server_is_respected() -> None:
    async def scenario() -> None:
        async with bench() as env:
            env.server.fail(Response(429, b"", {"Retry-After": "17"}))
            await env.rest(17.0)
            await env.until(["a"])

            assert env.failures[0][1] == 17.0

    finish(scenario())


def test_successful_watch_resets_the_back_off() -> None:
    async def scenario() -> None:
        async with bench() as env:
            env.server.fail(Response(503, b""), times=3)
            for pause_s in (0.5, 1.0, 2.0):
                await env.rest(pause_s)
            await env.server.until(lambda: env.server.watching == 1)
            await env.add("b")
            await env.until(["a", "b"])
            env.clock.pass_time(STEADY_S)
            env.server.end_watches(End.BROKEN)
            await env.rest(0.5)
            await env.server.until(lambda: env.server.watching == 1)

            assert queries(env.server, "watch", "resourceVersion")[-1] == ("true", "102")

    finish(scenario())


def test_watches_that_end_at_once_are_retried_with_back_off() -> None:
    async def scenario() -> None:
        async with bench() as env:
            for pause_s in (0.5, 1.0, 2.0):
                await env.server.until(lambda: env.server.watching == 1)
                env.server.end_watches()
                await env.rest(pause_s)

            assert env.failures == []

    finish(scenario())


@pytest.mark.parametrize("end", ["proper", "expired", "broken"])
def test_watches_that_end_after_one_event_are_retried_with_back_off(end: str) -> None:
    async def scenario() -> None:
        async with bench() as env:
            for pause_s in (0.5, 1.0, 2.0):
                await env.server.until(lambda: env.server.watching == 1)
                env.server.bookmark()
                if end == "expired":
                    env.server.fail_watches(410)
                else:
                    env.server.end_watches(End.PROPER if end == "proper" else End.BROKEN)
                await env.rest(pause_s)
            await env.server.until(lambda: env.server.watching == 1)

            lists = [watch for (watch,) in queries(env.server, "watch") if not watch]
            assert len(lists) == (1 if end == "proper" else 4)

    finish(scenario())


def test_forbidden_list_is_reported_and_retried() -> None:
    async def scenario() -> None:
        async with bench() as env:
            env.server.fail(Response(403, b""))
            await env.rest(0.5)
            await env.until(["a"])

            assert "grant list on nodes" in str(env.failures[0][0])

    finish(scenario())
