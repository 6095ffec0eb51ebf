"""Timers of an event loop: their delays, recorded when they start."""

import asyncio
from collections.abc import Callable

import pytest


def recorded_timers(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the delays in seconds of timers that the running loop starts from now on."""
    loop = asyncio.get_running_loop()
    delays: list[float] = []
    call_later = loop.call_later

    def recorded(
        delay_s: float, callback: Callable[..., object], *arguments: object
    ) -> asyncio.TimerHandle:
        delays.append(delay_s)
        return call_later(delay_s, callback, *arguments)

    monkeypatch.setattr(loop, "call_later", recorded)
    return delays
