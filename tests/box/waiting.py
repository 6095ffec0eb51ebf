"""Waits for conditions; no wait is for a fixed time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

T = TypeVar("T")

# An emulated machine is many times slower than this one. A deadline only ends what will never come.
SLOWDOWN: Final = 4.0 if os.environ.get("BOX_TIER") == "vm" else 1.0
# A condition often runs programs, so what takes long is looked at less often.
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.2


def wait_until(what: str, condition: Callable[[], object], deadline_s: float = 100.0) -> None:
    """Return once condition is truthy.

    Raises:
        TimeoutError: It was not within deadline_s, four times that in a virtual machine.
    """
    deadline_s *= SLOWDOWN
    end = time.monotonic() + deadline_s
    pause_s = FIRST_PAUSE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {deadline_s:g} s for {what}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)


def settled(read: Callable[[], T], expected: T) -> T:
    """Return what is read, once it is as expected, or after ten seconds: then the caller fails.

    The kernel completes an IPv6 address in a work queue: its local route and its group of solicited
    nodes come after the answer to the request (addrconf_dad_work, net/ipv6/addrconf.c).
    """
    with suppress(TimeoutError):
        wait_until("the expected state", lambda: read() == expected, deadline_s=10.0)
    return read()
