"""Exponential back-off: the delay before a retry, doubled each time up to a limit."""

from typing import Final

FIRST_DELAY_S: Final = 0.2  # before trouble on a node is looked at again; doubles up to the sweep
_MOST_DOUBLINGS: Final = 64  # above every limit by then; a float overflows at 1024


def backoff_s(failures: int, first_s: float, longest_s: float, random: float = 1.0) -> float:
    """Return how many seconds to wait before the next try.

    Args:
        failures: how many there were in a row before the one that is waited after.
        first_s: the pause after one without any before; doubles with each.
        longest_s: no pause is longer.
        random: 0 to 1, for half of the pause to all of it, so that those who failed together do
            not retry together. 1 where there is no other client.
    """
    whole_s = min(first_s * 2.0 ** min(failures, _MOST_DOUBLINGS), longest_s)
    return whole_s * (0.5 + random / 2)
