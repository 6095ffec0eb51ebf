"""Status controller: reports the node's records as claim status and Events.

The plugin has no credentials, so the shim reports its records. They are on the server within
seconds; transient states are not written.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from dra_shim.kubeapi import ApiClient
from dra_shim.prepare import ClaimPrepared, PodSuperseded
from dra_shim.prepare import Notice as PrepareNotice
from dra_shim.settings.common import StatePaths
from dra_shim.status import notices
from dra_shim.status.claim_writer import ClaimWriter
from dra_shim.status.reasons import of_notice
from dra_shim.status.record_watch import follow
from dra_shim.status.recorder import EventRecorder
from dra_shim.status.summary import ClaimRecords, status_update
from dranet_nri.component.clock import REAL, LoopClock, Wakeup
from dranet_nri.component.replace import replace
from dranet_nri.component.workqueue import WorkQueue
from dranet_nri.model import ObjectRef


@dataclass(slots=True)
class _Claim:
    """A claim with a record.

    Attributes:
        transition_since: start of the transition; inf outside one.
    """

    claim: ObjectRef
    claim_records: ClaimRecords
    transition_since: float = inf


class StatusController:
    """Controller of the status of one node's claims; `run` may be called again after it ended."""

    def __init__(
        self,
        api: ApiClient,
        state: StatePaths,
        node: str,
        notify: notices.Notify,
        timing: LoopClock = REAL,
    ) -> None:
        """Create the controller; `run` reports.

        Args:
            api: the API client.
            state: locations of the records.
            node: name of the node.
            notify: called with each notice; must not raise.
            timing: clock and timers.
        """
        self._state = state
        self._timing = timing
        self._writer = ClaimWriter(api, node, notify, timing)
        self._recorder = EventRecorder(api, node, notify, timing)
        self._wakeup = Wakeup(timing)
        self._claims: dict[str, _Claim] = {}
        self._delays = WorkQueue[str]()  # claim UIDs to check again
        self._superseded: dict[str, PodSuperseded] = {}  # by claim UID

    def notify(self, notice: PrepareNotice) -> None:
        """Post Events for a notice of Prepare, and reconcile its claim."""
        self._recorder.add(of_notice(notice, self._timing.wall()))
        if isinstance(notice, ClaimPrepared) and notice.document:
            self._writer.observed(notice.claim, notice.document)
        if isinstance(notice, PodSuperseded):
            self._superseded[notice.claim.uid] = notice
            entry = self._claims.get(notice.claim.uid)
            if entry is not None:
                self._reconcile(entry)
                self._wakeup.wake()

    async def run(self) -> None:
        """Report until cancelled.

        Raises:
            StateError: inotify is not available.
            OSError: a directory of records cannot be read.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._writer.run(), name="status: claims")
                tasks.create_task(self._recorder.run(), name="status: events")
                tasks.create_task(self._recheck(), name="status: delays")
                await follow(self._state, tuple(self._claims), self._changed, self._timing)
        except ExceptionGroup as group:
            raise group.exceptions[0] from group

    def _changed(self, changed: Mapping[str, ClaimRecords]) -> None:
        for uid, claim_records in changed.items():
            record = claim_records.allocation or claim_records.attachment
            entry = self._claims.get(uid)
            if record is not None and entry is None:
                entry = self._claims[uid] = _Claim(record.claim, claim_records)
            if entry is None:
                continue
            entry.claim_records = claim_records
            self._reconcile(entry)
            if record is None:
                del self._claims[uid]
                self._superseded.pop(uid, None)
        self._wakeup.wake()

    def _reconcile(self, entry: _Claim) -> None:
        now, claim_records = self._timing.clock(), self._with_waiting(entry)
        entry.transition_since = (
            min(entry.transition_since, now) if claim_records.in_transition else inf
        )
        update = status_update(
            claim_records, max(0.0, now - entry.transition_since), self._timing.wall()
        )
        self._delays.set(entry.claim.uid, entry.transition_since + update.recheck_s)
        self._recorder.add(update.events)
        if update.devices is not None:
            self._writer.enqueue(entry.claim, update.devices, update.delay_s)

    def _with_waiting(self, entry: _Claim) -> ClaimRecords:
        """Return the records with the pods that wait for the claim of the recorded pod."""
        superseded = self._superseded.get(entry.claim.uid)
        allocation = entry.claim_records.allocation
        if superseded is None or allocation is None or allocation.pod.uid != superseded.pod.uid:
            return entry.claim_records
        return replace(entry.claim_records, waiting=superseded.waiting)

    async def _recheck(self) -> None:
        while True:
            await self._wakeup.until(lambda: self._delays.due)
            self._reconcile(self._claims[self._delays.take()])
