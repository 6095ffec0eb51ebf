"""A clock that a test advances."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from dranet_nri.component.clock import LoopClock, Timer


class FakeTimer:
    """A scheduled call of a fake clock."""

    def __init__(self, sleepers: dict[asyncio.Future[None], float]) -> None:
        """Create the timer; sleepers are those of its clock."""
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers = sleepers

    def cancel(self) -> None:
        """Cancel the call."""
        self._sleepers.pop(self.future, None)
        self.future.cancel()

    def end(self, callback: Callable[[], None]) -> None:
        """Call the function unless the timer was cancelled."""
        self._sleepers.pop(self.future, None)
        if not self.future.cancelled():
            callback()


class FakeClock:
    """A monotonic clock and its sleep.

    Attributes:
        step_s: seconds that pass at each reading.
    """

    def __init__(self) -> None:
        """Start at some time."""
        self.step_s = 0.0
        self._now = 1000.0
        self._sleepers: dict[asyncio.Future[None], float] = {}
        self._timers: list[asyncio.Task[None]] = []  # a loop itself keeps no task alive
        self._waiting: list[asyncio.Future[None]] = []  # for a new sleep

    def __call__(self) -> float:
        """Return the time in seconds."""
        self._now += self.step_s
        return self._now

    def timing(
        self, random: Callable[[], float] = lambda: 0.5, wall: Callable[[], float] = time.time
    ) -> LoopClock:
        """Return this clock for a loop."""
        return LoopClock(self, self.sleep, random, wall, self.call_later)

    async def sleep(self, seconds: float) -> None:
        """Wait until that much time has passed."""
        future = asyncio.get_running_loop().create_future()
        self._add(future, seconds)
        try:
            await future
        finally:
            del self._sleepers[future]

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call a function when that much time has passed; it counts as a sleep until then."""
        timer = FakeTimer(self._sleepers)
        self._add(timer.future, seconds)
        timer.future.add_done_callback(lambda _: timer.end(callback))
        return timer

    def timeout(self, seconds: float) -> asyncio.Timeout:
        """Return a time limit of this clock; it counts as a sleep until the event loop ends."""
        limit = asyncio.timeout(None)
        self._timers.append(asyncio.create_task(self._expire(limit, seconds)))
        return limit

    async def _expire(self, limit: asyncio.Timeout, after_s: float) -> None:
        await self.sleep(after_s)
        with suppress(RuntimeError):  # the limited work has ended
            limit.reschedule(asyncio.get_running_loop().time())

    def asleep(self) -> list[float]:
        """Return the remaining seconds of each sleep."""
        return sorted(due - self._now for due in self._sleepers.values())

    def pass_time(self, seconds: float) -> None:
        """Advance the time, and end the sleeps that are due."""
        self._now += seconds
        for future, due in self._sleepers.items():
            if due <= self._now and not future.done():
                future.set_result(None)

    async def until_asleep(self, seconds: float, number: int = 1) -> None:
        """Wait until so many sleeps have that much time left."""
        while number > sum(
            abs(due - self._now - seconds) < 1e-6 for due in self._sleepers.values()
        ):
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def _add(self, future: asyncio.Future[None], seconds: float) -> None:
        self._sleepers[future] = self._now + seconds
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()
