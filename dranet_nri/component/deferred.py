"""Deferred reader: reads file descriptors some time after one of them becomes readable.

A burst of events is read once, and the process stays off the CPU meanwhile: an attach takes 20 ms
and waits for RCU grace periods of the kernel, which a busy CPU delays.

Rules:
1. No event is lost: the descriptors stay readable, and are watched again after the read.
2. A first event costs little, because it comes while a hook or a call runs. Readers of one event
   loop with the same delay share an epoll(7), which is not watched until they have read: a burst of
   events of several kinds wakes the process twice.
"""

import asyncio
import select
from collections.abc import Callable, Collection
from typing import Final

DELAY_S: Final = 0.1


class DeferredReader:
    """Calls a function on one event loop, a delay after one of its descriptors became readable."""

    def __init__(
        self, filenos: Collection[int], read: Callable[[], None], delay_s: float = DELAY_S
    ) -> None:
        """Watch the descriptors on the running loop until close.

        Args:
            filenos: the descriptors; the caller keeps them open until close.
            read: reads everything that is available from all of them. It may call close.
            delay_s: seconds between the first event and the read.
        """
        self._filenos = filenos
        self._read = read
        self._group: _Group | None = _group_of(asyncio.get_running_loop(), delay_s)
        self._group.add(self, filenos)

    def close(self) -> None:
        """Stop watching. Idempotent."""
        group, self._group = self._group, None
        if group is not None:
            group.remove(self._filenos)

    def read(self) -> None:
        """Read, unless it was closed meanwhile."""
        if self._group is not None:
            self._read()


class _Group:
    """Readers of one event loop with the same delay."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
        """Create the group; it watches until its last reader is removed."""
        self._loop = loop
        self._delay_s = delay_s
        self._readers: dict[int, DeferredReader] = {}  # by descriptor
        self._timer: asyncio.TimerHandle | None = None
        self._epoll = select.epoll()
        self._watch()

    def add(self, reader: DeferredReader, filenos: Collection[int]) -> None:
        """Add a reader with its descriptors."""
        for fileno in filenos:
            self._epoll.register(fileno, select.EPOLLIN)
            self._readers[fileno] = reader

    def remove(self, filenos: Collection[int]) -> None:
        """Remove a reader's descriptors; with the last reader, end."""
        for fileno in filenos:
            self._epoll.unregister(fileno)
            del self._readers[fileno]
        if not self._readers:
            del _groups[self._loop, self._delay_s]
            self._loop.remove_reader(self._epoll.fileno())
            if self._timer is not None:
                self._timer.cancel()
            self._epoll.close()

    def _watch(self) -> None:
        self._timer = None
        if not self._epoll.closed:
            self._loop.add_reader(self._epoll.fileno(), self._begin)

    def _begin(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._timer = self._loop.call_later(self._delay_s, self._end)

    def _end(self) -> None:
        ready = dict.fromkeys(self._readers[fileno] for fileno, _ in self._epoll.poll(0))
        for reader in ready:
            self._loop.call_soon(reader.read)  # an error of one does not affect others
        self._loop.call_soon(self._watch)


_groups: Final[dict[tuple[asyncio.AbstractEventLoop, float], _Group]] = {}


def _group_of(loop: asyncio.AbstractEventLoop, delay_s: float) -> _Group:
    """Return the group of a loop, a new one if it has none."""
    group = _groups.get((loop, delay_s))
    if group is None:
        group = _groups[loop, delay_s] = _Group(loop, delay_s)
    return group
