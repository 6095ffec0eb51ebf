"""Rate limit and back-off of the ResourceSlice controller.

Rules:
1. Changes are collected for a moment, then written at once. After that each write starts a delay,
   so that a node with flapping devices writes a bounded number of times a minute.
2. Changes that others made to the slices are repaired later: a kubelet that starts removes them
   all, and an old instance of the shim may still be running.
3. A failed pass is retried with back-off, and changes do not shorten it.
4. Missing features are probed again without a change, once the controller set the time.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from dranet_nri.component.backoff import backoff_s

GATHER_S: Final = 0.2
REST_S: Final = 5.0  # for each write: at most 12 a minute
REPAIR_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.5  # after trouble that may pass; doubles with each
LONGEST_PAUSE_S: Final = 30.0
FIRST_LASTING_S: Final = 5.0  # after a refusal, which somebody must do something about
LONGEST_LASTING_S: Final = 300.0


class SyncSchedule:
    """Schedule of passes: the time of the next one. Times are seconds of any one clock."""

    def __init__(self, random: Callable[[], float]) -> None:
        """Begin with nothing to do; random gives 0 to 1."""
        self._random = random
        self._news = inf  # since when there are some
        self._drift = inf
        self._again = inf
        self._rest_until = -inf
        self._retry_at = -inf  # inf: it is at work, and fails or ends
        self._failures = 0

    @property
    def due(self) -> float:
        """Return when the next pass is due, inf for never."""
        wanted = min(self._news + GATHER_S, self._drift + REPAIR_S, self._again)
        if self._failures:
            wanted = self._retry_at
        return max(wanted, self._rest_until)

    def news(self, now: float) -> None:
        """Say that there is something else to publish."""
        self._news = min(self._news, now)

    def drift(self, now: float, *, found: bool) -> None:
        """Say whether the server has something else than was published."""
        self._drift = min(self._drift, now) if found else inf

    def again(self, at: float) -> None:
        """Set the time of a pass without a change, inf for none; the next pass resets it."""
        self._again = at

    def begin(self) -> None:
        """Begin a pass: it takes in all that was said before."""
        self._news = self._drift = self._again = inf

    def ended(self, now: float, writes: int) -> None:
        """End a pass that did what it should, with that many writes."""
        self._failures = 0
        self._rest_until = now + REST_S * writes

    def failed(self, now: float, writes: int, *, lasting: bool, after_s: float = 0.0) -> float:
        """End a pass that failed; return how many seconds it is until the next.

        Args:
            now: the time.
            writes: how many it tried.
            lasting: whether an operator has to act.
            after_s: how long the server asked to be left alone.
        """
        first, longest = (
            (FIRST_LASTING_S, LONGEST_LASTING_S) if lasting else (FIRST_PAUSE_S, LONGEST_PAUSE_S)
        )
        pause_s = backoff_s(self._failures, first, longest, self._random())
        self._failures += 1
        self._rest_until = now + REST_S * writes
        self._retry_at = now + max(pause_s, after_s)
        return self.due - now
