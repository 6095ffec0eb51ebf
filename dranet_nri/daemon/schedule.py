"""Reconcile schedule: at once after an event, with back-off after an error, else periodically."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from dranet_nri.component.backoff import FIRST_DELAY_S, Backoff


@dataclass(slots=True)
class ReconcileSchedule:
    """Timer of reconcile rounds. Times are seconds.

    A round reports its own failures. A kernel event during a round may concern a device that the
    round has already checked, or be caused by the round: one more round follows soon, and no
    further one while consecutive such rounds leave repairs pending.
    """

    resync_s: float
    clock: Callable[[], float] = time.monotonic
    _due: float = field(init=False)
    _backoff: Backoff = field(init=False)  # of consecutive rounds with pending repairs
    _began: float | None = None  # start of the running round
    _event: bool = False  # a kernel event during the running round
    _previous_event: bool = False  # one during the previous round
    _requested: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Schedule the first round now."""
        self._due = self.clock()
        self._backoff = Backoff(FIRST_DELAY_S, self.resync_s)

    def request_now(self) -> None:
        """Request a reconcile now."""
        self._request(0.0)

    def request_soon(self) -> None:
        """Request a reconcile soon, because a repair is pending."""
        if self._began is None:
            self._backoff.reset()
            self._request(FIRST_DELAY_S)

    def note_kernel_event(self) -> None:
        """Request a reconcile soon after a kernel event, which a running round may have missed."""
        self._event = self._began is not None
        self.request_soon()

    def remaining_s(self) -> float:
        """Return the seconds until the next round; below 0 if it is late."""
        return self._due - self.clock()

    def at_work_s(self) -> float | None:
        """Return the seconds since the start of the running round, None between rounds."""
        return None if self._began is None else self.clock() - self._began

    async def wait(self) -> None:
        """Return when a reconcile is due."""
        while (remaining_s := self.remaining_s()) > 0:
            self._requested.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._requested.wait(), remaining_s)
        self.begin()

    def begin(self) -> None:
        """Start a round; later requests are for the next one."""
        self._due = inf
        self._began = self.clock()

    def settle(self, *, pending: bool) -> None:
        """Schedule the next round by the result of this one."""
        self._began = None
        if self._event and not (pending and self._previous_event):
            self._request(FIRST_DELAY_S)
        self._previous_event, self._event = self._event, False
        if pending:
            self._request(self._backoff.next_s())
        else:
            self._request(self.resync_s)
            self._backoff.reset()

    def _request(self, delay_s: float) -> None:
        self._due = min(self._due, self.clock() + delay_s)
        self._requested.set()
