"""Workers of a daemon: the failure of one does not affect the others."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from dranet_nri.component.supervisor import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    STEADY_S,
    Supervisor,
    Worker,
    WorkerFailed,
)
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.process


@dataclass
class ScriptedWorker:
    """A worker that ends on request, and counts its starts."""

    name: str
    begun: int = 0
    cancelled: int = 0
    at_work: asyncio.Event = field(default_factory=asyncio.Event)
    ends: asyncio.Queue[Exception | None] = field(default_factory=asyncio.Queue)

    async def run(self) -> None:
        """Run until the test ends it."""
        self.begun += 1
        self.at_work.set()
        try:
            error = await self.ends.get()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if error is not None:
            raise error

    def part(self) -> Worker:
        """Return it as a worker."""
        return Worker(self.name, self.run)


@dataclass
class TwoWorkers:
    """Two running workers."""

    clock: FakeClock = field(default_factory=FakeClock)
    good: ScriptedWorker = field(default_factory=lambda: ScriptedWorker("good"))
    bad: ScriptedWorker = field(default_factory=lambda: ScriptedWorker("bad"))
    failures: list[WorkerFailed] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Put them together."""
        self.workers = Supervisor(
            [self.good.part(), self.bad.part()],
            self.failures.append,
            clock=self.clock,
            sleep=self.clock.sleep,
        )

    async def fail(self, error: Exception | None, pause_s: float) -> None:
        """Let one fail, and wait until its delay begins."""
        self.bad.ends.put_nowait(error)
        await self.clock.until_asleep(pause_s)

    async def rested(self, seconds: float) -> None:
        """Let the delay pass, until it runs again."""
        self.bad.at_work.clear()
        self.clock.pass_time(seconds)
        await self.bad.at_work.wait()


def run_scenario(scenario: Callable[[TwoWorkers], Awaitable[None]]) -> TwoWorkers:
    """Run a scenario and end the workers."""

    async def run() -> TwoWorkers:
        pair = TwoWorkers()
        work = asyncio.create_task(pair.workers.run())
        await pair.good.at_work.wait()
        await pair.bad.at_work.wait()
        await scenario(pair)
        work.cancel()
        await asyncio.wait((work,))
        assert work.cancelled()
        return pair

    return asyncio.run(run())


def test_failed_worker_is_restarted_and_others_are_not_affected() -> None:
    async def scenario(pair: TwoWorkers) -> None:
        await pair.fail(ValueError("bad news"), FIRST_PAUSE_S)
        assert pair.workers.failing == {"bad": "ValueError: bad news"}
        await pair.rested(FIRST_PAUSE_S)
        assert pair.workers.failing == {}

    pair = run_scenario(scenario)
    assert [(event.name, str(event.cause), event.retry_s) for event in pair.failures] == [
        ("bad", "bad news", FIRST_PAUSE_S)
    ]
    assert (pair.good.begun, pair.bad.begun) == (1, 2)
    assert (pair.good.cancelled, pair.bad.cancelled) == (1, 1)


def test_worker_that_returns_is_restarted() -> None:
    async def scenario(pair: TwoWorkers) -> None:
        await pair.fail(None, FIRST_PAUSE_S)
        assert pair.workers.failing == {"bad": "RuntimeError: ended by itself"}

    run_scenario(scenario)


def test_delays_double_up_to_a_minute_and_restart_after_a_steady_time() -> None:
    async def scenario(pair: TwoWorkers) -> None:
        pauses = [FIRST_PAUSE_S * 2**power for power in range(6)] + [LONGEST_PAUSE_S] * 2
        for pause_s in pauses:
            await pair.fail(ValueError("again"), pause_s)
            await pair.rested(pause_s)
        pair.clock.pass_time(STEADY_S)
        await pair.fail(ValueError("once more"), FIRST_PAUSE_S)
        assert [event.retry_s for event in pair.failures] == [*pauses, FIRST_PAUSE_S]

    run_scenario(scenario)
