"""Device locks: one lock per device, so that one job at a time works on it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LongWait:
    """The event of a job that waits for long.

    Attributes:
        after_s: how long, in seconds.
        tell: called once, with the devices that it waits for ("a, b").
    """

    after_s: float
    tell: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DeviceLocks:
    """The locks of a node's devices, by device name.

    A job takes all of its devices at once: while one of them is not to be had, for hours where the
    kernel keeps it, the others are free for jobs that need no more than those.
    """

    _taken: set[str] = field(default_factory=set)
    _waiting: dict[asyncio.Future[None], frozenset[str]] = field(default_factory=dict)

    @asynccontextmanager
    async def of(self, names: Iterable[str], late: LongWait | None = None) -> AsyncIterator[None]:
        """Hold every lock. Of the waiters for a device, the first that can continue does."""
        wanted = frozenset(names)
        if self._taken.isdisjoint(wanted):
            self._taken.update(wanted)
        else:
            await self._turn(wanted, late)
        try:
            yield
        finally:
            self._give_back(wanted)

    async def _turn(self, wanted: frozenset[str], late: LongWait | None) -> None:
        """Return when all of it is taken for the caller."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting[turn] = wanted
        timer = loop.call_later(late.after_s, self._tell, wanted, late) if late else None
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.pop(turn, None) is None:  # It was its turn already.
                self._give_back(wanted)
            raise
        finally:
            if timer:
                timer.cancel()

    def _tell(self, wanted: frozenset[str], late: LongWait) -> None:
        late.tell(", ".join(sorted(wanted & self._taken)))

    def _give_back(self, names: frozenset[str]) -> None:
        self._taken.difference_update(names)
        for turn, wanted in tuple(self._waiting.items()):
            if not turn.cancelled() and self._taken.isdisjoint(wanted):
                self._taken.update(wanted)
                del self._waiting[turn]
                turn.set_result(None)
