"""A fact of the kernel that is kept until an event concerns it.

Rules:
1. Each use first takes the queued events. The kernel queues an event before the change returns to
   its author, so no change that was complete before the use is missed.
2. The kernel may queue an event before it makes the change. So a read waits for such a change, see
   wait_for_changes().
3. A fact is not kept if another thread took events since the read began, or if the queue was not
   emptied.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.links import link_at
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket

LOOPBACK: Final = 1  # ifindex in each namespace (LOOPBACK_IFINDEX, net/net_namespace.h)
MAX_EVENTS: Final = 4096  # taken at once: a pod may change its links without pause
MAX_EVENTS_BETWEEN: Final = 128  # on the event loop: some 3 ms

E = TypeVar("E")
T = TypeVar("T")

E_co = TypeVar("E_co", covariant=True)


class Events(Protocol[E_co]):
    """Events of the kernel."""

    def fileno(self) -> int:
        """Return the descriptor that is readable while events are queued."""

    def pending(self) -> Iterable[E_co]:
        """Yield the queued events without waiting; KernelError if that fails."""

    def close(self) -> None:
        """Close the source. Idempotent."""


class KeptFact(Generic[T, E]):
    """A fact, kept between uses. Thread-safe."""

    def __init__(
        self,
        events: Events[E],
        after: Callable[[T, E], T | None],
        read: Callable[[RtnetlinkSocket, T | None], T],
    ) -> None:
        """Start without the fact.

        Args:
            events: events that may concern it.
            after: returns what remains of the fact after an event: the same object if the event
                does not concern it, None if nothing remains.
            read: returns the complete fact, from what remains of it.
        """
        self._events = events
        self._after = after
        self._read = read
        self._lock = threading.Lock()  # not held during a read, which may take long
        self._known: T | None = None
        self._changes = 0

    def current(self, netlink: RtnetlinkSocket) -> T:
        """Return the fact.

        Args:
            netlink: a socket of the namespace.

        Raises:
            KernelError: the read failed, or the events cannot be taken.
        """
        with self._lock:
            is_empty = self._apply_events(MAX_EVENTS)
            if not is_empty:
                self._known = None
            known, changes = self._known, self._changes
        fact = self._read(netlink, known)
        with self._lock:
            if is_empty and self._changes == changes:
                self._known = fact
        return fact

    def take_events(self) -> None:
        """Apply some queued events between uses, so that the next use has fewer of them.

        While another thread applies them, nothing is done: the event loop must not wait for it.

        Raises:
            KernelError: the events cannot be taken.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._apply_events(MAX_EVENTS_BETWEEN)
        finally:
            self._lock.release()

    def fileno(self) -> int:
        """Return the descriptor that is readable while events are queued."""
        return self._events.fileno()

    def _apply_events(self, limit: int) -> bool:
        """Apply at most so many queued events; return whether the queue was emptied."""
        for count, event in enumerate(self._events.pending(), 1):
            after = None if self._known is None else self._after(self._known, event)
            if after is None or after is not self._known:
                self._known = after
                self._changes += 1
            if count == limit:
                return False
        return True


def wait_for_changes(netlink: RtnetlinkSocket) -> None:
    """Return once the changes are made whose events are queued.

    Their authors hold the RTNL mutex, and this request takes it. A dump of routes does not (since
    Linux 6.9).
    """
    with suppress(KernelError):  # of an answer: the kernel took the mutex before it
        link_at(netlink, "wait for changes", LOOPBACK)
