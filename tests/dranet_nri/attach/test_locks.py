"""Locks of several devices: all at once or none, first in, first out."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from dranet_nri.attach.locks import DeviceLocks

pytestmark = pytest.mark.process


def run_scenario(scenario: Callable[[DeviceLocks], Coroutine[object, object, None]]) -> None:
    """Run a scenario with new locks until no task can proceed."""

    async def work() -> None:
        async with asyncio.timeout(30):
            await scenario(DeviceLocks())

    asyncio.run(work())


class Job:
    """Work on devices that ends on request."""

    def __init__(self, locks: DeviceLocks, *names: str) -> None:
        """Start the job, and return once it holds its devices or waits."""
        self.begun = asyncio.Event()
        self.end = asyncio.Event()
        self.task = asyncio.create_task(self._work(locks, names))

    async def _work(self, locks: DeviceLocks, names: tuple[str, ...]) -> None:
        async with locks.of(names):
            self.begun.set()
            await self.end.wait()

    def works(self) -> bool:
        """Whether the job holds its devices."""
        return self.begun.is_set()

    async def ended(self) -> None:
        """End it."""
        self.end.set()
        await self.task


async def run_ready_tasks() -> None:
    """Run the loop until no task can proceed."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_waiting_job_holds_no_other_device() -> None:
    async def scenario(locks: DeviceLocks) -> None:
        first = Job(locks, "b")
        await run_ready_tasks()
        both = Job(locks, "a", "b")
        await run_ready_tasks()
        other = Job(locks, "a")
        await run_ready_tasks()
        assert (first.works(), both.works(), other.works()) == (True, False, True)

        await first.ended()
        await run_ready_tasks()
        assert not both.works(), "the other one has a by now"
        await other.ended()
        await run_ready_tasks()
        assert both.works()
        await both.ended()

    run_scenario(scenario)


def test_device_is_locked_by_the_longest_waiting_job() -> None:
    async def scenario(locks: DeviceLocks) -> None:
        jobs = []
        for _ in range(3):
            jobs.append(Job(locks, "a"))
            await run_ready_tasks()
        for number, job in enumerate(jobs):
            await run_ready_tasks()
            assert [job.works() for job in jobs] == [position <= number for position in range(3)]
            await job.ended()

    run_scenario(scenario)


def test_cancelled_or_failed_job_holds_no_lock() -> None:
    async def scenario(locks: DeviceLocks) -> None:
        first = Job(locks, "a")
        await run_ready_tasks()
        given_up, last = Job(locks, "a", "b"), Job(locks, "a")
        await run_ready_tasks()
        given_up.task.cancel()
        await run_ready_tasks()
        first.task.cancel()
        await run_ready_tasks()
        assert (given_up.works(), last.works()) == (False, True)
        await last.ended()

    run_scenario(scenario)


def test_job_cancelled_on_its_turn_passes_the_lock_on() -> None:
    async def scenario(locks: DeviceLocks) -> None:
        async with locks.of(("a",)):
            cancelled, last = Job(locks, "a"), Job(locks, "a")
            await run_ready_tasks()
        cancelled.task.cancel()
        await run_ready_tasks()
        assert (cancelled.works(), last.works()) == (False, True)
        await last.ended()

    run_scenario(scenario)


def test_cancelled_waiter_is_skipped() -> None:
    async def scenario(locks: DeviceLocks) -> None:
        async with locks.of(("a",)):
            gone, last = Job(locks, "a"), Job(locks, "a")
            await run_ready_tasks()
            gone.task.cancel()
        await run_ready_tasks()
        assert (gone.works(), last.works()) == (False, True)
        await last.ended()

    run_scenario(scenario)


def test_empty_set_of_names_is_locked_at_once() -> None:
    async def scenario(locks: DeviceLocks) -> None:
        async with locks.of(()), locks.of(("a",)), locks.of(()):
            pass

    run_scenario(scenario)
