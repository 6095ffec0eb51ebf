"""Deferred reader: reads a file descriptor some time after it becomes readable.

A burst of events is read once, and the process stays off the CPU meanwhile: an attach takes 20 ms
and waits for RCU grace periods of the kernel, which a busy CPU delays.

Rules:
1. No event is lost: the descriptor stays readable, and is watched again after the read.
"""

import asyncio
from collections.abc import Callable
from typing import Final

DELAY_S: Final = 0.1


class DeferredReader:
    """Calls a function on one event loop, a delay after a descriptor became readable."""

    def __init__(self, fileno: int, read: Callable[[], None], delay_s: float = DELAY_S) -> None:
        """Watch the descriptor on the running loop until close.

        Args:
            fileno: the descriptor; the caller keeps it open until close.
            read: reads everything that is available. It may call close.
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
