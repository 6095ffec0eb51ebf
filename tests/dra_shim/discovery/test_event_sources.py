"""Event sources on an event loop, and sources that fail."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from errno import ENETDOWN
from pathlib import Path

import pytest

from dra_shim.discovery import EventSourceLost, Notice
from dra_shim.discovery.host import EventListener
from dranet_nri.errors import KernelError
from dranet_nri.facts.invalidation import Event
from dranet_nri.facts.netlink_events import NetEvent, NetEventKind
from dranet_nri.facts.scan import Scanner
from dranet_nri.facts.uevents import DeviceEvent
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.sysfs import FakeSysfs

pytestmark = pytest.mark.process


PF = "0000:8a:00.0"


class ScriptedSource:
    """A source whose events a test gives."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self._next: tuple[Event, ...] | Exception = ()

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)

    def fileno(self) -> int:
        return self._reading

    def pending(self) -> Iterable[Event]:
        if isinstance(self._next, Exception):
            raise self._next
        os.read(self._reading, 1)
        return self._next

    def send(self, events: tuple[Event, ...] | Exception) -> None:
        self._next = events
        os.write(self._writing, b".")


@pytest.fixture
def source() -> Iterator[ScriptedSource]:
    made = ScriptedSource()
    yield made
    made.close()


async def turns() -> None:
    """Let the event loop poll a few times."""
    for _ in range(5):
        await asyncio.sleep(0)


class Listener:
    """A scanner of a fake sysfs, with the scan requests and notices of its events."""

    def __init__(self, root: Path) -> None:
        self.host = FakeSysfs(root)
        self.scanner = Scanner(root)
        self.scanner.scan(whole=True)
        self.requests = 0
        self.notices: list[Notice] = []
        self._requested = asyncio.Event()

    def request_scan(self) -> None:
        self.requests += 1
        self._requested.set()

    async def requested(self) -> None:
        await self._requested.wait()
        self._requested.clear()

    def functions(self) -> list[str]:
        return [function.address for function in self.scanner.scan(whole=False).functions]


def test_relevant_event_requests_a_scan_of_the_changed_device(
    tmp_path: Path, source: ScriptedSource
) -> None:
    async def scenario() -> None:
        listener = Listener(tmp_path)
        with ExitStack() as stack:
            EventListener(
                stack, listener.scanner, listener.request_scan, listener.notices.append
            ).add("source", source)
            source.send((DeviceEvent("add", "net", "eth0"),))
            await turns()
            assert listener.requests == 0

            listener.host.pci(PF)
            source.send((DeviceEvent("add", "pci", PF),))
            await listener.requested()
            assert listener.functions() == [PF]
            assert listener.notices == []

    finish(scenario())


@pytest.mark.parametrize("error", [KernelError("read", ENETDOWN), OSError(ENETDOWN, "down")])
def test_failed_source_is_reported_and_removed_and_a_full_scan_follows(
    tmp_path: Path, source: ScriptedSource, error: Exception
) -> None:
    async def scenario() -> None:
        listener = Listener(tmp_path)
        with ExitStack() as stack:
            EventListener(
                stack, listener.scanner, listener.request_scan, listener.notices.append
            ).add("source", source)
            listener.host.pci(PF)
            source.send(error)
            await listener.requested()
            await turns()

            assert (listener.requests, listener.notices) == (1, [EventSourceLost("source", error)])
            assert listener.functions() == [PF]

    finish(scenario())


def test_events_are_ignored_after_the_stack_is_closed(
    tmp_path: Path, source: ScriptedSource
) -> None:
    async def scenario() -> None:
        listener = Listener(tmp_path)
        with ExitStack() as stack:
            EventListener(
                stack, listener.scanner, listener.request_scan, listener.notices.append
            ).add("source", source)
        source.send((NetEvent(NetEventKind.LOST),))
        await turns()

        assert listener.requests == 0

    finish(scenario())


def test_callback_of_a_source_runs_after_each_event(tmp_path: Path, source: ScriptedSource) -> None:
    async def scenario() -> None:
        listener = Listener(tmp_path)
        done: list[int] = []
        with ExitStack() as stack:
            events = EventListener(
                stack, listener.scanner, listener.request_scan, listener.notices.append
            )
            events.add("source", source, lambda: done.append(listener.requests))
            for count in (1, 2):
                source.send((NetEvent(NetEventKind.LOST),))
                await listener.requested()
                await turns()
                assert listener.requests == count
        assert done == [1, 2]

    finish(scenario())
