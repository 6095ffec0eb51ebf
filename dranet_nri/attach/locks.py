"""Device locks: one lock per device, so that one job at a time works on it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LongWait:
    """Notification about a job that waits for a long time.

    Attributes:
        after_s: wait in seconds until the notification.
        notify: called once, with the awaited devices ("a, b").
    """

    after_s: float
    notify: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DeviceLocks:
    """Locks of a node's devices, by device name.

    A job acquires all of its devices at once. While it waits for one, for hours if a kernel call
    hangs, other jobs can use the rest.
    """

    _taken: set[str] = field(default_factory=set)
    _waiting: dict[asyncio.Future[None], frozenset[str]] = field(default_factory=dict)

    @asynccontextmanager
    async def of(
        self, names: Iterable[str], long_wait: LongWait | None = None
    ) -> AsyncIterator[None]:
        """Own the locks of all names. Waiting jobs continue in order, when their locks are free."""
        names = frozenset(names)
        if self._taken.isdisjoint(names):
            self._taken.update(names)
        else:
            await self._acquire(names, long_wait)
        try:
            yield
        finally:
            self._release(names)

    async def _acquire(self, names: frozenset[str], long_wait: LongWait | None) -> None:
        """Return when the caller owns all locks."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting[turn] = names
        timer = (
            loop.call_later(long_wait.after_s, self._notify, names, long_wait)
            if long_wait
            else None
        )
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.pop(turn, None) is None:  # the locks are already acquired
                self._release(names)
            raise
        finally:
            if timer:
                timer.cancel()

    def _notify(self, names: frozenset[str], long_wait: LongWait) -> None:
        long_wait.notify(", ".join(sorted(names & self._taken)))

    def _release(self, names: frozenset[str]) -> None:
        self._taken.difference_update(names)
        for turn, pending in tuple(self._waiting.items()):
            if not turn.cancelled() and self._taken.isdisjoint(pending):
                self._taken.update(pending)
                del self._waiting[turn]
                turn.set_result(None)
