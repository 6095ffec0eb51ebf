"""Deferred reader: reads file descriptors some time after one of them becomes readable.

A burst of events is read once, and the process stays off the CPU meanwhile: an attach takes 20 ms
and waits for RCU grace periods of the kernel, which a busy CPU delays.

Rules:
1. No event is lost: the descriptors stay readable, and are watched again after the read.
"""

import asyncio
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
        self._loop = asyncio.get_running_loop()
        self._filenos = filenos
        self._read = read
        self._delay_s = delay_s
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._watch()

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._closed = True
        self._leave()
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        for fileno in self._filenos:
            self._loop.add_reader(fileno, self._begin)

    def _leave(self) -> None:
        for fileno in self._filenos:
            self._loop.remove_reader(fileno)

    def _begin(self) -> None:
        self._leave()
        self._timer = self._loop.call_later(self._delay_s, self._end)

    def _end(self) -> None:
        try:
            self._read()
        finally:
            if not self._closed:
                self._watch()
