"""Scan schedule: debounce of events, periodic scans and back-off.

Rules:
1. Events are collected until none comes for a moment, but not for long.
2. Without events a full scan runs at intervals: not every change is announced, and an event may be
   lost. Events do not postpone it.
3. A failed scan is repeated with back-off, and events do not shorten it.
"""

from math import inf
from typing import Final

from dranet_nri.component.backoff import Backoff

QUIET_S: Final = 0.2
LONGEST_S: Final = 2.0  # since the first of the news
FIRST_PAUSE_S: Final = 1.0  # after trouble; doubles with each
LONGEST_PAUSE_S: Final = 60.0


class ScanSchedule:
    """Scan schedule: the time of the next scan. Times are seconds of any one clock."""

    def __init__(self, rescan_s: float) -> None:
        """Begin with a scan that is due at once.

        Args:
            rescan_s: seconds between full scans.
        """
        self._rescan_s = rescan_s
        self._first = inf  # of the news, and the last of them
        self._last = inf
        self._latest = -inf  # time of the next full scan, with or without events
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)

    @property
    def due(self) -> float:
        """Return the time of the next scan."""
        if self._backoff.failures:
            return self._latest
        return min(self._last + QUIET_S, self._first + LONGEST_S, self._latest)

    def news(self, now: float) -> None:
        """Say that something may be different."""
        self._first = min(self._first, now)
        self._last = now

    def begin(self, now: float) -> bool:
        """Begin a scan, which covers all events so far; say whether it is a full one."""
        self._first = self._last = inf
        return now >= self._latest

    def ended(self, now: float, *, whole: bool) -> None:
        """End a scan that succeeded.

        Args:
            now: the time.
            whole: it was at everything.
        """
        self._backoff.reset()
        if whole:
            self._latest = now + self._rescan_s

    def failed(self, now: float) -> float:
        """End a scan that failed; return the seconds until the next one, a full scan."""
        pause_s = self._backoff.next_s()
        self._latest = now + pause_s
        return pause_s
