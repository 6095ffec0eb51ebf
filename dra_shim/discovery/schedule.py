"""Scan schedule: debounce of events, periodic scans and back-off.

Rules:
1. Events are debounced: a scan starts when no event arrived for DEBOUNCE_S, or after MAX_DELAY_S.
   A change of records alone is scanned after RECORDS_S: the devices that it concerns move now, or
   they did, which causes events of their own.
2. A full scan runs at intervals, because not every change causes an event, and an event can be
   lost. Events do not postpone it.
3. A failed scan is retried with back-off, and events do not shorten it.
"""

from math import inf
from typing import Final

from dranet_nri.component.backoff import Backoff

DEBOUNCE_S: Final = 0.2  # seconds since the last event
MAX_DELAY_S: Final = 2.0  # seconds since the first event
RECORDS_S: Final = 2.0  # seconds since the first change of records
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
        self._first_event = inf  # times of the first and the last event since the last scan
        self._last_event = inf
        self._first_record = inf
        self._next_full = -inf  # time of the next full scan
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)

    @property
    def due(self) -> float:
        """Return the time of the next scan."""
        if self._backoff.failures:
            return self._next_full
        return min(
            self._last_event + DEBOUNCE_S,
            self._first_event + MAX_DELAY_S,
            self._first_record + RECORDS_S,
            self._next_full,
        )

    def request(self, now: float) -> None:
        """Request a scan after an event."""
        self._first_event = min(self._first_event, now)
        self._last_event = now

    def request_later(self, now: float) -> None:
        """Request a scan after a change of records."""
        self._first_record = min(self._first_record, now)

    def begin(self, now: float) -> bool:
        """Begin a scan, which covers all events so far; return whether it is a full scan."""
        self._first_event = self._last_event = self._first_record = inf
        return now >= self._next_full

    def ended(self, now: float, *, full: bool) -> None:
        """Record a successful scan.

        Args:
            now: the time.
            full: whether it was a full scan.
        """
        self._backoff.reset()
        if full:
            self._next_full = now + self._rescan_s

    def failed(self, now: float) -> float:
        """Record a failed scan; return the seconds until the next one, a full scan."""
        pause_s = self._backoff.next_s()
        self._next_full = now + pause_s
        return pause_s
