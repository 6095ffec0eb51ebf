"""Attach controller: attaches and detaches the devices of whole pods.

Rules:
1. One job at a time works on a device. A retry waits until the device of the previous sandbox is
   restored. Each job has its own thread, so that a hung kernel call blocks no other job.
2. The gate (CDI spec) is open only in phase ATTACHED; it is closed before the phase changes. A gate
   that cannot be closed does not block a restore, but blocks the next attach.
3. A record with the location of a device is not replaced by the record of another sandbox.
4. The plugin references the network namespace from the attach until the devices are restored.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from dranet_nri.attach.checks.conflicts import (
    check_compatible_children,
    check_no_corrupt_owner,
    check_not_owned,
    check_not_virtual_machine,
)
from dranet_nri.attach.child import OrphanSchedule, remove_orphans
from dranet_nri.attach.desired import devices_to_attach
from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.execution.restorer import Applied
from dranet_nri.attach.execution.watchdog import HUNG_S, Watchdog
from dranet_nri.attach.locks import DeviceLocks, LongWait
from dranet_nri.attach.metrics import PluginMetrics
from dranet_nri.attach.netns_refs import NetnsRefs
from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.attach.sandboxes import Sandboxes, own_netns
from dranet_nri.cdi.edits import EditOptions
from dranet_nri.cdi.gate import Gate
from dranet_nri.component.clock import SystemClock
from dranet_nri.component.log import trace_of
from dranet_nri.component.replace import replace
from dranet_nri.errors import DranetError, NoNetnsError, NotRestoredError, OutdatedError
from dranet_nri.model import (
    Allocation,
    AttachedDevice,
    Attachment,
    NetnsId,
    Phase,
    Pod,
)
from dranet_nri.plan.kernel import Kernel
from dranet_nri.plan.refusals import described
from dranet_nri.settings import VM_HANDLERS

STALE_FILES: Final = "running containers have the old RDMA device files: restart the pod"


@dataclass(slots=True)
class AttachController:
    """Attaches and detaches. One instance, on one event loop.

    Attributes:
        allocation: returns a claim's allocation by UID.
        live: sandboxes that may have devices; the hooks update it.
        wake: requests a reconcile soon.
        vm_handlers: see check_not_virtual_machine.
        hang_timeout_s: seconds after which a kernel call is reported as hung.
        watchdog: runs all kernel work.
        netns_refs: references to the pods' namespaces.
        orphans: schedule of scans for orphaned links.
        on_attached: called with the record of each attached claim.
    """

    kernel: Kernel
    executor: PlanExecutor
    attachments: AttachmentRecords
    gate: Gate
    options: EditOptions
    log: structlog.typing.FilteringBoundLogger
    wake: Callable[[], None]
    clock: SystemClock
    allocation: Callable[[str], Allocation | None]
    on_attached: Callable[[Attachment], None] = lambda _: None
    hang_timeout_s: float = HUNG_S
    vm_handlers: tuple[str, ...] = VM_HANDLERS
    metrics: PluginMetrics = field(default_factory=PluginMetrics)
    live: Sandboxes = field(default_factory=Sandboxes)
    locks: DeviceLocks = field(default_factory=DeviceLocks)
    _jobs: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    watchdog: Watchdog = field(init=False)
    netns_refs: NetnsRefs = field(init=False)
    orphans: OrphanSchedule = field(init=False)

    def __post_init__(self) -> None:
        """Create the watchdog and the namespace references."""
        self.orphans = OrphanSchedule(self.clock.boot)
        self.netns_refs = NetnsRefs(self.kernel, self.attachments, self.clock)
        self.watchdog = Watchdog(
            self.attachments, self.clock, self.log, self.hang_timeout_s, self.metrics.work
        )

    async def attach(self, pod: Pod, claims: tuple[Allocation, ...]) -> None:
        """Attach once; concurrent hooks share the job."""
        while self.is_busy(pod.sandbox_id):
            await asyncio.shield(self._jobs[pod.sandbox_id])
        if self.are_attached(claims, pod):
            return
        task = asyncio.create_task(self._attach(pod, claims), name=f"attach {pod.sandbox_id}")
        self._jobs[pod.sandbox_id] = task
        task.add_done_callback(lambda done: self._forget_job(pod.sandbox_id, done))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(partial(self._log_failure, pod))  # the caller was cancelled
            raise

    def is_busy(self, sandbox_id: str) -> bool:
        """Whether an attach to the sandbox runs."""
        job = self._jobs.get(sandbox_id)
        return job is not None and not job.done()

    async def wait_idle(self, sandbox_id: str) -> None:
        """Wait until no attach to the sandbox runs."""
        while self.is_busy(sandbox_id):
            await asyncio.wait({self._jobs[sandbox_id]})

    def _forget_job(self, sandbox_id: str, task: asyncio.Task[None]) -> None:
        if self._jobs.get(sandbox_id) is task:
            del self._jobs[sandbox_id]
        if not task.cancelled() and task.exception() is not None:
            self.wake()  # There may be no hook that reports the failure.

    def _log_failure(self, pod: Pod, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            reason = described(error)
            self.log.error("attach failed", pod=str(pod), reason=reason, exc_info=trace_of(error))

    async def _attach(self, pod: Pod, claims: tuple[Allocation, ...]) -> None:
        names = self._device_names(claims)
        late = LongWait(self.hang_timeout_s, partial(self._log_wait, pod))
        async with self.metrics.work.attaching(), self.locks.of(names, late):
            # Attached claims are left out: another claim's failure must not undo them.
            claims = tuple(
                allocation for allocation in claims if not self.is_attached(allocation, pod)
            )
            if not claims:
                return
            if pod.sandbox_id not in self.live:
                # Not recorded: this is not a refusal, and the claim may be restored already.
                raise OutdatedError(f"pod {pod}: its sandbox was stopped meanwhile")
            try:
                check_not_owned(pod, claims, self.attachments.all(), self.live)
                check_compatible_children(claims, self.attachments.all())
                check_no_corrupt_owner(claims, self.attachments.blocking(), self.allocation)
                check_not_virtual_machine(pod, claims, self.vm_handlers)
                netns = own_netns(pod, self.kernel)
                await self._supersede(pod, claims)
                for claim in claims:
                    self.gate.close(claim.claim.uid)
                if not self.kernel.hold(netns):
                    raise NoNetnsError(f"pod {pod}: its network namespace {netns.path} is gone")
            except Exception as error:
                self._record_refusal(pod, claims, described(error))
                raise
            await self._run(pod, netns, claims)

    def _log_wait(self, pod: Pod, names: str) -> None:
        reason = f"{names}: another job works on it; see dranet-nri status"
        self.log.warning("waiting for a device", pod=str(pod), reason=reason)

    async def _run(self, pod: Pod, netns: NetnsId, claims: tuple[Allocation, ...]) -> None:
        previous = self._records()
        try:
            with self.gate.fs.freed_later():
                attached = await self.watchdog.run(
                    lambda: self.executor.attach(
                        pod, netns, claims, previous, lambda: pod.sandbox_id in self.live
                    ),
                    tuple(_new_record(pod, netns, claim) for claim in claims),
                )
        except Exception:
            self.netns_refs.release_if_restored(netns)
            raise
        finally:
            self._release_previous(claims, previous, netns)
        for claim, attachment in zip(claims, attached, strict=True):
            if pod.sandbox_id in self.live:  # a later sandbox of the pod must not use the spec
                self.open_gate(claim, attachment)
            self._log_attached(pod, attachment)
            self.on_attached(attachment)

    def _record_refusal(self, pod: Pod, claims: tuple[Allocation, ...], message: str) -> None:
        previous = self._records()
        try:
            self.executor.refuse(pod, claims, previous, message)
        except (DranetError, OSError) as error:
            self.log.error("refusal not recorded", pod=str(pod), reason=str(error))
        self._release_previous(claims, previous)

    def _release_previous(
        self,
        claims: tuple[Allocation, ...],
        previous: Mapping[str, Attachment],
        current: NetnsId | None = None,
    ) -> None:
        """Release namespaces of previous records that the claims no longer use."""
        uids = {claim.claim.uid for claim in claims}
        recorded = {record.netns for uid, record in previous.items() if uid in uids}
        for netns in recorded - {current}:
            self.netns_refs.release_if_restored(netns)

    def _records(self) -> dict[str, Attachment]:
        return {attachment.claim.uid: attachment for attachment in self.attachments.all()}

    def _log_attached(self, pod: Pod, attachment: Attachment) -> None:
        self.log.info(
            "attached",
            pod=str(pod),
            claim=str(attachment.claim),
            devices=[_device_text(device) for device in attachment.devices],
        )
        for device in attachment.devices:
            owner = {"pod": str(pod), "device": device.device.name}
            for warning in device.warnings:
                self.log.warning("attached with a warning", **owner, reason=warning)

    async def _supersede(self, pod: Pod, claims: tuple[Allocation, ...]) -> None:
        """Restore devices of an older sandbox of the pod, or of an older allocation.

        Raises:
            NotRestoredError: a device is not restored yet. The record keeps its location.
        """
        for claim in claims:
            record = self.attachments.get(claim.claim.uid)
            if record is None or not record.owns_devices:
                continue
            if _has_its_devices(record, claim) and record.sandbox_id == pod.sandbox_id:
                continue
            record = await self._detach_locked(record, None)
            if record.is_unrestored:
                raise NotRestoredError(
                    f"claim {claim.claim}: its devices are not restored yet from the pod's"
                    f" previous sandbox {record.sandbox_id}; this is retried"
                )

    def _device_names(self, claims: tuple[Allocation, ...]) -> set[str]:
        """Return the names of the devices in the claims and in their records."""
        names = {device.device.name for claim in claims for device in claim.devices}
        for claim in claims:
            record = self.attachments.get(claim.claim.uid)
            names |= {device.device.name for device in record.devices} if record else set()
        return names

    def open_gate(self, allocation: Allocation, attachment: Attachment) -> None:
        """Write the claim's files. A failure is recorded and retried soon."""
        work = partial(self.gate.open, allocation, attachment, self.options)
        if not self.watchdog.open_gate(allocation.claim.uid, work):
            self.wake()

    # ------------------------------------------------------------------- detach

    async def detach(self, attachment: Attachment, applied: Applied | None = None) -> None:
        """Restore one claim's devices, unless another job attached them meanwhile.

        See PlanExecutor.detach for `applied`; it is called from another thread.
        """
        async with self.locks.of(device.device.name for device in attachment.devices):
            current = self.attachments.get(attachment.claim.uid)
            if current is None or current.sandbox_id != attachment.sandbox_id:
                return  # another sandbox owns the record now
            attached_since = (
                current.phase is Phase.ATTACHED and attachment.phase is not Phase.ATTACHED
            )
            if current.phase is not Phase.RESTORED and not attached_since:
                with self.gate.fs.freed_later():
                    await self._detach_locked(current, applied)

    async def _detach_locked(self, attachment: Attachment, applied: Applied | None) -> Attachment:
        close_error = self.gate.try_close(attachment.claim.uid)
        netns_exists = self.kernel.hold(attachment.netns)
        work = partial(self.executor.detach, attachment, applied, netns_exists=netns_exists)
        try:
            record = await self.metrics.work.detaching(self.watchdog.run(work, (attachment,)))
        finally:  # also if the result could not be recorded
            self.netns_refs.release_if_restored(attachment.netns)
        if record.phase is Phase.RESTORED:
            self.watchdog.clear_fault(record.claim.uid)
        self.watchdog.record_close_error(record.claim.uid, close_error)
        if not close_error:  # else the spec still names these files
            self.gate.remove_metadata(record.claim.uid)
        owner = {"pod": str(record.pod), "claim": str(record.claim)}
        if record.phase is Phase.RESTORED:
            self.log.info("detached", **owner)
            return record
        release = self.netns_refs.release_if_expired if netns_exists else self.netns_refs.release
        release(record.netns)
        reason = record.failure.message if record.failure else "not returned by the kernel yet"
        self.log.warning("device not restored yet", **owner, reason=reason)
        return record

    async def verify(self, attachment: Attachment, allocation: Allocation | None) -> None:
        """Verify an attached claim: namespace referenced, devices in it, gate open.

        A device that is no longer in its pod, or a missing shared RDMA device, closes the gate and
        is attached again. Changed device numbers are written to record and CDI spec. The gate of a
        claim that was released, or has other devices now, is not changed.
        """
        uid = attachment.claim.uid
        if allocation is not None and not _has_its_devices(attachment, allocation):
            allocation = None
        async with self.locks.of(device.device.name for device in attachment.devices):
            if self.attachments.get(uid) != attachment or not self.kernel.hold(attachment.netns):
                return
            current = await self.watchdog.run(
                lambda: self.executor.verify(attachment, allocation), (attachment,)
            )
            if current is not None:
                self.watchdog.clear_fault(uid)
                self._log_changed_files(attachment, current)
                if allocation is not None:
                    self.open_gate(allocation, current)
                return
            close_error = self.gate.try_close(uid)
            self.metrics.work.lost.add()
            owner = {"pod": str(attachment.pod), "claim": str(attachment.claim)}
            self.log.error("device or RDMA device left its pod", **owner, remedy=STALE_FILES)
            self.attachments.put(replace(attachment, phase=Phase.INTENT))
            self.watchdog.record_close_error(uid, close_error)

    async def close_orphaned_gate(self, claim_uid: str) -> None:
        """Close the gate of a claim that is not attached.

        Raises:
            OSError: the gate cannot be closed.
        """
        record = self.attachments.get(claim_uid)
        if record is None or record.phase is not Phase.ATTACHED:
            self.gate.remove(claim_uid)
            self.watchdog.record_close_error(claim_uid, "")

    def _log_changed_files(self, before: Attachment, now: Attachment) -> None:
        pairs = zip(before.devices, now.devices, strict=True)
        if all(previous.char_devices == device.char_devices for previous, device in pairs):
            return
        files = (file for device in now.devices for file in device.char_devices)
        self.log.warning(
            "RDMA device files changed",
            pod=str(now.pod),
            claim=str(now.claim),
            files=[f"{file.path} {file.major}:{file.minor}" for file in files],
            remedy=STALE_FILES,
        )

    async def remove_orphaned_links(self) -> None:
        """Delete child links whose pods are gone.

        Raises:
            KernelError: the kernel refused.
        """

        def aliases_in_use() -> set[str]:
            records = self.attachments.all()
            return {device.child for record in records for device in record.devices}

        deleted = await self.watchdog.run(lambda: remove_orphans(self.kernel, aliases_in_use))
        self.orphans.note_scan()
        if deleted:
            self.log.warning("orphaned links deleted", aliases=deleted)

    def is_attached(self, allocation: Allocation, pod: Pod) -> bool:
        """Whether the claim's devices are configured in this sandbox."""
        record = self.attachments.get(allocation.claim.uid)
        return (
            record is not None
            and record.phase is Phase.ATTACHED
            and record.sandbox_id == pod.sandbox_id
            and record.pod.uid == pod.uid
            and _has_its_devices(record, allocation)
        )

    def are_attached(self, claims: tuple[Allocation, ...], pod: Pod) -> bool:
        """Whether the devices of all claims are configured in this sandbox."""
        return all(self.is_attached(claim, pod) for claim in claims)


def _new_record(pod: Pod, netns: NetnsId, claim: Allocation) -> Attachment:
    """Return a record of the claim for a fault that prevents the executor from writing one."""
    devices = tuple(AttachedDevice(item.request, item.device) for item in devices_to_attach(claim))
    return Attachment(claim.claim, claim.pod, pod.sandbox_id, netns, Phase.FAILED, devices)


def _device_text(device: AttachedDevice) -> str:
    return " as ".join(filter(None, (device.device.name, device.pod_name)))


def _has_its_devices(record: Attachment, claim: Allocation) -> bool:
    """Whether the record has the same devices as the allocation."""
    recorded = {device.identity for device in record.devices}
    return recorded == {device.identity for device in devices_to_attach(claim)}
