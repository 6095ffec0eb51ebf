"""Delayed notices: when they are reported, and in which order."""

import asyncio

from dra_shim.daemon.delayed_notices import DelayedNotices


def test_notices_are_reported_in_order_after_the_caller_has_continued() -> None:
    reported: list[int] = []

    async def add() -> None:
        last = asyncio.Event()

        def report(number: int) -> None:
            reported.append(number)
            if number == 3:
                last.set()

        notices = DelayedNotices(report, delay_s=0.0)
        notices.add(1)
        notices.add(2)
        assert reported == []
        await asyncio.sleep(0.001)
        notices.add(3)
        await last.wait()

    asyncio.run(add())

    assert reported == [1, 2, 3]


def test_flush_reports_what_waits_once() -> None:
    reported: list[int] = []

    async def flush() -> None:
        notices = DelayedNotices(reported.append, delay_s=0.0)
        notices.add(1)
        notices.flush()
        await asyncio.sleep(0.001)

    asyncio.run(flush())

    assert reported == [1]
