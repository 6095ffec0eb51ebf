"""Runner of repairs, one after the other; a hung repair delays the next only briefly."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field

import structlog

from dranet_nri.component.log import trace_of
from dranet_nri.model import Attachment
from dranet_nri.plan.refusals import described


@dataclass(frozen=True, slots=True)
class RepairSubject:
    """Subject of a repair.

    Attributes:
        name: name for logs; a later pod or claim may have the same.
        key: unique among subjects.
    """

    name: str
    key: str

    @classmethod
    def of(cls, record: Attachment) -> "RepairSubject":
        """Return the subject of a claim in its sandbox."""
        return cls(str(record.claim), f"{record.claim.uid} in {record.sandbox_id}")


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair, or the check whether one is needed.

    Attributes:
        failed: the log event of a failure.
        subject: its subject; at most one repair of a kind runs on a subject.
        work: starts the repair.
    """

    failed: str
    subject: RepairSubject
    work: Callable[[], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True)
class RepairRunner:
    """Runs repairs. A repair that fails or hangs does not stop the others."""

    log: structlog.typing.FilteringBoundLogger
    _running: dict[tuple[str, str], asyncio.Task[bool]] = field(default_factory=dict)

    async def run(self, repairs: Iterable[Repair], hang_wait_s: float, turn_s: float) -> bool:
        """Run repairs one after the other. A hung one is not started again while it runs.

        So each hung repair has one thread, however often it is requested.

        Args:
            repairs: the next one is requested when it can start.
            hang_wait_s: seconds to wait for all hung repairs together.
            turn_s: seconds to wait for a hung repair before the next one starts.

        Returns:
            Whether all succeeded.
        """
        succeeded, remaining_s = True, hang_wait_s
        hanging: set[asyncio.Task[bool]] = set()
        for repair in repairs:
            key = (repair.failed, repair.subject.key)
            if key in self._running:
                succeeded = False
                continue
            task = self._start(key, repair)
            waited_s = min(turn_s, remaining_s)
            await asyncio.wait({task}, timeout=waited_s)
            if task.done():
                succeeded &= task.result()
            else:
                hanging.add(task)
                remaining_s -= waited_s
        if hanging:
            await asyncio.wait(hanging, timeout=remaining_s)
        return succeeded and all(task.done() and task.result() for task in hanging)

    def _start(self, key: tuple[str, str], repair: Repair) -> asyncio.Task[bool]:
        name = f"{repair.subject.name}: {repair.failed}"
        task = asyncio.create_task(self._run_one(repair), name=name)
        self._running[key] = task
        task.add_done_callback(lambda _done: self._running.pop(key))
        return task

    async def _run_one(self, repair: Repair) -> bool:
        """Run one repair; log a failure, and return whether it succeeded."""
        subject = repair.subject.name
        try:
            await repair.work()
        except Exception as error:
            self.log.error(
                repair.failed, subject=subject, reason=described(error), exc_info=trace_of(error)
            )
            return False
        return True
