"""Event correlator: Events to post, and the rate limit of each subject.

Rules:
1. A repeated event that is not posted yet increases its count.
2. A subject may have 25 posted at once, then one in five minutes, as in client-go. Further events
   wait; none is lost within the limit of the queue.
3. A posted event is not posted again; the last 4096 are cached.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeVar

from dra_shim.status.reasons import EventSpec

BURST: Final = 25  # client-go tools/record: defaultSpamBurst
REFILL_S: Final = 300.0  # the same: defaultSpamQPS is one in five minutes
MAX_CACHED: Final = 4096  # the same: maxLruCacheEntries
MAX_PENDING: Final = 1000  # different events; the limit of the queue

_ONE_TOKEN: Final = 1 - 1e-9  # a whole token, despite rounding errors

Key = tuple[str, str, str]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class PendingEvent:
    """An event to post, with its count.

    Attributes:
        tries: number of failed posts.
    """

    spec: EventSpec
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
    _pending: OrderedDict[Key, PendingEvent] = field(default_factory=OrderedDict)
    _last_at: OrderedDict[Key, int] = field(default_factory=OrderedDict)
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def add(self, spec: EventSpec) -> bool:
        """Add an event; return whether there is a new event to post."""
        subject = spec.subject
        if not (subject.namespace and subject.name):
            return False  # not an object of a cluster
        last_at = self._last_at.get(spec.key)
        if last_at is not None and (spec.once or spec.at <= last_at):
            return False
        earlier = self._pending.get(spec.key)
        if earlier is None and len(self._pending) >= MAX_PENDING:
            self.overflow()
            return False
        if earlier is None:
            self._pending[spec.key] = PendingEvent(spec)
        else:
            earlier.spec, earlier.count = spec, earlier.count + 1
        _remember(self._last_at, spec.key, spec.at)
        return True

    def take(self, now: float) -> PendingEvent | None:
        """Remove and return the oldest event that may be posted now; None if there is none."""
        for key, pending in self._pending.items():
            bucket = self._bucket(pending.spec.subject.uid)
            level = bucket.level(now)
            if level >= _ONE_TOKEN:
                bucket.tokens, bucket.at = level - 1, now
                del self._pending[key]
                return pending
        return None

    def put_back(self, pending: PendingEvent) -> None:
        """Queue an event that could not be posted behind all others."""
        key = pending.spec.key
        newer = self._pending.pop(key, None)
        if newer is not None:
            count = newer.count + pending.count
            pending = PendingEvent(newer.spec, count, pending.tries)
        self._pending[key] = pending
        self._bucket(key[0]).tokens += 1

    def due(self, now: float) -> float:
        """Return when the next event may be posted, inf if there is none."""
        levels = {
            uid: self._bucket(uid).level(now)
            for uid in {event.spec.subject.uid for event in self._pending.values()}
        }
        return min(
            (now + max(0.0, _ONE_TOKEN - level) * REFILL_S for level in levels.values()),
            default=inf,
        )

    def _bucket(self, uid: str) -> _Bucket:
        bucket = self._buckets.get(uid) or _Bucket()
        _remember(self._buckets, uid, bucket)
        return bucket


def _remember(entries: OrderedDict[K, V], key: K, value: V) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > MAX_CACHED:
        entries.popitem(last=False)
