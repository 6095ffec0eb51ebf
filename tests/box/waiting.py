"""Wait for something to become true, never for time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(what: str, condition: Callable[[], object], deadline_s: float = 30.0) -> None:
    """Return once condition is truthy.

    Raises:
        TimeoutError: It was not within deadline_s; the message says what was waited for.
    """
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {deadline_s:g} s for {what}")
        time.sleep(0.02)
