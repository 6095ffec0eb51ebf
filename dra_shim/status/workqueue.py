"""Work queue of claim status: the claims to update, and the time of each.

Rules:
1. A claim is queued once, with its last desired status.
2. A claim is written at most once in 5 s, however often its records change.
3. An error of one claim delays that claim; a server that does not answer delays all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from dra_shim.status.conditions import DeviceStatus
from dranet_nri.component.backoff import Backoff
from dranet_nri.component.workqueue import WorkQueue
from dranet_nri.model import ObjectRef

MIN_INTERVAL_S: Final = 5.0  # seconds between two writes of one claim
FIRST_PAUSE_S: Final = 0.5  # seconds after a temporary failure; doubles with each
LONGEST_PAUSE_S: Final = 30.0
FIRST_LASTING_S: Final = 5.0  # seconds after a refusal, which an operator must resolve
LONGEST_LASTING_S: Final = 300.0

Devices = tuple[DeviceStatus, ...]


@dataclass(slots=True)
class ClaimItem:
    """One claim in the queue.

    Attributes:
        devices: its desired status.
        backoff: back-off after its own failures.
    """

    claim: ObjectRef
    devices: Devices
    backoff: Backoff


class ClaimQueue:
    """Queue of all claims. Times are seconds of one clock."""

    def __init__(self, random: Callable[[], float]) -> None:
        """Start empty; random returns 0 to 1."""
        self._random = random
        self._queue = WorkQueue[str]()
        self._items: dict[str, ClaimItem] = {}
        self._backoff = self._new_backoff()  # after failures of the server

    @property
    def due(self) -> float:
        """Return when the next claim is due, inf for none."""
        return self._queue.due

    def enqueue(self, claim: ObjectRef, devices: Devices, now: float, delay_s: float) -> None:
        """Queue the status of a claim, to be written after a delay."""
        item = self._items.get(claim.uid)
        if item is None:
            item = self._items[claim.uid] = ClaimItem(claim, devices, self._new_backoff())
        elif item.devices == devices:
            return
        item.devices = devices
        self._queue.set(claim.uid, now + delay_s)

    def begin(self) -> ClaimItem:
        """Remove and return the claim that is due first."""
        return self._items[self._queue.take()]

    def done(self, item: ClaimItem, now: float, *, wrote: bool) -> None:
        """Finish a claim whose status is up to date."""
        item.backoff.reset()
        self._queue.rest(item.claim.uid, now + MIN_INTERVAL_S if wrote else -inf)
        if not item.devices and item.claim.uid not in self._queue:
            self.forget(item)

    def postpone(self, item: ClaimItem, until: float) -> None:
        """Postpone a claim until a time, even if it changes before."""
        self._queue.rest(item.claim.uid, until)
        self._queue.set(item.claim.uid, until)

    def forget(self, item: ClaimItem) -> None:
        """Remove a claim that is gone."""
        self._items.pop(item.claim.uid, None)
        self._queue.forget(item.claim.uid)

    def claim_failed(self, item: ClaimItem, now: float, *, lasting: bool) -> float:
        """Postpone a claim that could not be written; return the delay in seconds.

        Args:
            item: the claim.
            now: the time.
            lasting: whether an operator has to act.
        """
        pause_s = item.backoff.next_s(lasting=lasting)
        self.postpone(item, now + pause_s)
        return pause_s

    def server_answered(self) -> None:
        """Reset the back-off of the server."""
        self._backoff.reset()

    def server_failed(self, item: ClaimItem, now: float, *, after_s: float = 0.0) -> float:
        """Queue a claim again and pause all claims; return the pause in seconds.

        Args:
            item: the claim.
            now: the time.
            after_s: Retry-After of the server, in seconds.
        """
        pause_s = self._backoff.next_s(at_least_s=after_s)
        self._queue.pause(now + pause_s)
        self._queue.add(item.claim.uid, now)
        return pause_s

    def _new_backoff(self) -> Backoff:
        lasting_s = FIRST_LASTING_S, LONGEST_LASTING_S
        return Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, self._random, lasting_s)
