"""Supervisor of a daemon's workers: it restarts a worker that fails; the others continue.

For example, a fault in the worker that writes claim status must not stop the preparation of pods.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dranet_nri.component.backoff import Backoff
from dranet_nri.component.notice import LogLine, LogNotice

FIRST_PAUSE_S: Final = 1.0  # before a failed worker is restarted; doubles
LONGEST_PAUSE_S: Final = 60.0
STEADY_S: Final = 300.0  # after a run of this length the back-off starts again


@dataclass(frozen=True, slots=True)
class Worker:
    """A loop that runs until it is cancelled and can be restarted after a failure."""

    name: str
    run: Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class WorkerFailed(LogNotice):
    """A worker failed or returned; it is restarted after retry_s seconds."""

    log = LogLine("error", "worker failed")
    name: str
    cause: Exception
    retry_s: float

    def _facts(self) -> Mapping[str, object]:
        facts = {"worker": self.name, "retry_s": self.retry_s}
        return {**facts, "reason": str(self.cause), "exc_info": self.cause}


class Supervisor:
    """Runs several workers."""

    def __init__(
        self,
        workers: Sequence[Worker],
        notify: Callable[[WorkerFailed], None],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare; `run` starts the workers.

        Args:
            workers: the workers, with distinct names.
            notify: called with each failure; must not raise.
            clock: monotonic seconds.
            sleep: waits that many seconds of `clock`.
        """
        self._workers = tuple(workers)
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        self._failing: dict[str, str] = {}

    @property
    def failing(self) -> Mapping[str, str]:
        """Return name -> error of the workers that failed and wait for their restart."""
        return dict(self._failing)

    async def run(self) -> None:
        """Run all workers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for worker in self._workers:
                tasks.create_task(self._supervise(worker), name=worker.name)

    async def _supervise(self, worker: Worker) -> None:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            begun = self._clock()
            self._failing.pop(worker.name, None)
            try:
                await worker.run()
                cause: Exception = RuntimeError("ended by itself")
            except Exception as error:  # noqa: BLE001 - any failure of one leaves the others running
                cause = error
            if self._clock() - begun >= STEADY_S:
                backoff.reset()
            self._failing[worker.name] = f"{type(cause).__name__}: {cause}"
            delay_s = backoff.next_s()
            self._notify(WorkerFailed(worker.name, cause, delay_s))
            await self._sleep(delay_s)
