"""Repairs of devices and claims, run in turn: one that hangs delays the others only briefly."""

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
        name: for people; the pod and the claim that come after may have the same.
        key: unique among subjects.
    """

    name: str
    key: str

    @classmethod
    def of(cls, record: Attachment) -> "RepairSubject":
        """Return the claim in the sandbox that its record is of."""
        return cls(str(record.claim), f"{record.claim.uid} in {record.sandbox_id}")


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair, or a check whether one is needed.

    Attributes:
        failed: the log event of a failure.
        subject: what it repairs; at most one repair of a kind runs on a subject.
        work: starts the repair.
    """

    failed: str
    subject: RepairSubject
    work: Callable[[], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True)
class RepairRunner:
    """Runs repairs. A repair that fails or hangs does not stop the others."""

    log: structlog.typing.FilteringBoundLogger
    _at_work: dict[tuple[str, str], asyncio.Task[bool]] = field(default_factory=dict)

    async def done(self, repairs: Iterable[Repair], patience_s: float, moment_s: float) -> bool:
        """Do repairs in turn. One that hangs in the kernel is abandoned, and not started again.

        So the number of threads is that of the repairs that hang, however often one is requested.

        Args:
            repairs: each is asked for when it is its turn.
            patience_s: how long all that hang are waited for together.
            moment_s: how long one of them keeps the next from its turn.

        Returns:
            Whether all are done.
        """
        well, left_s = True, patience_s
        hanging: set[asyncio.Task[bool]] = set()
        for repair in repairs:
            key = (repair.failed, repair.subject.key)
            if key in self._at_work:
                well = False
                continue
            task = self._begun(key, repair)
            waited_s = min(moment_s, left_s)
            await asyncio.wait({task}, timeout=waited_s)
            if task.done():
                well &= task.result()
            else:
                hanging.add(task)
                left_s -= waited_s
        if hanging:
            await asyncio.wait(hanging, timeout=left_s)
        return well and all(task.done() and task.result() for task in hanging)

    def _begun(self, key: tuple[str, str], repair: Repair) -> asyncio.Task[bool]:
        name = f"{repair.subject.name}: {repair.failed}"
        task = asyncio.create_task(self._tried(repair), name=name)
        self._at_work[key] = task
        task.add_done_callback(lambda _done: self._at_work.pop(key))
        return task

    async def _tried(self, repair: Repair) -> bool:
        """Run one repair. A failure is logged and does not stop the others."""
        subject = repair.subject.name
        try:
            await repair.work()
        except Exception as error:
            self.log.error(
                repair.failed, subject=subject, reason=described(error), exc_info=trace_of(error)
            )
            return False
        return True
