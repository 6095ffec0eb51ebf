"""Event correlator: Events to post, and the rate limit of each subject.

Rules:
1. A repeated event that is not posted yet increases its count.
2. A subject may have 25 posted at once, then one in five minutes, as in client-go. Further events
   wait; none is lost within the limit of the queue.
3. A posted event is not posted again; the last 4096 are remembered.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeVar

from dra_shim.status.reasons import EventSpec

BURST: Final = 25  # client-go tools/record: defaultSpamBurst
REFILL_S: Final = 300.0  # the same: defaultSpamQPS is one in five minutes
MAX_KNOWN: Final = 4096  # the same: maxLruCacheEntries
MAX_WAITING: Final = 1000  # different events; the limit of the queue

_FULL: Final = 1 - 1e-9  # of a token; seconds are not exact

Key = tuple[str, str, str]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class PendingEvent:
    """An event to post, with its count.

    Attributes:
        tries: number of failed posts.
    """

    occurrence: EventSpec
    count: int = 1
    tries: int = 0


@dataclass(slots=True)
class _Bucket:
    tokens: float = BURST
    at: float = -inf

    def level(self, now: float) -> float:
        """Return the number of tokens."""
        return min(float(BURST), self.tokens + (now - self.at) / REFILL_S)


@dataclass(slots=True)
class EventCorrelator:
    """Events to post. Times are seconds of one clock."""

    overflow: Callable[[], None]
    _waiting: OrderedDict[Key, PendingEvent] = field(default_factory=OrderedDict)
    _last_at: OrderedDict[Key, int] = field(default_factory=OrderedDict)
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def add(self, occurrence: EventSpec) -> bool:
        """Add an event; return whether there is a new event to post."""
        subject = occurrence.subject
        if not (subject.namespace and subject.name):
            return False  # not an object of a cluster
        last_at = self._last_at.get(occurrence.key)
        if last_at is not None and (occurrence.once or occurrence.at <= last_at):
            return False
        before = self._waiting.get(occurrence.key)
        if before is None and len(self._waiting) >= MAX_WAITING:
            self.overflow()
            return False
        if before is None:
            self._waiting[occurrence.key] = PendingEvent(occurrence)
        else:
            before.occurrence, before.count = occurrence, before.count + 1
        _remember(self._last_at, occurrence.key, occurrence.at)
        return True

    def take(self, now: float) -> PendingEvent | None:
        """Remove and return the oldest event that may be posted now; None if there is none."""
        for key, waiting in self._waiting.items():
            bucket = self._bucket(waiting.occurrence.subject.uid)
            level = bucket.level(now)
            if level >= _FULL:
                bucket.tokens, bucket.at = level - 1, now
                del self._waiting[key]
                return waiting
        return None

    def put_back(self, waiting: PendingEvent) -> None:
        """Queue an event that could not be posted behind all others."""
        key = waiting.occurrence.key
        newer = self._waiting.pop(key, None)
        if newer is not None:
            count = newer.count + waiting.count
            waiting = PendingEvent(newer.occurrence, count, waiting.tries)
        self._waiting[key] = waiting
        self._bucket(key[0]).tokens += 1

    def due(self, now: float) -> float:
        """Return when the next event may be posted, inf if there is none."""
        levels = {
            uid: self._bucket(uid).level(now)
            for uid in {event.occurrence.subject.uid for event in self._waiting.values()}
        }
        return min(
            (now + max(0.0, _FULL - level) * REFILL_S for level in levels.values()), default=inf
        )

    def _bucket(self, uid: str) -> _Bucket:
        bucket = self._buckets.get(uid) or _Bucket()
        _remember(self._buckets, uid, bucket)
        return bucket


def _remember(entries: OrderedDict[K, V], key: K, value: V) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > MAX_KNOWN:
        entries.popitem(last=False)
