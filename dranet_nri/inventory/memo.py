"""Memo: results of pure functions, reused in the next pass where the inputs are the same objects.

Rules:
1. Inputs are compared by identity: facts that did not change stay the same objects (facts/scan.py),
   and a comparison of values costs as much as the work that it saves.
2. A result depends on its key and its inputs alone.
3. What a pass does not use is forgotten after it.
"""

from collections.abc import Callable, Hashable
from operator import is_
from typing import TypeVar, cast

T = TypeVar("T")


class Memo:
    """Results of the last pass and of the current one. For one thread at a time."""

    def __init__(self) -> None:
        """Begin with no results."""
        self._before: dict[Hashable, tuple[tuple[object, ...], object]] = {}
        self._now: dict[Hashable, tuple[tuple[object, ...], object]] = {}

    def begin(self) -> None:
        """Begin a pass."""
        self._before, self._now = self._now, {}

    def kept(self, key: Hashable, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the result of a computation; that of the last pass if it had the same inputs.

        Args:
            key: names the computation, and what it is about.
            inputs: all that it depends on besides.
            compute: does it.
        """
        known = self._before.get(key)
        if known is None or len(known[0]) != len(inputs) or not all(map(is_, known[0], inputs)):
            known = (inputs, compute())
        self._now[key] = known
        return cast("T", known[1])
