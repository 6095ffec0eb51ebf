"""Clocks, and the timers of loops, with a wait that ends early when work becomes due."""

import asyncio
import random as random_module
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Final


@dataclass(frozen=True, slots=True)
class LoopClock:
    """Clock, sleep and random source of a loop; a test passes its own.

    Attributes:
        clock: seconds that only go up.
        sleep: waits that many of them.
        random: 0 to 1, for pauses.
        wall: Unix seconds.
    """

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random_module.random
    wall: Callable[[], float] = time.time


REAL: Final = LoopClock()


class Wakeup:
    """Wakes one loop."""

    def __init__(self, timing: LoopClock) -> None:
        """Use a clock, and its sleep."""
        self._clock = timing.clock
        self._sleep = timing.sleep
        self._stirred = asyncio.Event()

    def stir(self) -> None:
        """Wake the loop, so that it computes its due time again."""
        self._stirred.set()

    async def until(self, due: Callable[[], float]) -> None:
        """Return when it is due; due is called again at each wake-up, inf for never."""
        while (left_s := due() - self._clock()) > 0:
            self._stirred.clear()
            await self._stir_or(left_s)

    async def stirred(self, longest_s: float) -> None:
        """Return after a wake-up, or so many seconds; inf for a wake-up only."""
        await self._stir_or(longest_s)
        self._stirred.clear()

    async def _stir_or(self, seconds: float) -> None:
        waits = [asyncio.create_task(self._until_stirred())]
        if seconds < inf:
            waits.append(asyncio.create_task(self._rest(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _until_stirred(self) -> None:
        await self._stirred.wait()

    async def _rest(self, seconds: float) -> None:
        await self._sleep(seconds)


class SystemClock:
    """The kernel's clocks."""

    def wall(self) -> int:
        """Return Unix seconds."""
        return int(time.time())

    def boot(self) -> int:
        """Return seconds of CLOCK_BOOTTIME, which counts suspend and no clock change moves."""
        return int(time.clock_gettime(time.CLOCK_BOOTTIME))

    def sleep(self, seconds: float) -> None:
        """Let time pass, on the thread that asks."""
        time.sleep(seconds)
