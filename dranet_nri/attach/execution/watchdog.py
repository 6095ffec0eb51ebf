"""Watchdog of kernel work: logs and records jobs that hang or fail unexpectedly.

Rules:
1. A thread that hangs in the kernel is abandoned. Its devices stay locked, because the thread may
   continue at any time; all other work continues.
2. A job records the package's own errors; other exceptions are recorded here.
3. While a gate cannot be opened or closed, that is recorded beside other errors.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import structlog

from dranet_nri.attach.metrics import WorkMetrics
from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.component.clock import SystemClock
from dranet_nri.component.replace import replace
from dranet_nri.component.threads import HangTimeout, in_thread
from dranet_nri.errors import DranetError
from dranet_nri.model import FAULT, GATE_CLOSED, GATE_OPEN, HUNG, Attachment, Failure
from dranet_nri.plan.refusals import described
from dranet_nri.plan.retry import message_of
from dranet_nri.state.heartbeat import HungCall

HUNG_S: Final = 10.0  # work of this length is reported as hung; it usually takes milliseconds

_CLOSE_ERROR: Final = "its gate cannot be closed"
_OPEN_ERROR: Final = "its gate cannot be opened"
_BEFORE: Final = "; before that: "

T = TypeVar("T")

HangRecord = tuple[Attachment, Attachment]  # the record before the hang, and with it


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Runs each job on its own thread, and reports those that hang or fail."""

    attachments: AttachmentRecords
    clock: SystemClock
    log: structlog.typing.FilteringBoundLogger
    hang_timeout_s: float = HUNG_S
    counts: WorkMetrics = field(default_factory=partial(WorkMetrics, time.monotonic))

    async def run(self, work: Callable[[], T], records: tuple[Attachment, ...] = ()) -> T:
        """Run work on a thread and return its result.

        Args:
            work: the job.
            records: records of its claims, stored with a failure if a claim has no record of
                this sandbox.

        Raises:
            Exception: from work, or from the start of the thread.
        """
        before = tuple(self.attachments.get(record.claim.uid) for record in records)
        try:
            return await self._watched(work, records)
        except DranetError:
            raise
        except Exception as error:
            for stored, record in zip(before, records, strict=True):
                self._record_fault(stored, record, described(error))
            raise

    async def _watched(self, work: Callable[[], T], records: tuple[Attachment, ...]) -> T:
        recorded: list[HangRecord] = []

        def report(step: str) -> None:
            claims = ", ".join(str(record.claim) for record in records)
            since_s = self.clock.boot() - self.hang_timeout_s
            self.counts.add_hung(work, HungCall(since_s, claims, step))
            recorded.extend(self._record_hang(records, step))

        try:
            return await in_thread(work, HangTimeout(self.hang_timeout_s, report))
        except asyncio.CancelledError:
            recorded.clear()  # The thread may still hang; the next instance reads the record.
            raise
        finally:
            hung = self.counts.returned(work)
            if hung and not records:
                self.log.warning("no longer hung", step=hung.step)
            for before, hanging in recorded:
                self.log.warning("no longer hung", pod=str(before.pod), claim=str(before.claim))
                self._swap(hanging, before)

    def _record_hang(self, records: tuple[Attachment, ...], step: str) -> list[HangRecord]:
        """Log and record that a thread hangs at the step."""
        problem = f"{step} has not returned for {self.hang_timeout_s:g} s"
        remedy = "the kernel's log names hung tasks"
        if not records:
            self.log.error("hung in the kernel", reason=f"{problem}; {remedy}")
        message = f"{problem}; its devices stay locked until it does; {remedy}"
        recorded: list[HangRecord] = []
        for record in records:
            self.log.error(
                "hung in the kernel", pod=str(record.pod), claim=str(record.claim), reason=message
            )
            stored = self.attachments.get(record.claim.uid)
            before = stored if stored and stored.sandbox_id == record.sandbox_id else record
            hanging = replace(before, failure=self._failure(message, before.failure))
            if self._swap(stored, hanging):
                recorded.append((before, hanging))
        return recorded

    def _failure(self, message: str, before: Failure | None) -> Failure:
        """Return the failure to record, with the previous message."""
        if before is None:
            return Failure(HUNG, message_of(message), self.clock.wall(), 1)
        text = message_of(f"{message}{_BEFORE}{before.message}")
        return Failure(HUNG, text, self.clock.wall(), before.count)

    def _record_fault(self, before: Attachment | None, listed: Attachment, message: str) -> None:
        """Record a failure, unless the work has recorded one after `before`."""
        stored = self.attachments.get(listed.claim.uid)
        record = stored if stored and stored.sandbox_id == listed.sandbox_id else listed
        recorded = before.failure if before else None
        if record.failure is None or record.failure == recorded:
            count = record.failure.count + 1 if record.failure else 1
            failure = Failure(FAULT, message_of(message), self.clock.wall(), count)
            self._swap(stored, replace(record, failure=failure))

    def clear_fault(self, claim_uid: str) -> None:
        """Clear a recorded hang or fault of a claim that is verified."""
        record = self.attachments.get(claim_uid)
        if record and record.failure and record.failure.reason in {HUNG, FAULT}:
            self._swap(record, replace(record, failure=None))

    def open_gate(self, claim_uid: str, work: Callable[[], bool]) -> bool:
        """Open an attached claim's gate; return whether it is open. A failure is recorded.

        Args:
            claim_uid: UID of the claim.
            work: opens the gate; returns whether it was closed.
        """
        reason = ""
        try:
            if work():
                self.counts.gates.add("opened")
        except OSError as error:
            self.counts.gates.add("failed")
            reason = described(error)
        self._record_gate(claim_uid, _OPEN_ERROR, GATE_CLOSED, reason)
        return not reason

    def record_close_error(self, claim_uid: str, error: str) -> None:
        """Record why the claim's gate cannot be closed; "" clears that."""
        self._record_gate(claim_uid, _CLOSE_ERROR, GATE_OPEN, error)

    def _record_gate(self, claim_uid: str, problem: str, reason: str, error: str) -> None:
        """Record a problem of the claim's gate, or clear it.

        Args:
            claim_uid: UID of the claim.
            problem: _CLOSE_ERROR or _OPEN_ERROR.
            reason: reason of the failure, if the claim has no other.
            error: cause of the problem, "" to clear it.
        """
        record = self.attachments.get(claim_uid)
        if record is None:
            return
        failure = record.failure
        if failure is not None and failure.message.startswith((_CLOSE_ERROR, _OPEN_ERROR)):
            earlier = failure.message.partition(_BEFORE)[2]
            failure = replace(failure, message=earlier) if earlier else None
        if error:
            self.log.error(problem, claim=str(record.claim), reason=error)
            remedy = "make its directory writable, and free space in it; this is retried"
            message = f"{problem}: {error}; {remedy}"
            first = failure.reason if failure else reason
            failure = replace(self._failure(message, failure), reason=first)
        recorded = record.failure.message if record.failure else ""
        if recorded != (failure.message if failure else ""):
            self._swap(record, replace(record, failure=failure))

    def _swap(self, stored: Attachment | None, record: Attachment) -> bool:
        """Write the record unless it changed since `stored`; return whether it was written."""
        try:
            return self.attachments.swap(stored, record)
        except (DranetError, OSError) as error:
            self.log.error("failure not recorded", claim=str(record.claim), reason=str(error))
            return False
