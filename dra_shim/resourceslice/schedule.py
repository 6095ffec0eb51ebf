"""Rate limit and back-off of the ResourceSlice controller.

Rules:
1. Changes are debounced and written together. Then each write starts a delay, so that flapping
   devices cause a limited number of writes per minute.
2. Changes of other writers are repaired after a longer delay: a kubelet that starts deletes all
   slices, and an old instance of the shim can still be running.
3. A failed sync is retried with back-off, and changes do not shorten it.
4. Missing features are probed again without a change, at the time that the controller sets.
"""

from collections.abc import Callable
from enum import Enum, auto
from math import inf
from typing import Final

from dranet_nri.component.backoff import Backoff
from dranet_nri.component.workqueue import WorkQueue

DEBOUNCE_S: Final = 0.2  # seconds after the first change
MIN_INTERVAL_S: Final = 5.0  # seconds after each write: at most 12 writes a minute
REPAIR_S: Final = 30.0  # seconds after a change of another writer
FIRST_PAUSE_S: Final = 0.5  # seconds after a temporary failure; doubles with each
LONGEST_PAUSE_S: Final = 30.0
FIRST_LASTING_S: Final = 5.0  # seconds after a refusal, which an operator must resolve
LONGEST_LASTING_S: Final = 300.0


class _Reason(Enum):
    """Reasons of a sync."""

    CHANGE = auto()
    DRIFT = auto()
    PROBE = auto()
    RETRY = auto()


class SyncSchedule:
    """Time of the next sync. Times are seconds of one clock."""

    def __init__(self, random: Callable[[], float]) -> None:
        """Start without a sync; random returns 0 to 1."""
        self._queue = WorkQueue[_Reason]()
        lasting_s = FIRST_LASTING_S, LONGEST_LASTING_S
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, random, lasting_s)

    @property
    def due(self) -> float:
        """Return when the next sync is due, inf for never."""
        return self._queue.due

    def changed(self, now: float) -> None:
        """Queue a sync: the devices changed."""
        self._queue.add(_Reason.CHANGE, now + DEBOUNCE_S)

    def drift(self, now: float, *, found: bool) -> None:
        """Queue a repair if the server has something else than was published; else cancel it."""
        if found:
            self._queue.add(_Reason.DRIFT, now + REPAIR_S)
        else:
            self._queue.set(_Reason.DRIFT, inf)

    def again(self, at: float) -> None:
        """Set the time of a sync without a change, inf for none; the next sync resets it."""
        self._queue.set(_Reason.PROBE, at)

    def begin(self) -> None:
        """Begin a sync, which covers all changes so far."""
        self._queue.take_all()

    def ended(self, now: float, writes: int) -> None:
        """Record a successful sync, with its number of writes."""
        self._backoff.reset()
        self._queue.pause(now + MIN_INTERVAL_S * writes)

    def failed(self, now: float, writes: int, *, lasting: bool, after_s: float = 0.0) -> float:
        """Record a failed sync; return the seconds until the next one.

        Args:
            now: the time.
            writes: number of attempted writes.
            lasting: whether an operator has to act.
            after_s: Retry-After of the server, in seconds.
        """
        pause_s = self._backoff.next_s(
            lasting=lasting, at_least_s=max(after_s, MIN_INTERVAL_S * writes)
        )
        self._queue.pause(now + pause_s)
        self._queue.add(_Reason.RETRY, now)
        return pause_s
