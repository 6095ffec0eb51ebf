"""Locks of claims: one call at a time for each claim, and the tasks that prepare it."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
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

    def register(self, claim_uid: str, task: asyncio.Task[T | None]) -> None:
        """Register a task until it is done, so that Unprepare can cancel it."""
        self.preparing.setdefault(claim_uid, set()).add(task)
        task.add_done_callback(partial(self._forget, claim_uid))

    def _forget(self, claim_uid: str, task: asyncio.Task[T | None]) -> None:
        self.preparing[claim_uid].discard(task)
        if not self.preparing[claim_uid]:
            del self.preparing[claim_uid]

    def cancel(self, claim_uid: str) -> None:
        """Cancel the task that prepares the claim."""
        for task in self.preparing.get(claim_uid, ()):
            task.cancel()
