"""Deferred reader: reads a descriptor some time after it becomes readable.

A burst of events is read once. The process stays off the CPU meanwhile: the attach of a NIC, whose
records and kernel events are read here, takes 20 ms, and a busy CPU delays the kernel's RCU grace
periods, for which the attach waits.

Rules:
1. No event is lost: the descriptor stays readable, and is watched again after the read.
"""

import asyncio
from collections.abc import Callable
from typing import Final

DELAY_S: Final = 0.1


class DeferredReader:
    """Calls a function when a descriptor has been readable for a while; on one event loop."""

    def __init__(self, fileno: int, read: Callable[[], None], delay_s: float = DELAY_S) -> None:
        """Watch the descriptor on the running loop until close.

        Args:
            fileno: the descriptor; it stays open longer than this.
            read: reads all that is there. It may call close.
            delay_s: seconds between the first event and the read.
        """
        self._loop = asyncio.get_running_loop()
        self._fileno = fileno
        self._read = read
        self._delay_s = delay_s
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._loop.add_reader(fileno, self._begin)

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._closed = True
        self._loop.remove_reader(self._fileno)
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        self._loop.remove_reader(self._fileno)
        self._timer = self._loop.call_later(self._delay_s, self._end)

    def _end(self) -> None:
        try:
            self._read()
        finally:
            if not self._closed:
                self._loop.add_reader(self._fileno, self._begin)
