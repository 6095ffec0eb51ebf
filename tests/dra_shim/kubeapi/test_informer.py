"""A copy of what a server has: it follows every change, and comes through what a server does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from dra_shim.kubeapi import NODE, POD, ApiClient, ApiError, Informer, uid_of
from dranet_nri.component.clock import LoopClock
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.clock import FakeClock
from tests.fakes.exchange import End, Told

pytestmark = pytest.mark.process


@dataclass
class Bench:
    """A mirror of the nodes, its server and its clock."""

    server: FakeApiServer
    api: ApiClient
    random: float = 1.0
    clock: FakeClock = field(default_factory=FakeClock)
    troubles: list[tuple[ApiError, float]] = field(default_factory=list)
    stirred: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Make the mirror; start it later."""
        self.mirror = Informer(
            self.api,
            NODE,
            {},
            self.stirred.set,
            lambda error, pause_s: self.troubles.append((error, pause_s)),
            LoopClock(self.clock, self.clock.sleep, lambda: self.random),
        )

    @property
    def names(self) -> list[str]:
        """Return the names of what the mirror has."""
        return sorted(self.mirror.objects)

    async def until(self, names: list[str]) -> None:
        """Wait until the mirror has exactly these."""
        while self.names != names or not self.mirror.complete:
            self.stirred.clear()
            await self.stirred.wait()

    async def rest(self, pause_s: float) -> None:
        """Wait until the mirror rests that long, and let the time pass."""
        await self.clock.until_asleep(pause_s)
        self.clock.pass_time(pause_s)

    async def add(self, name: str) -> dict[str, Any]:
        """Create a node."""
        return await self.api.create(NODE, {"metadata": {"name": name}})


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """Run a mirror of a server that has node "a"."""
    async with talking() as (server, api):
        scene = Bench(server, api)
        await scene.add("a")
        server.asked.clear()
        task = asyncio.create_task(scene.mirror.run())
        try:
            yield scene
        finally:
            task.cancel()
            await asyncio.wait({task})


def asked(server: FakeApiServer, *fields: str) -> list[tuple[str | None, ...]]:
    """Return what was asked of the lists and watches that came."""
    reads = [request for request in server.asked if request.method == "GET"]
    return [tuple(read.query.get(name) for name in fields) for read in reads]


def test_it_has_what_is_there_and_what_comes_and_goes() -> None:
    async def scene() -> None:
        async with bench() as it:
            await it.until(["a"])
            node = await it.add("b")
            await it.until(["a", "b"])
            await it.api.replace(NODE, {**node, "spec": {"x": 1}})
            await it.server.until(lambda: len(it.server.writes) == 3)
            await it.api.delete(NODE, "a", uid_of(it.mirror.objects["a"]))
            await it.until(["b"])

            assert it.mirror.objects["b"]["spec"] == {"x": 1}
            assert it.troubles == []

    finish(scene())


def test_it_lists_once_from_whatever_state_and_watches_from_there() -> None:
    async def scene() -> None:
        async with bench() as it:
            it.random = 0.5
            await it.server.until(lambda: it.server.watching == 1)

            assert asked(it.server, "watch", "resourceVersion") == [(None, "0"), ("true", "101")]
            assert it.server.asked[1].query["timeoutSeconds"] == "450"

    finish(scene())


def test_a_watch_that_ends_goes_on_where_it_was() -> None:
    async def scene() -> None:
        async with bench() as it:
            await it.server.until(lambda: it.server.watching == 1)
            it.server.bookmark()
            await it.add("b")
            await it.until(["a", "b"])
            it.server.end_watches()
            await it.server.until(lambda: len(it.server.asked) == 4)

            assert asked(it.server, "watch", "resourceVersion")[2] == ("true", "102")
            assert it.troubles == []

    finish(scene())


def test_a_bookmark_is_where_the_next_watch_begins() -> None:
    async def scene() -> None:
        async with bench() as it:
            await it.server.until(lambda: it.server.watching == 1)
            await it.api.create(POD, {"metadata": {"name": "p"}}, "default")
            it.server.bookmark()
            it.server.end_watches()
            await it.server.until(lambda: len(asked(it.server)) == 3)

            assert asked(it.server, "resourceVersion")[2] == ("102",)
            assert it.names == ["a"]

    finish(scene())


@pytest.mark.parametrize("how", ["in the watch", "when it begins"])
def test_what_was_forgotten_is_listed_anew_in_the_newest_state(how: str) -> None:
    async def scene() -> None:
        async with bench() as it:
            await it.server.until(lambda: it.server.watching == 1)
            if how == "in the watch":
                it.server.fail_watches(410)
            else:
                it.server.bookmark()
                it.server.end_watches()
                it.server.fail(Told(410, b""), lambda asked: "watch" in asked.query)
            await it.clock.until_asleep(0.5)
            await it.api.delete(NODE, "a", uid_of(it.mirror.objects["a"]))
            await it.add("b")
            it.clock.pass_time(0.5)
            await it.until(["b"])

            assert asked(it.server, "watch", "resourceVersion")[-1] == (None, None)
            assert it.troubles == []

    finish(scene())


@pytest.mark.parametrize("how", ["the watch breaks", "the next is refused", "the next is silent"])
def test_what_a_server_lost_by_a_restore_is_lost_here(how: str) -> None:
    async def scene() -> None:
        async with bench() as it:
            await it.server.until(lambda: it.server.watching == 1)
            backup = it.server.backup()
            await it.add("b")
            await it.until(["a", "b"])
            if how == "the next is refused":
                it.server.fail(None, lambda asked: "watch" in asked.query)
            it.server.restore(backup, End.BROKEN if how == "the watch breaks" else End.PROPER)
            if how == "the next is silent":
                await it.server.until(lambda: it.server.watching == 1)
                it.server.end_watches()
            await it.rest(0.5)
            await it.until(["a"])
            await it.server.until(lambda: it.server.watching == 1)

            assert asked(it.server, "watch", "resourceVersion")[-2:] == [
                (None, "0"),
                ("true", "101"),
            ]
            assert len(it.troubles) == (how != "the next is silent")

    finish(scene())


def test_a_list_after_trouble_need_not_be_the_newest_again() -> None:
    async def scene() -> None:
        async with bench() as it:
            await it.server.until(lambda: it.server.watching == 1)
            it.server.fail_watches(410)
            await it.rest(0.5)
            await it.server.until(lambda: it.server.watching == 1)
            it.server.end_watches(End.BROKEN)
            await it.rest(1.0)
            await it.server.until(lambda: it.server.watching == 1)

            lists = [
                state for watch, state in asked(it.server, "watch", "resourceVersion") if not watch
            ]
            assert lists == ["0", None, "0"]

    finish(scene())


def test_trouble_is_told_and_tried_again_ever_more_rarely() -> None:
    async def scene() -> None:
        async with bench() as it:
            it.server.fail(Told(503, b""), times=9)
            for pause_s in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0):
                await it.rest(pause_s)
            await it.until(["a"])

            assert [pause_s for _, pause_s in it.troubles[-2:]] == [60.0, 60.0]
            assert {str(error) for error, _ in it.troubles} == {"list Node: HTTP status 503"}

    finish(scene())


def test_chance_keeps_many_nodes_from_coming_back_together() -> None:
    async def scene() -> None:
        async with bench() as it:
            it.random = 0.2
            it.server.fail(Told(503, b""))
            await it.rest(0.5 * 0.6)
            await it.until(["a"])

    finish(scene())


def test_a_server_that_asks_for_peace_gets_it() -> None:
    async def scene() -> None:
        async with bench() as it:
            it.server.fail(Told(429, b"", {"Retry-After": "17"}))
            await it.rest(17.0)
            await it.until(["a"])

            assert it.troubles[0][1] == 17.0

    finish(scene())


def test_what_was_heard_ends_the_trouble() -> None:
    async def scene() -> None:
        async with bench() as it:
            it.server.fail(Told(503, b""), times=3)
            for pause_s in (0.5, 1.0, 2.0):
                await it.rest(pause_s)
            await it.server.until(lambda: it.server.watching == 1)
            await it.add("b")
            await it.until(["a", "b"])
            it.server.end_watches(End.BROKEN)
            await it.rest(0.5)
            await it.server.until(lambda: it.server.watching == 1)

            assert asked(it.server, "watch", "resourceVersion")[-1] == ("true", "102")

    finish(scene())


def test_a_server_that_ends_each_watch_at_once_is_not_asked_all_the_time() -> None:
    async def scene() -> None:
        async with bench() as it:
            for pause_s in (0.5, 1.0, 2.0):
                await it.server.until(lambda: it.server.watching == 1)
                it.server.end_watches()
                await it.rest(pause_s)

            assert it.troubles == []

    finish(scene())


def test_what_is_refused_is_told_and_tried_again() -> None:
    async def scene() -> None:
        async with bench() as it:
            it.server.fail(Told(403, b""))
            await it.rest(0.5)
            await it.until(["a"])

            assert "grant list on nodes" in str(it.troubles[0][0])

    finish(scene())
