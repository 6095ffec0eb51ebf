"""Locks of claims: one call at a time for each claim, and the tasks that prepare it."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")


@dataclass(slots=True)
class ClaimLocks(Generic[T]):
    """Locks and tasks by claim."""

    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    preparing: dict[str, set[asyncio.Task[T | None]]] = field(default_factory=dict)

    def of(self, claim_uid: str) -> asyncio.Lock:
        """Return the lock of a claim, which exists as long as it is referenced."""
        return self.locks.setdefault(claim_uid, asyncio.Lock())

    @contextmanager
    def registered(self, tasks: Mapping[str, asyncio.Task[T | None]]) -> Iterator[None]:
        """Register tasks by claim UID, so that Unprepare can cancel them."""
        for uid, task in tasks.items():
            self.preparing.setdefault(uid, set()).add(task)
        try:
            yield
        finally:
            for uid, task in tasks.items():
                self.preparing[uid].discard(task)
                if not self.preparing[uid]:
                    del self.preparing[uid]

    def cancel(self, claim_uid: str) -> None:
        """Cancel the task that prepares the claim."""
        for task in self.preparing.get(claim_uid, ()):
            task.cancel()
