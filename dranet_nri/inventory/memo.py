"""Memo: cache of the results of pure functions between passes, while inputs are the same objects.

Rules:
1. Inputs are compared by identity: unchanged facts stay the same objects (facts/scan.py), and a
   comparison of values costs as much as the computation.
2. A result depends only on its key and its inputs.
3. A result that a pass does not use is removed after it.
"""

from collections.abc import Callable, Hashable
from operator import is_
from typing import TypeVar, cast

T = TypeVar("T")


class Memo:
    """Results of the last and the current pass. For one thread at a time."""

    def __init__(self) -> None:
        """Start without results."""
        self._before: dict[Hashable, tuple[tuple[object, ...], object]] = {}
        self._now: dict[Hashable, tuple[tuple[object, ...], object]] = {}

    def begin(self) -> None:
        """Begin a pass."""
        self._before, self._now = self._now, {}

    def get(self, key: Hashable, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the result of a computation, cached from the last pass if inputs are the same.

        Args:
            key: identifies the computation and its subject.
            inputs: its inputs.
            compute: the computation.
        """
        entry = self._before.get(key)
        if entry is None or len(entry[0]) != len(inputs) or not all(map(is_, entry[0], inputs)):
            entry = (inputs, compute())
        self._now[key] = entry
        return cast("T", entry[1])
