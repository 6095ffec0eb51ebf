"""Deferred reader: reads file descriptors some time after one of them becomes readable.

A burst of events is read once, and the process stays off the CPU meanwhile: an attach takes 20 ms
and waits for RCU grace periods of the kernel, which a busy CPU delays.

Rules:
1. No event is lost: the descriptors stay readable, and are watched again after the read.
2. A first event costs little, because it comes while a hook or a call runs: an epoll(7) of its own
   reports each descriptor once, so that the event loop keeps its readers.
"""

import asyncio
import select
from collections.abc import Callable, Collection
from typing import Final

DELAY_S: Final = 0.1
_ONCE: Final = select.EPOLLIN | select.EPOLLONESHOT


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
        self._loop = asyncio.get_running_loop()
        self._filenos = filenos
        self._read = read
        self._delay_s = delay_s
        self._timer: asyncio.TimerHandle | None = None
        self._epoll = select.epoll()
        for fileno in filenos:
            self._epoll.register(fileno, _ONCE)
        self._loop.add_reader(self._epoll.fileno(), self._begin)

    def close(self) -> None:
        """Stop watching. Idempotent."""
        if self._epoll.closed:
            return
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        self._epoll.poll(0)
        if self._timer is None:
            self._timer = self._loop.call_later(self._delay_s, self._end)

    def _end(self) -> None:
        self._timer = None
        try:
            self._read()
        finally:
            if not self._epoll.closed:
                for fileno in self._filenos:
                    self._epoll.modify(fileno, _ONCE)
