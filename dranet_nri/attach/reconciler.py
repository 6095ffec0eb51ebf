"""Reconciler: compares desired and observed state of all pods and claims, and repairs differences.

Rules:
1. A device belongs in a pod while its allocation and a live sandbox exist. It leaves the pod only
   when the sandbox or network namespace is gone, not when the allocation disappears.
2. A hung repair delays the others only briefly (attach/repairs.py).
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from dranet_nri.attach.allocations import PodAllocations
from dranet_nri.attach.controller import AttachController
from dranet_nri.attach.repairs import Repair, RepairRunner, RepairSubject
from dranet_nri.attach.sandboxes import has_ended
from dranet_nri.model import Attachment, Phase, Pod

HANG_WAIT_S: Final = 10.0  # for all hung repairs together; a repair usually takes milliseconds
TURN_S: Final = 0.25  # for one hung repair, before the next one starts


@dataclass(slots=True)
class Reconciler:
    """Reconciler of one node, on one event loop.

    Attributes:
        hang_wait_s: seconds to wait for all hung repairs together.
        turn_s: seconds to wait for one hung repair, before the next one starts.
        synchronized: whether the runtime has listed its sandboxes since the start.
    """

    attacher: AttachController
    allocations: PodAllocations
    log: structlog.typing.FilteringBoundLogger
    hang_wait_s: float = HANG_WAIT_S
    turn_s: float = TURN_S
    synchronized: bool = False
    _repairs: RepairRunner = field(init=False)

    def __post_init__(self) -> None:
        """Create the runner of repairs."""
        self._repairs = RepairRunner(self.log)

    async def run(self) -> bool:
        """Compare desired and observed state of all records and pods, and repair differences.

        Returns:
            Whether repairs are pending, so that the next round must be soon.
        """
        return not await self.run_repairs(self._repairs_due()) or self.pending() > 0

    def _repairs_due(self) -> Iterator[Repair]:
        """Yield the possible repairs, each of which checks whether it is needed.

        Records come before the pods that may wait for their devices, and before the gates that may
        outlive them. The order saves rounds; device locks make any order safe.
        """
        for attachment in self.attacher.attachments.all():
            yield Repair(
                "repair failed",
                RepairSubject.of(attachment),
                partial(self._reconcile_one, attachment),
            )
        for pod in self.attacher.live:
            subject = RepairSubject(str(pod), pod.sandbox_id)
            yield Repair("late attach failed", subject, partial(self._attach_late, pod))
        for uid in self.attacher.gate.claims():
            close = partial(self.attacher.close_orphaned_gate, uid)
            yield Repair("gate not closed", RepairSubject(uid, uid), close)
        if self.attacher.orphans.is_due(self.attacher.attachments.all()):
            host = RepairSubject("host", "host")
            yield Repair("orphaned links not removed", host, self.attacher.remove_orphaned_links)

    def pending(self) -> int:
        """Return the number of unsettled claims, plus one while an allocation cannot be read."""
        return len(self.unsettled()) + bool(self.allocations.unread)

    def unsettled(self) -> tuple[Attachment, ...]:
        """Return the records of claims that are neither restored nor attached with open gates."""
        return tuple(
            attachment
            for attachment in self.attacher.attachments.all()
            if not self._is_settled(attachment)
        )

    def has_rdma(self) -> bool:
        """Whether a pod has a device with RDMA, whose device numbers may change."""
        return any(
            attachment.phase is Phase.ATTACHED
            and any(device.device.rdma_devices for device in attachment.devices)
            for attachment in self.attacher.attachments.all()
        )

    def has_any(self, names: Collection[str]) -> bool:
        """Whether a pod has a device whose PCI function or device file has one of the names."""
        return any(
            device.device.key.pci in names
            or any(file.path.rpartition("/")[2] in names for file in device.char_devices)
            for attachment in self.attacher.attachments.all()
            if attachment.phase is Phase.ATTACHED
            for device in attachment.devices
        )

    async def run_repairs(self, repairs: Iterable[Repair]) -> bool:
        """Run repairs one after the other; return whether all succeeded."""
        return await self._repairs.run(repairs, self.hang_wait_s, self.turn_s)

    def _is_settled(self, record: Attachment) -> bool:
        if record.phase is Phase.FAILED and not record.is_unrestored:
            # The devices are on the host, and a live sandbox may wait for them.
            return self.synchronized and record.sandbox_id not in self.attacher.live
        if record.phase is not Phase.ATTACHED:
            return record.phase is Phase.RESTORED
        is_live = not self.synchronized or record.sandbox_id in self.attacher.live
        allocation = self.allocations.reader.get(record.claim.uid)
        return is_live and (allocation is None or self.attacher.gate.is_open(allocation))

    async def _reconcile_one(self, listed: Attachment) -> None:
        record = self.attacher.attachments.get(listed.claim.uid)
        if record is None:
            return
        uid = record.claim.uid
        if record.phase is Phase.RESTORED or (
            record.phase is Phase.FAILED and not record.is_unrestored
        ):
            if self.allocations.reader.is_missing(uid):
                self.attacher.attachments.remove(uid)
        elif not self.is_desired(record):
            await self.attacher.detach(record)
        elif record.phase is Phase.ATTACHED:
            await self.attacher.verify(record, self.allocations.reader.get(uid))

    def is_desired(self, record: Attachment) -> bool:
        """Whether the sandbox is live: its namespace exists, and a synchronized runtime lists it.

        Without an allocation, attached devices stay, and a partial attach is undone.
        """
        if record.phase is Phase.DETACHING:
            return False
        missing = self.allocations.reader.is_missing(record.claim.uid)
        if record.phase is not Phase.ATTACHED and missing:
            return False
        if self.attacher.kernel.identify(record.netns.path) != record.netns:
            return False
        return not self.synchronized or record.sandbox_id in self.attacher.live

    async def _attach_late(self, pod: Pod) -> None:
        claims = self.allocations.of(pod)
        if pod.sandbox_id not in self.attacher.live or self.attacher.are_attached(claims, pod):
            return
        if has_ended(pod, self.attacher.kernel):
            self.attacher.live.remove(pod.sandbox_id)
        else:
            await self.attacher.attach(pod, claims)
