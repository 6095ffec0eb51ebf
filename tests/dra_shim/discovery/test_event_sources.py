"""Sources of events on an event loop: what is heard, and what becomes of one that fails."""

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


class Told:
    """A source that a test tells what to tell."""

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

    def tell(self, told: tuple[Event, ...] | Exception) -> None:
        self._next = told
        os.write(self._writing, b".")


@pytest.fixture
def source() -> Iterator[Told]:
    made = Told()
    yield made
    made.close()


async def turns() -> None:
    """Let the event loop look a few times at what is readable."""
    for _ in range(5):
        await asyncio.sleep(0)


class Listener:
    """What is heard of a made-up sysfs."""

    def __init__(self, root: Path) -> None:
        self.host = FakeSysfs(root)
        self.scanner = Scanner(root)
        self.scanner.scan(whole=True)
        self.stirs = 0
        self.notices: list[Notice] = []
        self._stirred = asyncio.Event()

    def request_scan(self) -> None:
        self.stirs += 1
        self._stirred.set()

    async def stirred(self) -> None:
        await self._stirred.wait()
        self._stirred.clear()

    def functions(self) -> list[str]:
        return [function.address for function in self.scanner.scan(whole=False).functions]


def test_what_matters_stirs_and_is_read_next(tmp_path: Path, source: Told) -> None:
    async def scene() -> None:
        it = Listener(tmp_path)
        with ExitStack() as stack:
            EventListener(stack, it.scanner, it.request_scan, it.notices.append).add(
                "source", source
            )
            source.tell((DeviceEvent("add", "net", "eth0"),))
            await turns()
            assert it.stirs == 0

            it.host.pci(PF)
            source.tell((DeviceEvent("add", "pci", PF),))
            await it.stirred()
            assert it.functions() == [PF]
            assert it.notices == []

    finish(scene())


@pytest.mark.parametrize("error", [KernelError("read", ENETDOWN), OSError(ENETDOWN, "down")])
def test_a_source_that_fails_is_told_left_and_everything_read(
    tmp_path: Path, source: Told, error: Exception
) -> None:
    async def scene() -> None:
        it = Listener(tmp_path)
        with ExitStack() as stack:
            EventListener(stack, it.scanner, it.request_scan, it.notices.append).add(
                "source", source
            )
            it.host.pci(PF)
            source.tell(error)
            await it.stirred()
            await turns()

            assert (it.stirs, it.notices) == (1, [EventSourceLost("source", error)])
            assert it.functions() == [PF]

    finish(scene())


def test_nothing_is_heard_when_the_stack_is_unwound(tmp_path: Path, source: Told) -> None:
    async def scene() -> None:
        it = Listener(tmp_path)
        with ExitStack() as stack:
            EventListener(stack, it.scanner, it.request_scan, it.notices.append).add(
                "source", source
            )
        source.tell((NetEvent(NetEventKind.LOST),))
        await turns()

        assert it.stirs == 0

    finish(scene())


def test_what_hangs_on_a_source_is_done_after_each_of_its_events(
    tmp_path: Path, source: Told
) -> None:
    async def scene() -> None:
        it = Listener(tmp_path)
        done: list[int] = []
        with ExitStack() as stack:
            listener = EventListener(stack, it.scanner, it.request_scan, it.notices.append)
            listener.add("source", source, lambda: done.append(it.stirs))
            for count in (1, 2):
                source.tell((NetEvent(NetEventKind.LOST),))
                await it.stirred()
                await turns()
                assert it.stirs == count
        assert done == [1, 2]

    finish(scene())
