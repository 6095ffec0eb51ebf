"""A clock that a test advances."""

import asyncio
from contextlib import suppress


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
        self._changed = asyncio.Condition()

    def __call__(self) -> float:
        """Return the time in seconds."""
        self._now += self.step_s
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until that much time has passed."""
        future = asyncio.get_running_loop().create_future()
        self._sleepers[future] = self._now + seconds
        async with self._changed:
            self._changed.notify_all()
        try:
            await future
        finally:
            del self._sleepers[future]

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
        async with self._changed:
            await self._changed.wait_for(
                lambda: (
                    number
                    <= sum(abs(due - self._now - seconds) < 1e-6 for due in self._sleepers.values())
                )
            )
