"""Times of reconciles: at once after an event, with back-off after an error, else periodically."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from dranet_nri.component.backoff import FIRST_DELAY_S, Backoff


@dataclass(slots=True)
class ReconcileSchedule:
    """Reconcile timer: at once after an event, with back-off after an error, else periodically.

    The result of a round covers the failures of that round. A kernel event during a round can be
    about a device that the round has already checked, or be caused by the round itself: one more
    round follows soon, and no further one while such rounds in a row leave something to repair.
    """

    sweep_s: float
    clock: Callable[[], float] = time.monotonic
    _due: float = field(init=False)
    _backoff: Backoff = field(init=False)  # of rounds in a row that left something
    _began: float | None = None  # the round at work
    _announced: bool = False  # something, during the round at work
    _echo: bool = False  # so it was during the round before
    _rung: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Schedule the first round now."""
        self._due = self.clock()
        self._backoff = Backoff(FIRST_DELAY_S, self.sweep_s)

    def news(self) -> None:
        """Request a reconcile now."""
        self._ring(0.0)

    def trouble(self) -> None:
        """Request a reconcile soon: something new is left to repair."""
        if self._began is None:
            self._backoff.reset()
            self._ring(FIRST_DELAY_S)

    def announced(self) -> None:
        """Note that a kernel event may need a repair; a round in progress may have missed it."""
        self._announced = self._began is not None
        self.trouble()

    def left_s(self) -> float:
        """Return how long it is until the next round, in seconds; less than 0 if it is late."""
        return self._due - self.clock()

    def at_work_s(self) -> float | None:
        """Return for how long a round has been at work, None between rounds."""
        return None if self._began is None else self.clock() - self._began

    async def wait(self) -> None:
        """Return when a reconcile is due."""
        while (left_s := self.left_s()) > 0:
            self._rung.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rung.wait(), left_s)
        self.begin()

    def begin(self) -> None:
        """Note that a round begins; requests from now on are for the next one."""
        self._due = inf
        self._began = self.clock()

    def settle(self, *, pending: bool) -> None:
        """Schedule the next round by the result of this one."""
        self._began = None
        if self._announced and not (pending and self._echo):
            self._ring(FIRST_DELAY_S)
        self._echo, self._announced = self._announced, False
        if pending:
            self._ring(self._backoff.next_s())
        else:
            self._ring(self.sweep_s)
            self._backoff.reset()

    def _ring(self, delay_s: float) -> None:
        self._due = min(self._due, self.clock() + delay_s)
        self._rung.set()
