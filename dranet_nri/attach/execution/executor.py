"""Plan executor: runs plans in the kernel and writes the attachment records.

Rules:
1. The record has the *intent* before the first operation and the result after the last one. After a
   restart, the plugin observes the kernel, and completes or undoes the attach.
2. A snapshot is taken once and copied from record to record until the device is verified on the
   host, so that a second attach cannot replace it with an empty one.
3. All devices of a pod are attached, or none. After a failure every device is restored, except
   those that were in the pod before and still are: running containers may use them.
4. A job runs in one thread, which waits for the kernel, its drivers, and the addresses of the pod.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Protocol

from dranet_nri.attach.checks.guard import PublishGuard
from dranet_nri.attach.checks.verify import verify_attached
from dranet_nri.attach.desired import DesiredDevice, carried_over, devices_to_attach, resolve
from dranet_nri.attach.execution.addressing import AddressWait, with_addresses
from dranet_nri.attach.execution.restorer import Applied, Restorer
from dranet_nri.attach.execution.steps import AttachRun, all_ops, late_ops
from dranet_nri.attach.leases import with_leases
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.component.clock import SystemClock
from dranet_nri.component.replace import replace
from dranet_nri.errors import DranetError, KernelError, NoAddressError
from dranet_nri.model import (
    ATTACH_FAILED,
    NOT_READY,
    Allocation,
    AttachedDevice,
    Attachment,
    Failure,
    NetnsId,
    Phase,
    Pod,
)
from dranet_nri.plan.kernel import Kernel, Session
from dranet_nri.plan.optional import Refused
from dranet_nri.plan.refusals import described, stopped_at
from dranet_nri.plan.retry import RestoreResult, message_of, restore_failure
from dranet_nri.settings import DHCP_S, SLAAC_S


class AttachmentSink(Protocol):
    """Store of attachments that survives this process."""

    def put(self, attachment: Attachment) -> None:
        """Replace the claim's record atomically.

        Raises:
            DranetError: the record is invalid, or an unusable one is in its place.
            OSError: the write failed; the old or the new record exists.
        """


@dataclass(frozen=True, slots=True)
class _Undone:
    """State of the devices of an attach that failed, after the undo.

    Attributes:
        unrestored: identities of devices that are not restored.
        failures: why not, without devices that stay in the pod.
    """

    unrestored: frozenset[tuple[str, str]]
    failures: tuple[str, ...]


class PlanExecutor:
    """Attaches and detaches the devices of whole pods."""

    def __init__(
        self,
        kernel: Kernel,
        journal: AttachmentSink,
        clock: SystemClock,
        rdma: RdmaOptions,
        guard: PublishGuard | None = None,
        slaac_s: float = SLAAC_S,
        dhcp_s: float = DHCP_S,
    ) -> None:
        """Run plans in the kernel and write records to the journal.

        Args:
            kernel: runs the operations.
            journal: stores the attachments.
            clock: times of failures and remaining lifetimes.
            rdma: RDMA options of the operator.
            guard: checks which devices may leave the host.
            slaac_s: timeout of the wait for IPv6 addresses, in seconds.
            dhcp_s: timeout of the wait for DHCP leases, in seconds.
        """
        self._kernel = kernel
        self._journal = journal
        self._clock = clock
        self._rdma = rdma
        self._guard = guard or PublishGuard()
        self._slaac_s = slaac_s
        self._dhcp_s = dhcp_s
        self._restorer = Restorer(clock.boot)

    def attach(
        self,
        pod: Pod,
        netns: NetnsId,
        allocations: tuple[Allocation, ...],
        previous: Mapping[str, Attachment],
        is_live: Callable[[], bool] = lambda: True,
    ) -> tuple[Attachment, ...]:
        """Attach every device of the pod's claims, or none.

        Args:
            pod: the sandbox.
            netns: its network namespace, referenced by the caller.
            allocations: the pod's claims.
            previous: claim UID -> last record, of all claims of the node.
            is_live: whether the sandbox is live; called from this thread.

        Returns:
            One record per claim, of phase ATTACHED.

        Raises:
            AttachError: an operation failed; the devices are restored, the failure is recorded.
            RefusedError: the desired state is not possible; nothing was done, the refusal is
                recorded.
            InvalidValueError: a record would be invalid, such as with too many routes; nothing was
                done, the failure is recorded.
        """
        records = tuple(
            self._intent(pod, netns, allocation, previous) for allocation in allocations
        )
        own = {allocation.claim.uid for allocation in allocations}
        others = tuple(
            attachment
            for uid, attachment in previous.items()
            if uid not in own and attachment.netns == netns
        )
        try:
            session = self._kernel.session(netns)
        except KernelError as error:
            stopped = stopped_at("enter the pod's network namespace", error)
            self._fail(records, str(stopped))
            raise stopped from error
        with closing(session):
            return self._attach(session, records, allocations, others, is_live)

    def refuse(
        self,
        pod: Pod,
        allocations: tuple[Allocation, ...],
        previous: Mapping[str, Attachment],
        message: str,
    ) -> None:
        """Record a refusal of the pod's claims; keep records with the location of a device."""
        no_netns = NetnsId(pod.netns_path, 0, 0)
        for allocation in allocations:
            before = previous.get(allocation.claim.uid)
            if before is None or not before.owns_devices:
                self._fail((self._intent(pod, no_netns, allocation, previous),), message)

    def _intent(
        self, pod: Pod, netns: NetnsId, allocation: Allocation, previous: Mapping[str, Attachment]
    ) -> Attachment:
        before = previous.get(allocation.claim.uid)
        same_pod = before is not None and before.pod.uid == pod.uid
        return Attachment(
            claim=allocation.claim,
            pod=allocation.pod,
            sandbox_id=pod.sandbox_id,
            netns=netns,
            phase=Phase.INTENT,
            devices=tuple(carried_over(device, before) for device in devices_to_attach(allocation)),
            attempt=before.attempt + 1 if before else 1,
            failure=before.failure if before and same_pod else None,
        )

    def _attach(
        self,
        session: Session,
        records: tuple[Attachment, ...],
        allocations: tuple[Allocation, ...],
        others: tuple[Attachment, ...],
        is_live: Callable[[], bool],
    ) -> tuple[Attachment, ...]:
        try:
            with session.shortened():
                now_s, scan = self._clock.boot(), self._guard.scan(session)
                targets = resolve(session, records, allocations, others, now_s, self._rdma, scan)
                plans = tuple(target.plan() for target in targets)
                intents = tuple(_with_devices(record, targets) for record in records)
                for record in intents:
                    self._journal.put(record)
        except DranetError as error:
            self._fail(records, described(error))
            raise
        records = intents
        run = AttachRun(session, [[] for _ in targets])
        try:
            with session.shortened():
                run.apply(targets, all_ops(session, targets, plans))
            run.step = "wait for addresses"
            wait = AddressWait(self._dhcp_s, self._clock.sleep, is_live)
            targets = with_leases(session, targets, wait, self._clock.boot())
            wait = replace(wait, limit_s=self._slaac_s)
            targets = with_addresses(session, targets, wait)
            run.apply(targets, late_ops(session, targets))
            run.step = "record the result"
            attached = tuple(
                self._attached(session, record, targets, run.refused) for record in records
            )
            for record in attached:
                self._journal.put(record)
        except DranetError as error:
            undone = self._undo(session, targets)
            reason = NOT_READY if isinstance(error, NoAddressError) else ATTACH_FAILED
            self._fail(records, str(stopped_at(run.step, error)), undone, reason)
            raise stopped_at(run.step, error, undone.failures) from error
        return attached

    def _attached(
        self,
        session: Session,
        record: Attachment,
        targets: tuple[DesiredDevice, ...],
        refused: Sequence[Refused],
    ) -> Attachment:
        devices = tuple(
            target.attached(session, self._rdma, self._clock.sleep, refused_ops)
            for target, refused_ops in zip(targets, refused, strict=True)
            if target.claim_uid == record.claim.uid
        )
        return replace(record, phase=Phase.ATTACHED, devices=devices, failure=None)

    def _undo(self, session: Session, targets: tuple[DesiredDevice, ...]) -> _Undone:
        """Restore the devices in reverse order, except those that the pod had before."""
        unrestored: set[tuple[str, str]] = set()
        failures: list[str] = []
        for target in reversed(targets):
            name = target.record.device.name
            if target.is_in_use:
                unrestored.add(target.record.identity)
                continue
            try:
                result = self._restorer.one(session, target.record)
                text = (
                    "" if result.restored else result.text or f"device {name} is not restored yet"
                )
            except DranetError as error:
                text = described(error)
            if text:
                unrestored.add(target.record.identity)
                failures.append(text)
        return _Undone(frozenset(unrestored), tuple(failures))

    def _fail(
        self,
        records: tuple[Attachment, ...],
        message: str,
        undone: _Undone | None = None,
        reason: str = ATTACH_FAILED,
    ) -> None:
        """Record the failure; with `undone`, also which devices are restored.

        Raises:
            OSError: a record could not be written; the others were.
        """
        unwritten: OSError | None = None
        for record in records:
            devices = record.devices
            if undone is not None:
                devices = tuple(
                    replace(device, restored=device.identity not in undone.unrestored)
                    for device in devices
                )
            count = record.failure.count + 1 if record.failure else 1
            wall_s = self._clock.wall()
            failure = Failure(reason, message_of(message), wall_s, count)
            try:
                self._journal.put(
                    replace(record, phase=Phase.FAILED, devices=devices, failure=failure)
                )
            except OSError as error:
                unwritten = unwritten or error
        if unwritten is not None:
            raise unwritten

    # ----------------------------------------------------------------------- detach

    def detach(
        self,
        attachment: Attachment,
        applied: Applied | None = None,
        *,
        netns_exists: bool,
    ) -> Attachment:
        """Restore the claim's devices on the host.

        Args:
            attachment: the claim's record.
            applied: called before verification and record, unless an operation was refused.
            netns_exists: whether its namespace is referenced; False if it is gone, so that the
                kernel returns hardware and destroys virtual devices.

        Returns:
            The new record: phase RESTORED when every device is verified on the host, otherwise
            DETACHING.
        """
        if attachment.phase is not Phase.DETACHING:
            attachment = replace(attachment, phase=Phase.DETACHING)
            # A full disk must not prevent the restore: the old record has the owner, and after a
            # restart the plugin observes the device first.
            with suppress(DranetError, OSError):
                self._journal.put(attachment)
        try:
            session = self._kernel.session(attachment.netns if netns_exists else None)
        except KernelError as error:
            return self._detached(
                attachment,
                attachment.devices,
                [RestoreResult(restored=False, text=described(error))],
            )
        with closing(session):
            results = self._restorer.all(session, attachment, applied, netns_exists=netns_exists)
        devices = tuple(
            replace(device, restored=result.restored)
            for device, result in zip(attachment.devices, results, strict=True)
        )
        return self._detached(attachment, devices, results)

    def verify(self, attachment: Attachment, allocation: Allocation | None) -> Attachment | None:
        """Check that every device of the record is in its pod's namespace.

        Args:
            attachment: the claim's record, of phase ATTACHED, its namespace referenced.
            allocation: of the same devices; None if it was removed.

        Returns:
            The record with current device numbers; None if a device is missing.

        Raises:
            KernelError: the namespace could not be read.
            OSError: changed numbers could not be recorded.
        """
        with closing(self._kernel.session(attachment.netns)) as session:
            record = verify_attached(session, attachment, allocation, self._rdma)
        if record is not None and record != attachment:
            self._journal.put(record)
        return record

    def _detached(
        self,
        attachment: Attachment,
        devices: tuple[AttachedDevice, ...],
        results: list[RestoreResult],
    ) -> Attachment:
        restored = all(device.restored for device in devices)
        record = replace(
            attachment,
            devices=devices,
            phase=Phase.RESTORED if restored else Phase.DETACHING,
            failure=restore_failure(results, attachment.failure, self._clock.wall()),
        )
        if record != attachment:
            self._journal.put(record)
        return record


def _with_devices(record: Attachment, targets: tuple[DesiredDevice, ...]) -> Attachment:
    own = (target for target in targets if target.claim_uid == record.claim.uid)
    return replace(record, devices=tuple(target.record for target in own))
