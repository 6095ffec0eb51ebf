"""The executor: it runs plans in the kernel and keeps the attachment records.

Rules:
1. The record contains the *intent* before the first operation and the result after the last one.
   Between the two the kernel is the journal: a restart observes, and completes or undoes.
2. A snapshot is taken once and carried from record to record until the device is verified on the
   host, so that a second attach cannot overwrite it with an empty one.
3. All devices of a pod are attached, or none. After a failure every device is restored, except
   those that the pod had before and still has: running containers may use them.
4. All of this runs in one thread, which waits only for the kernel and, briefly, its drivers.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from dranet_nri.attach.addressing import AddressWait, with_addresses
from dranet_nri.attach.desired import DesiredDevice, carried, moved, resolve
from dranet_nri.attach.guard import PublishGuard
from dranet_nri.attach.leases import with_leases
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.attach.restorer import Restorer
from dranet_nri.attach.steps import AttachRun, all_ops, late_ops
from dranet_nri.attach.verify import verify_attached
from dranet_nri.errors import DranetError, KernelError
from dranet_nri.model import (
    Allocation,
    AttachedDevice,
    Attachment,
    Failure,
    NetnsId,
    Phase,
    Pod,
)
from dranet_nri.plan.kernel import Kernel, Session
from dranet_nri.plan.lacking import Refused
from dranet_nri.plan.refusals import described, stopped_at
from dranet_nri.plan.retry import RestoreResult, message_of, restore_failure
from dranet_nri.settings import DHCP_S, SLAAC_S

ATTACH_FAILED: Final = "NetworkDeviceAttachFailed"  # dranet's event reason


class AttachmentSink(Protocol):
    """Store of attachments, durable enough to survive this process."""

    def put(self, attachment: Attachment) -> None:
        """Replace the claim's record. Must be atomic."""


class Clock(Protocol):
    """Two clocks: one for people, one that a clock change can't move. And waiting."""

    def wall(self) -> int:
        """Return Unix seconds."""

    def boot(self) -> int:
        """Return seconds of CLOCK_BOOTTIME."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


@dataclass(frozen=True, slots=True)
class _Undone:
    """State of the devices of an attach that failed, after the undo.

    Attributes:
        away: identities of those that are not restored.
        failures: why, of those that should be.
    """

    away: frozenset[tuple[str, str]]
    failures: tuple[str, ...]


class PlanExecutor:
    """Attach and detach whole pods."""

    def __init__(
        self,
        kernel: Kernel,
        journal: AttachmentSink,
        clock: Clock,
        rdma: RdmaOptions,
        guard: PublishGuard | None = None,
        slaac_s: float = SLAAC_S,
        dhcp_s: float = DHCP_S,
    ) -> None:
        """Use the kernel and write to the journal.

        Args:
            kernel: where operations happen.
            journal: where attachments are recorded.
            clock: for failures and remaining lifetimes.
            rdma: the operator's choices for RDMA devices.
            guard: judges what may leave the host.
            slaac_s: the longest wait for IPv6 addresses, in seconds.
            dhcp_s: the longest wait for DHCP leases, in seconds.
        """
        self._kernel = kernel
        self._journal = journal
        self._clock = clock
        self._rdma = rdma
        self._guard = guard or PublishGuard()
        self._slaac_s = slaac_s
        self._dhcp_s = dhcp_s
        self._way_home = Restorer(clock.boot)

    def attach(
        self,
        pod: Pod,
        netns: NetnsId,
        allocations: tuple[Allocation, ...],
        previous: Mapping[str, Attachment],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> tuple[Attachment, ...]:
        """Bring every device of the pod's claims into its namespace, or none.

        Args:
            pod: the sandbox.
            netns: its namespace, held.
            allocations: the pod's claims.
            previous: the last record of each claim of the node, by claim UID.
            is_wanted: whether the sandbox is live; called from this thread.

        Returns:
            The records, one a claim, all of phase ATTACHED.

        Raises:
            AttachError: an operation failed; what was attached is restored, and recorded.
            RefusedError: the wanted state cannot be had; nothing was done, and recorded.
            InvalidValueError: the record would break a rule, as too many routes do; the same.
        """
        records = tuple(
            self._intent(pod, netns, allocation, previous) for allocation in allocations
        )
        own = {allocation.claim.uid for allocation in allocations}
        beside = tuple(
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
        try:
            return self._attach(session, records, allocations, beside, is_wanted)
        finally:
            session.close()

    def refuse(
        self,
        pod: Pod,
        allocations: tuple[Allocation, ...],
        previous: Mapping[str, Attachment],
        message: str,
    ) -> None:
        """Record why a pod may not have its claims, where no record says where a device is."""
        nowhere = NetnsId(pod.netns_path, 0, 0)
        for allocation in allocations:
            before = previous.get(allocation.claim.uid)
            if before is None or not before.holds_devices:
                self._fail((self._intent(pod, nowhere, allocation, previous),), message)

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
            devices=tuple(carried(device, before) for device in moved(allocation)),
            attempt=before.attempt + 1 if before else 1,
            failure=before.failure if before and same_pod else None,
        )

    def _attach(
        self,
        session: Session,
        records: tuple[Attachment, ...],
        allocations: tuple[Allocation, ...],
        beside: tuple[Attachment, ...],
        is_wanted: Callable[[], bool],
    ) -> tuple[Attachment, ...]:
        try:
            judged, now_s = self._guard.look(session), self._clock.boot()
            targets = resolve(session, records, allocations, beside, now_s, self._rdma, judged)
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
            run.apply(targets, all_ops(session, targets, plans))
            run.step = "wait for addresses"
            wait = AddressWait(self._dhcp_s, self._clock.sleep, is_wanted)
            targets = with_leases(session, targets, wait, self._clock.boot())
            wait = replace(wait, limit_s=self._slaac_s)
            targets = with_addresses(session, targets, wait)
            run.apply(targets, late_ops(session, targets))
            run.step = "record the result"
            done = tuple(
                self._attached(session, record, targets, run.refused) for record in records
            )
            for record in done:
                self._journal.put(record)
        except DranetError as error:
            undone = self._undo(session, targets)
            self._fail(records, str(stopped_at(run.step, error)), undone)
            raise stopped_at(run.step, error, undone.failures) from error
        return done

    def _attached(
        self,
        session: Session,
        record: Attachment,
        targets: tuple[DesiredDevice, ...],
        refused: Sequence[Refused],
    ) -> Attachment:
        devices = tuple(
            target.attached(session, self._rdma, self._clock.sleep, lacking)
            for target, lacking in zip(targets, refused, strict=True)
            if target.claim_uid == record.claim.uid
        )
        return replace(record, phase=Phase.ATTACHED, devices=devices, failure=None)

    def _undo(self, session: Session, targets: tuple[DesiredDevice, ...]) -> _Undone:
        """Plan the restore of every device that the pod did not have before, last first."""
        away: set[tuple[str, str]] = set()
        failures: list[str] = []
        for target in reversed(targets):
            name = target.record.device.name
            if target.is_in_use:
                away.add(target.record.identity)
                continue
            try:
                back = self._way_home.one(session, target.record)
                text = "" if back.home else back.text or f"device {name} is not home yet"
            except DranetError as error:
                text = described(error)
            if text:
                away.add(target.record.identity)
                failures.append(text)
        return _Undone(frozenset(away), tuple(failures))

    def _fail(
        self,
        records: tuple[Attachment, ...],
        message: str,
        undone: _Undone | None = None,
    ) -> None:
        """Record the failure; with undone, also which devices are restored.

        Raises:
            OSError: a record could not be written; the others are.
        """
        unwritten: OSError | None = None
        for record in records:
            devices = record.devices
            if undone is not None:
                devices = tuple(
                    replace(device, home=device.identity not in undone.away) for device in devices
                )
            count = record.failure.count + 1 if record.failure else 1
            wall_s = self._clock.wall()
            failure = Failure(ATTACH_FAILED, message_of(message), wall_s, count)
            try:
                self._journal.put(
                    replace(record, phase=Phase.FAILED, devices=devices, failure=failure)
                )
            except OSError as error:
                unwritten = unwritten or error
        if unwritten is not None:
            raise unwritten

    # ----------------------------------------------------------------------- the way back

    def detach(self, attachment: Attachment, *, netns_alive: bool) -> Attachment:
        """Restore the claim's devices, as far as the kernel lets them.

        Args:
            attachment: the claim's record.
            netns_alive: whether its namespace is held; False where it is gone, so that the
                kernel itself returns hardware and destroys virtual devices.

        Returns:
            The new record: phase HOME when every device is verified on the host, else DETACHING.
        """
        if attachment.phase is not Phase.DETACHING:
            attachment = replace(attachment, phase=Phase.DETACHING)
            # A disk that is full must not keep a NIC in a dying pod: the record there names its
            # owner, and a restart observes the device before it trusts that.
            with suppress(DranetError, OSError):
                self._journal.put(attachment)
        try:
            session = self._kernel.session(attachment.netns if netns_alive else None)
        except KernelError as error:
            return self._detached(
                attachment, attachment.devices, [RestoreResult(home=False, text=described(error))]
            )
        try:
            returns = self._way_home.all(session, attachment, alive=netns_alive)
        finally:
            session.close()
        devices = tuple(
            replace(device, home=back.home)
            for device, back in zip(attachment.devices, returns, strict=True)
        )
        return self._detached(attachment, devices, returns)

    def verify(self, attachment: Attachment, allocation: Allocation | None) -> Attachment | None:
        """Check that every device of the record is in its pod's namespace, which is referenced.

        Args:
            attachment: the claim's record, of phase ATTACHED.
            allocation: of the same devices; None if there is none any more.

        Returns:
            The record, with the numbers that device files have now; None if a device is not there.

        Raises:
            KernelError: the namespace could not be read.
            OSError: other numbers could not be recorded.
        """
        session = self._kernel.session(attachment.netns)
        try:
            record = verify_attached(session, attachment, allocation, self._rdma)
        finally:
            session.close()
        if record is not None and record != attachment:
            self._journal.put(record)
        return record

    def _detached(
        self,
        attachment: Attachment,
        devices: tuple[AttachedDevice, ...],
        returns: list[RestoreResult],
    ) -> Attachment:
        home = all(device.home for device in devices)
        record = replace(
            attachment,
            devices=devices,
            phase=Phase.HOME if home else Phase.DETACHING,
            failure=restore_failure(returns, attachment.failure, self._clock.wall()),
        )
        if record != attachment:
            self._journal.put(record)
        return record


def _with_devices(record: Attachment, targets: tuple[DesiredDevice, ...]) -> Attachment:
    own = (target for target in targets if target.claim_uid == record.claim.uid)
    return replace(record, devices=tuple(target.record for target in own))
