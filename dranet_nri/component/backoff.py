"""Exponential back-off: the delay before a retry, doubled each time up to a limit."""

from collections.abc import Callable
from typing import Final

FIRST_DELAY_S: Final = 0.2  # before a failure on a node is retried; doubles up to the resync
_MAX_DOUBLINGS: Final = 64  # the delay is then above every limit; a float overflows at 1024


def backoff_s(failures: int, first_s: float, longest_s: float, random: float = 1.0) -> float:
    """Return the seconds to wait before the next try.

    Args:
        failures: consecutive failures before the last one.
        first_s: the delay after the first failure; doubles with each.
        longest_s: upper limit.
        random: jitter, 0 to 1, for half of the delay to all of it, so that clients that failed
            together do not retry together. 1 where there is no other client.
    """
    whole_s = min(first_s * 2.0 ** min(failures, _MAX_DOUBLINGS), longest_s)
    return whole_s * (0.5 + random / 2)


class Backoff:
    """Delays after consecutive failures.

    Attributes:
        failures: consecutive failures so far.
    """

    def __init__(
        self,
        first_s: float,
        longest_s: float,
        random: Callable[[], float] = lambda: 1.0,
        lasting_s: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """Start without a failure.

        Args:
            first_s: the delay after the first failure; doubles with each.
            longest_s: upper limit of the delay.
            random: see backoff_s.
            lasting_s: the same two limits for failures that last until an operator acts.
        """
        self._limits_s = {False: (first_s, longest_s), True: lasting_s}
        self._random = random
        self.failures = 0

    def next_s(self, *, lasting: bool = False, at_least_s: float = 0.0) -> float:
        """Count a failure and return the seconds until the retry, at_least_s or more."""
        delay_s = backoff_s(self.failures, *self._limits_s[lasting], self._random())
        self.failures += 1
        return max(delay_s, at_least_s)

    def reset(self) -> None:
        """Count from the beginning after a success."""
        self.failures = 0
