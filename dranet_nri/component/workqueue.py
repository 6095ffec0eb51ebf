"""Work queue: keys, and the time at which each is due.

Rules:
1. A key is queued once, however often it is added.
2. An added key does not shorten a delay of that key or of the queue.
"""

from collections.abc import Hashable
from math import inf
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys with work to do. Times are seconds of one clock of the caller."""

    def __init__(self) -> None:
        """Start empty."""
        self._due: dict[K, float] = {}
        self._not_before: dict[K, float] = {}
        self._paused_until = -inf

    def __contains__(self, key: object) -> bool:
        """Whether a key is queued."""
        return key in self._due

    @property
    def due(self) -> float:
        """Return the time at which the first key is due, inf for none."""
        return max(min(self._due.values(), default=inf), self._paused_until)

    def due_of(self, key: K) -> float:
        """Return the time at which a key is due, inf if it is not queued."""
        return self._due.get(key, inf)

    def add(self, key: K, at: float) -> None:
        """Queue a key; an earlier time that is already set is kept."""
        self.set(key, min(at, self.due_of(key)))

    def set(self, key: K, at: float) -> None:
        """Queue a key for this time, in place of an earlier request; inf removes it."""
        if at == inf:
            self._due.pop(key, None)
        else:
            self._due[key] = max(at, self._not_before.get(key, -inf))

    def take(self) -> K:
        """Remove the key that is due first, and return it."""
        key = min(self._due, key=self.due_of)
        del self._due[key]
        return key

    def take_all(self) -> None:
        """Remove all keys; for a pass over everything."""
        self._due.clear()

    def rest(self, key: K, until: float) -> None:
        """Delay one key, queued now or later; replaces its previous delay."""
        self._not_before[key] = until
        if key in self._due:
            self.set(key, self._due[key])

    def pause(self, until: float) -> None:
        """Delay all keys; replaces the previous pause."""
        self._paused_until = until

    def forget(self, key: K) -> None:
        """Remove a key and its delay."""
        self._due.pop(key, None)
        self._not_before.pop(key, None)
