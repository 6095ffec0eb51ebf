"""Locks of several devices: all at once or none, and nobody keeps what he can't use yet."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from dranet_nri.attach.locks import DeviceLocks

pytestmark = pytest.mark.process


def played(scene: Callable[[DeviceLocks], Coroutine[object, object, None]]) -> None:
    """Play a scene with locks of its own; it has ended when nothing can go on any more."""

    async def work() -> None:
        async with asyncio.timeout(30):
            await scene(DeviceLocks())

    asyncio.run(work())


class Job:
    """Work on devices, which ends when it is told to."""

    def __init__(self, locks: DeviceLocks, *names: str) -> None:
        """Begin it, and return once it has what it needs, or waits."""
        self.begun = asyncio.Event()
        self.end = asyncio.Event()
        self.task = asyncio.create_task(self._work(locks, names))

    async def _work(self, locks: DeviceLocks, names: tuple[str, ...]) -> None:
        async with locks.of(names):
            self.begun.set()
            await self.end.wait()

    def works(self) -> bool:
        """Whether it has what it needs."""
        return self.begun.is_set()

    async def ended(self) -> None:
        """End it."""
        self.end.set()
        await self.task


async def settle() -> None:
    """Let everything come as far as it does."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_who_waits_for_one_device_keeps_no_other() -> None:
    async def scene(locks: DeviceLocks) -> None:
        first = Job(locks, "b")
        await settle()
        both = Job(locks, "a", "b")
        await settle()
        other = Job(locks, "a")
        await settle()
        assert (first.works(), both.works(), other.works()) == (True, False, True)

        await first.ended()
        await settle()
        assert not both.works(), "the other one has a by now"
        await other.ended()
        await settle()
        assert both.works()
        await both.ended()

    played(scene)


def test_a_device_goes_to_who_waits_longest() -> None:
    async def scene(locks: DeviceLocks) -> None:
        jobs = []
        for _ in range(3):
            jobs.append(Job(locks, "a"))
            await settle()
        for number, job in enumerate(jobs):
            await settle()
            assert [job.works() for job in jobs] == [position <= number for position in range(3)]
            await job.ended()

    played(scene)


def test_who_gives_up_waiting_or_fails_keeps_nothing() -> None:
    async def scene(locks: DeviceLocks) -> None:
        first = Job(locks, "a")
        await settle()
        given_up, last = Job(locks, "a", "b"), Job(locks, "a")
        await settle()
        given_up.task.cancel()
        await settle()
        first.task.cancel()
        await settle()
        assert (given_up.works(), last.works()) == (False, True)
        await last.ended()

    played(scene)


def test_who_is_cancelled_when_it_is_his_turn_passes_it_on() -> None:
    async def scene(locks: DeviceLocks) -> None:
        async with locks.of(("a",)):
            unlucky, last = Job(locks, "a"), Job(locks, "a")
            await settle()
        unlucky.task.cancel()
        await settle()
        assert (unlucky.works(), last.works()) == (False, True)
        await last.ended()

    played(scene)


def test_who_was_cancelled_a_moment_ago_is_passed_over() -> None:
    async def scene(locks: DeviceLocks) -> None:
        async with locks.of(("a",)):
            gone, last = Job(locks, "a"), Job(locks, "a")
            await settle()
            gone.task.cancel()
        await settle()
        assert (gone.works(), last.works()) == (False, True)
        await last.ended()

    played(scene)


def test_no_names_wait_for_nothing() -> None:
    async def scene(locks: DeviceLocks) -> None:
        async with locks.of(()), locks.of(("a",)), locks.of(()):
            pass

    played(scene)
