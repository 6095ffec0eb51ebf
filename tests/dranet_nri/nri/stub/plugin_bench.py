"""A plugin on a real socket, whose clock, handler and notices the test controls."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dranet_nri._gen import nri_pb2
from dranet_nri.model import Edits
from dranet_nri.nri.stub import Connection, Disconnected, Endpoint, Notice
from dranet_nri.nri.wire.messages import PodEventKind
from tests.fakes.clock import FakeClock
from tests.fakes.hooks import RecordingHandler
from tests.fakes.runtime import RuntimeConnection, RuntimeServer, pod_message

T = TypeVar("T", bound=Notice)

RUN, STOP, REMOVE = PodEventKind.RUN, PodEventKind.STOP, PodEventKind.REMOVE
LARGE = Edits(env=(("FILL", "x" * (2 << 20)),))  # above the buffers of a socket


@dataclass
class Bench:
    """A running plugin.

    Attributes:
        run: the task of Connection.run.
        notices: what the plugin said, in order.
    """

    path: str
    clock: FakeClock
    handler: RecordingHandler
    random: float = 1.0
    notices: list[Notice] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Make the connection; start it later."""
        self.connection = Connection(
            Endpoint("dra.net", "00", self.path),
            self.handler,
            self.note,
            clock=self.clock,
            sleep=self.clock.sleep,
            random=lambda: self.random,
        )
        self.run: asyncio.Task[None] | None = None

    def note(self, notice: Notice) -> None:
        """Keep a notice and wake who waits for it."""
        self.notices.append(notice)
        task = asyncio.ensure_future(self._wake())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _wake(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def notices_of(self, kind: type[T]) -> list[T]:
        """Return the notices of one kind."""
        return [notice for notice in self.notices if isinstance(notice, kind)]

    async def until_notice(self, kind: type[T], count: int = 1) -> T:
        """Wait for the count-th notice of a kind."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.notices_of(kind)) >= count)
        return self.notices_of(kind)[count - 1]

    async def retry(self, count: int = 1) -> Disconnected:
        """Wait for the count-th loss and let the pause after it pass."""
        lost = await self.until_notice(Disconnected, count)
        assert lost.retry_s is not None
        await self.clock.until_asleep(lost.retry_s)
        self.clock.pass_time(lost.retry_s)
        return lost


@asynccontextmanager
async def bench(directory: Path) -> AsyncIterator[Bench]:
    """Run a plugin that dials a socket in directory."""
    plugin = Bench(str(directory / "nri.sock"), FakeClock(), RecordingHandler())
    plugin.run = asyncio.create_task(plugin.connection.run())
    try:
        yield plugin
    finally:
        plugin.run.cancel()
        await asyncio.wait({plugin.run})
        await asyncio.gather(*plugin.tasks)


@asynccontextmanager
async def serving(
    directory: Path, *, dedicated: bool = True
) -> AsyncIterator[tuple[Bench, RuntimeConnection]]:
    """Run a plugin and a runtime that have shaken hands."""
    async with (
        RuntimeServer(str(directory / "nri.sock"), dedicated=dedicated) as server,
        bench(directory) as plugin,
    ):
        runtime = await server.connection()
        await runtime.handshake()
        await plugin.handler.logged("synchronize done")
        plugin.handler.log.clear()
        yield plugin, runtime


@asynccontextmanager
async def unread_answer(directory: Path) -> AsyncIterator[tuple[Bench, RuntimeConnection]]:
    """Run a plugin with a large answer to CreateContainer, which the runtime does not read."""
    async with serving(directory) as (plugin, runtime):
        plugin.handler.edits = LARGE
        runtime.stop_reading()
        create(runtime, "s1")
        await plugin.handler.logged("create s1 done")
        yield plugin, runtime


def container_message(sandbox_id: str) -> nri_pb2.Container:
    """Return a container of the sandbox."""
    return nri_pb2.Container(id=f"c-{sandbox_id}", pod_sandbox_id=sandbox_id, name="main")


def pod(sandbox_id: str) -> nri_pb2.PodSandbox:
    """Return a sandbox with a namespace."""
    return pod_message(sandbox_id, netns=f"/var/run/netns/{sandbox_id}")


def event(runtime: RuntimeConnection, kind: PodEventKind, sandbox_id: str, **fields: int) -> int:
    """Send an event; return its stream."""
    stream = runtime.runtime.pod_event(kind, pod(sandbox_id), **fields)
    runtime.send()
    return stream


def create(runtime: RuntimeConnection, sandbox_id: str, **fields: int) -> int:
    """Send CreateContainer; return its stream."""
    stream = runtime.runtime.create_container(
        pod(sandbox_id), container_message(sandbox_id), **fields
    )
    runtime.send()
    return stream


async def answered(runtime: RuntimeConnection) -> set[int]:
    """Return the streams with an answer, after everything sent before was read."""
    barrier = runtime.runtime.call("Shutdown", nri_pb2.Empty())
    await runtime.answer(barrier)
    return set(runtime.runtime.answers) - {barrier}


def finish(work: Coroutine[object, object, None]) -> None:
    """Run a test's coroutine; what it forgets to await is an error."""
    asyncio.run(work, debug=False)
