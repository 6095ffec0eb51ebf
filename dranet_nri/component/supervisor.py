"""Supervisor of a daemon's workers: a worker that fails is restarted, the others continue.

One fault in the worker that reports a claim to the API server, for example, must not keep the node
from preparing pods.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dranet_nri.component.backoff import Backoff
from dranet_nri.component.notice import LogLine, LogNotice

FIRST_PAUSE_S: Final = 1.0  # before a part that failed is begun anew; doubles
LONGEST_PAUSE_S: Final = 60.0
STEADY_S: Final = 300.0  # at work that long, a part's next failure counts as its first


@dataclass(frozen=True, slots=True)
class Worker:
    """A loop that runs until it is cancelled; it can be restarted after it failed."""

    name: str
    run: Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class WorkerFailed(LogNotice):
    """A worker ended, which none should, and is restarted after that many seconds."""

    log = LogLine("error", "worker failed")
    name: str
    cause: Exception
    retry_s: float

    def _facts(self) -> Mapping[str, object]:
        facts = {"part": self.name, "retry_s": self.retry_s}
        return {**facts, "reason": str(self.cause), "exc_info": self.cause}


class Supervisor:
    """Several parts at work."""

    def __init__(
        self,
        parts: Sequence[Worker],
        notify: Callable[[WorkerFailed], None],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare; run does the work.

        Args:
            parts: all of them, by different names.
            notify: called with each failure; must not raise.
            clock: monotonic seconds.
            sleep: waits that many seconds of it.
        """
        self._parts = tuple(parts)
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        self._ailing: dict[str, str] = {}

    @property
    def ailing(self) -> Mapping[str, str]:
        """Return name -> why of the parts that failed and are not at work again."""
        return dict(self._ailing)

    async def run(self) -> None:
        """Keep all at work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts:
                tasks.create_task(self._kept(part), name=part.name)

    async def _kept(self, part: Worker) -> None:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            begun = self._clock()
            self._ailing.pop(part.name, None)
            try:
                await part.run()
                cause: Exception = RuntimeError("ended by itself")
            except Exception as error:  # noqa: BLE001 - whatever a part met, the others go on
                cause = error
            if self._clock() - begun >= STEADY_S:
                backoff.reset()
            self._ailing[part.name] = f"{type(cause).__name__}: {cause}"
            pause_s = backoff.next_s()
            self._notify(WorkerFailed(part.name, cause, pause_s))
            await self._sleep(pause_s)
