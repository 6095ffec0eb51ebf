"""Clocks and timers of event loops, with a wait that ends early when work becomes due."""

import asyncio
import random as random_module
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol


class Timer(Protocol):
    """A call that is scheduled."""

    def cancel(self) -> None:
        """Cancel the call."""


def _call_later(seconds: float, callback: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, callback)


@dataclass(frozen=True, slots=True)
class LoopClock:
    """Clock, timers and random source of a loop; a test passes its own.

    Attributes:
        clock: monotonic seconds.
        sleep: waits that many seconds of `clock`.
        random: 0 to 1, the jitter of delays.
        wall: Unix seconds.
        call_later: calls a function after that many seconds of `clock`.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random_module.random
    wall: Callable[[], float] = time.time
    call_later: Callable[[float, Callable[[], None]], Timer] = _call_later


REAL: Final = LoopClock()


class Wakeup:
    """A wait of one loop, which other code can end early."""

    def __init__(self, timing: LoopClock) -> None:
        """Wait by this clock and its timers."""
        self._clock = timing.clock
        self._call_later = timing.call_later
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """End the loop's wait, so that it computes its due time again."""
        self._woken.set()

    async def until(self, due: Callable[[], float]) -> None:
        """Return at the due time (inf: never); `due` is called again at each wake-up."""
        while (remaining_s := due() - self._clock()) > 0:
            self._woken.clear()
            await self._wake_or(remaining_s)

    async def wait(self, longest_s: float) -> None:
        """Return after a wake-up or longest_s seconds; inf waits for a wake-up only."""
        await self._wake_or(longest_s)
        self._woken.clear()

    async def _wake_or(self, seconds: float) -> None:
        """Wait without a task, because each task takes two turns of the event loop."""
        timer = self._call_later(seconds, self.wake) if seconds < inf else None
        try:
            await self._woken.wait()
        finally:
            if timer is not None:
                timer.cancel()


class SystemClock:
    """The kernel's clocks."""

    def wall(self) -> int:
        """Return Unix seconds."""
        return int(time.time())

    def boot(self) -> int:
        """Return seconds of CLOCK_BOOTTIME: it includes suspend, and setting the clock keeps it."""
        return int(time.clock_gettime(time.CLOCK_BOOTTIME))

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)
