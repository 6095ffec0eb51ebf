"""The deferred reader: a burst of events is read once, and no event is lost."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from dranet_nri.component.deferred import DeferredReader


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    source, sink = os.pipe()
    os.set_blocking(source, False)
    yield source, sink
    os.close(source)
    os.close(sink)


async def _two_turns() -> None:
    """Return after the loop has called the reader callbacks: the delay has begun."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_burst_of_events_is_read_once_and_later_events_are_read(pipe: tuple[int, int]) -> None:
    source, sink = pipe

    async def scenario() -> list[bytes]:
        pieces: asyncio.Queue[bytes] = asyncio.Queue()
        reader = DeferredReader((source,), lambda: pieces.put_nowait(os.read(source, 99)), 0.02)
        os.write(sink, b"a")
        await _two_turns()
        os.write(sink, b"b")
        first = await pieces.get()
        os.write(sink, b"c")
        second = await pieces.get()
        reader.close()
        return [first, second]

    assert asyncio.run(scenario()) == [b"ab", b"c"]


def test_burst_on_two_descriptors_is_read_once(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    other, other_sink = os.pipe()
    os.set_blocking(other, False)

    async def scenario() -> list[bytes]:
        pieces: asyncio.Queue[bytes] = asyncio.Queue()

        def read() -> None:
            piece = b""
            for fileno in (source, other):
                with suppress(BlockingIOError):
                    piece += os.read(fileno, 99)
            pieces.put_nowait(piece)

        reader = DeferredReader((source, other), read, 0.02)
        os.write(sink, b"a")
        await _two_turns()
        os.write(other_sink, b"b")
        first = await pieces.get()
        os.write(other_sink, b"c")
        second = await pieces.get()
        reader.close()
        return [first, second]

    assert asyncio.run(scenario()) == [b"ab", b"c"]
    os.close(other)
    os.close(other_sink)


def test_readers_of_a_loop_share_a_timer(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = pipe
    other, other_sink = os.pipe()

    async def scenario() -> list[bytes]:
        pieces: list[bytes] = []
        first_read = asyncio.Event()

        def read() -> None:
            pieces.append(os.read(source, 99))
            first_read.set()
            raise OSError("an error of one reader")

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _context: None)
        timers: list[float] = []
        call_later = loop.call_later

        def counted(delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
            timers.append(delay_s)
            return call_later(delay_s, callback)

        monkeypatch.setattr(loop, "call_later", counted)
        reader = DeferredReader((source,), read, 0.1)
        later = DeferredReader((other,), lambda: pieces.append(os.read(other, 99)), 0.1)
        os.write(sink, b"a")
        await _two_turns()
        os.write(other_sink, b"b")
        await _two_turns()
        assert timers == [0.1]
        await first_read.wait()
        await _two_turns()
        reader.close()
        later.close()
        return pieces

    assert asyncio.run(scenario()) == [b"a", b"b"]
    os.close(other)
    os.close(other_sink)


def test_event_during_the_read_is_read_next(pipe: tuple[int, int]) -> None:
    source, sink = pipe

    async def scenario() -> list[bytes]:
        pieces: asyncio.Queue[bytes] = asyncio.Queue()

        def read() -> None:
            piece = os.read(source, 99)
            if piece == b"a":
                os.write(sink, b"b")
            pieces.put_nowait(piece)

        reader = DeferredReader((source,), read, 0.001)
        os.write(sink, b"a")
        taken = [await pieces.get(), await pieces.get()]
        reader.close()
        return taken

    assert asyncio.run(scenario()) == [b"a", b"b"]


def test_closed_reader_reads_nothing(pipe: tuple[int, int]) -> None:
    source, sink = pipe

    async def scenario() -> list[str]:
        calls: list[str] = []
        reader = DeferredReader((source,), lambda: calls.append("read"), 0.001)
        os.write(sink, b"a")
        await _two_turns()
        reader.close()
        reader.close()
        await asyncio.sleep(0.02)
        return calls

    assert asyncio.run(scenario()) == []


def test_callback_may_close_its_reader(pipe: tuple[int, int]) -> None:
    source, sink = pipe

    async def scenario() -> int:
        calls = 0
        done = asyncio.Event()

        def read() -> None:
            nonlocal calls
            calls += 1
            reader.close()
            done.set()

        reader = DeferredReader((source,), read, 0.001)
        os.write(sink, b"a")
        await done.wait()
        await asyncio.sleep(0.02)  # the descriptor stays readable
        return calls

    assert asyncio.run(scenario()) == 1


def test_failed_read_is_retried(pipe: tuple[int, int]) -> None:
    source, sink = pipe

    async def scenario() -> int:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        failures = 0
        done = asyncio.Event()

        def read() -> None:
            nonlocal failures
            if failures:
                done.set()
                return
            failures += 1
            raise OSError("cannot be read now")

        reader = DeferredReader((source,), read, 0.001)
        os.write(sink, b"a")
        await done.wait()
        reader.close()
        return failures

    assert asyncio.run(scenario()) == 1
