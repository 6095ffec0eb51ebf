"""Scan schedule: debounce of events, periodic scans and back-off.

Rules:
1. A scan starts when no event arrived for a moment, or after a maximum delay.
2. Without events a full scan runs at intervals, because not each change causes an event, and an
   event can be lost. Events do not postpone it.
3. A failed scan is retried with back-off, and events do not shorten it.
"""

from math import inf
from typing import Final

from dranet_nri.component.backoff import Backoff

QUIET_S: Final = 0.2
LONGEST_S: Final = 2.0  # seconds since the first event
FIRST_PAUSE_S: Final = 1.0  # seconds after a failure; doubles with each
LONGEST_PAUSE_S: Final = 60.0


class ScanSchedule:
    """Time of the next scan. Times are seconds of one clock."""

    def __init__(self, rescan_s: float) -> None:
        """Start with a scan that is due at once.

        Args:
            rescan_s: seconds between full scans.
        """
        self._rescan_s = rescan_s
        self._first = inf  # time of the first and of the last event
        self._last = inf
        self._latest = -inf  # time of the next full scan
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)

    @property
    def due(self) -> float:
        """Return the time of the next scan."""
        if self._backoff.failures:
            return self._latest
        return min(self._last + QUIET_S, self._first + LONGEST_S, self._latest)

    def request(self, now: float) -> None:
        """Request a scan after an event."""
        self._first = min(self._first, now)
        self._last = now

    def begin(self, now: float) -> bool:
        """Begin a scan, which covers all events so far; return whether it is a full scan."""
        self._first = self._last = inf
        return now >= self._latest

    def ended(self, now: float, *, full: bool) -> None:
        """Record a successful scan.

        Args:
            now: the time.
            whole: it was at everything.
        """
        self._backoff.reset()
        if full:
            self._latest = now + self._rescan_s

    def failed(self, now: float) -> float:
        """Record a failed scan; return the seconds until the next one, a full scan."""
        pause_s = self._backoff.next_s()
        self._latest = now + pause_s
        return pause_s
