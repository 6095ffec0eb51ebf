"""Delayed notices: reported after the response to the kubelet, so that no log or Event delays it.

Rule: notices keep their order, and `flush` at shutdown loses none.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

N = TypeVar("N")

DELAY_S: Final = 0.01  # the response is sent within 1 ms of the notice


class DelayedNotices(Generic[N]):
    """Reports the notices of one event loop, a delay after the first of them."""

    def __init__(self, report: Callable[[N], None], delay_s: float = DELAY_S) -> None:
        """Report with this function, which must not raise, after this number of seconds."""
        self._report = report
        self._delay_s = delay_s
        self._waiting = deque[N]()

    def add(self, notice: N) -> None:
        """Report a notice later; to be called on the event loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(self._delay_s, self.flush)
        self._waiting.append(notice)

    def flush(self) -> None:
        """Report all delayed notices."""
        while self._waiting:
            self._report(self._waiting.popleft())
