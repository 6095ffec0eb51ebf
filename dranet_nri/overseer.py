"""Work in the kernel for claims, and what is said and recorded of a thread that the kernel keeps.

Rule: such a thread is left behind. Its devices stay locked, for it may go on at any time;
everything else goes on without it.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

import structlog

from dranet_nri.errors import DranetError
from dranet_nri.executor import MAX_MESSAGE, Clock
from dranet_nri.heartbeat import Stuck
from dranet_nri.journal import SharedAttachments
from dranet_nri.meter import WorkCounts
from dranet_nri.model import Attachment, Failure
from dranet_nri.threads import Patience, in_thread

STUCK_S: Final = 10.0  # work that takes this long is said to be stuck; usual is milliseconds
STUCK: Final = "NetworkDeviceStuck"  # reason of the failure that is recorded meanwhile

T = TypeVar("T")

Note = tuple[Attachment, Attachment]  # a record without and with what is said of the thread


@dataclass(frozen=True, slots=True)
class Overseer:
    """Has work done on threads of its own."""

    attachments: SharedAttachments
    clock: Clock
    log: structlog.typing.FilteringBoundLogger
    patience_s: float = STUCK_S
    counts: WorkCounts = field(default_factory=partial(WorkCounts, time.monotonic))

    async def done(self, work: Callable[[], T], records: tuple[Attachment, ...]) -> T:
        """Do work on a thread and return what it returns.

        Args:
            work: what to do.
            records: the claims it is for, and what to record of one that has no record of its
                sandbox.
        """
        notes: list[Note] = []

        def tell(step: str) -> None:
            claims = ", ".join(str(each.claim) for each in records)
            since_s = self.clock.boot() - self.patience_s
            self.counts.now_stuck(work, Stuck(since_s, claims, step))
            notes.extend(self._note(records, step))

        try:
            return await in_thread(work, Patience(self.patience_s, tell))
        except asyncio.CancelledError:
            notes.clear()  # The thread is where it was; the next instance reads why.
            raise
        finally:
            self.counts.returned(work)
            for before, note in notes:
                self.log.warning("no longer stuck", pod=str(note.pod), claim=str(note.claim))
                self._swap(note, before)

    def _note(self, records: tuple[Attachment, ...], step: str) -> list[Note]:
        """Say and record that a thread is stuck at the step."""
        message = (
            f"{step} has not returned for {self.patience_s:g} s; its devices are left alone until"
            " it does; the kernel's log names hung tasks"
        )
        notes: list[Note] = []
        for record in records:
            self.log.error(
                "stuck in the kernel", pod=str(record.pod), claim=str(record.claim), reason=message
            )
            seen = self.attachments.get(record.claim.uid)
            before = seen if seen and seen.sandbox_id == record.sandbox_id else record
            note = replace(before, failure=self._failure(message, before.failure))
            if self._swap(seen, note):
                notes.append((before, note))
        return notes

    def _failure(self, message: str, before: Failure | None) -> Failure:
        """Return the failure to record; what went wrong before is still to be read."""
        if before is None:
            return Failure(STUCK, message, self.clock.wall(), 1)
        text = f"{message}; before that: {before.message}"[:MAX_MESSAGE]
        return Failure(STUCK, text, self.clock.wall(), before.count)

    def _swap(self, seen: Attachment | None, record: Attachment) -> bool:
        """Record it unless the thread was quicker; return whether it is recorded."""
        try:
            return self.attachments.swap(seen, record)
        except (DranetError, OSError) as error:
            self.log.error("stuck work not recorded", claim=str(record.claim), reason=str(error))
            return False
