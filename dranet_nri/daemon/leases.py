"""Loop that extends DHCP leases, for each claim when its first lease is due."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Final

from dranet_nri.attach.renewal import LeaseRenewer
from dranet_nri.component.workqueue import WorkQueue
from dranet_nri.dhcp import next_exchange
from dranet_nri.errors import OutdatedError
from dranet_nri.model import Attachment, Lease, Phase
from dranet_nri.plan.refusals import described

RETRY_S: Final = 5.0  # after an error of the kernel or the record


@dataclass(slots=True)
class LeaseLoop:
    """Work queue of claims with leases. Times are seconds of CLOCK_BOOTTIME."""

    renewer: LeaseRenewer
    _queue: WorkQueue[str] = field(default_factory=WorkQueue)
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, record: Attachment) -> None:
        """Note the leases of a claim that was attached."""
        first = min((lease.renew_at for lease in _leases(record)), default=inf)
        self._set(record.claim.uid, first)

    async def run(self) -> None:
        """Extend leases until cancelled, beginning with those of the records."""
        for record in self.renewer.attacher.attachments.all():
            if record.phase is Phase.ATTACHED:
                self.note(record)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._due()
                tasks.create_task(self._renew(self._queue.take()))

    def _set(self, claim_uid: str, at: float) -> None:
        self._queue.set(claim_uid, at)
        self._wakeup.set()

    async def _due(self) -> None:
        """Wait until a claim is due."""
        while (remaining_s := self._queue.due - self._now()) > 0:
            self._wakeup.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self._wakeup.wait(), remaining_s if remaining_s < inf else None
                )

    def _now(self) -> int:
        return self.renewer.attacher.clock.boot()

    async def _renew(self, claim_uid: str) -> None:
        """Extend leases of a claim, and queue it again."""
        at = self._now() + RETRY_S
        log = self.renewer.attacher.log
        try:
            record = await self.renewer.renew(claim_uid)
            now_s = self._now()
            leases = _leases(record) if record and record.phase is Phase.ATTACHED else ()
            late = [lease.address for lease in leases if lease.renew_at <= now_s]
            if late:
                log.warning("no DHCP server answered", claim=claim_uid, addresses=late)
            at = min((next_exchange(lease, now_s) for lease in leases), default=inf)
        except OutdatedError:
            pass  # the detach that follows ends the lease
        except Exception as error:  # noqa: BLE001 - the exchange is retried after any error
            log.warning("lease not extended", claim=claim_uid, reason=described(error))
        self._set(claim_uid, at)


def _leases(record: Attachment) -> tuple[Lease, ...]:
    return tuple(device.lease for device in record.devices if device.lease)
