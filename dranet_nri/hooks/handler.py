"""NRI hook handlers for pods with network devices.

Rules:
1. A pod without an allocation is answered at once, without a task or thread, and is not refused.
2. A device belongs in a pod while its allocation and a live sandbox exist. It leaves the pod only
   when the sandbox or network namespace is gone, not when the allocation disappears.
3. A failed attach is answered with an error three times per pod, unless the runtime keeps records
   of rejected sandboxes. Otherwise the sandbox is accepted and the gate blocks its containers.
4. While an allocation cannot be read, pods without a known one are accepted: the gate blocks the
   containers of a claim, and its NICs are attached once the allocation can be read.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from dranet_nri.attach.controller import AttachController
from dranet_nri.attach.desired import moved
from dranet_nri.attach.repairs import Repair, RepairRunner, RepairSubject
from dranet_nri.attach.sandboxes import ENDED, has_ended
from dranet_nri.cdi.edits import edits, merged_edits, rdma_warnings
from dranet_nri.cdi.names import carried_claims, listed
from dranet_nri.component.log import trace_of
from dranet_nri.errors import OutdatedError, UnusableRecordError
from dranet_nri.hooks.admission import carried, refuse_outlived, refuse_unattached
from dranet_nri.model import Allocation, Attachment, Container, Edits, Phase, Pod
from dranet_nri.plan.refusals import described
from dranet_nri.state.reader import AllocationReader

HANG_WAIT_S: Final = 10.0  # for all hung repairs together; a repair usually takes milliseconds
TURN_S: Final = 0.25  # for one hung repair, before the next one starts
MAX_REJECTIONS: Final = 3


@dataclass(slots=True)
class HookHandler:
    """Handler of the runtime's hooks. One instance, on one event loop."""

    attacher: AttachController
    allocations: AllocationReader
    log: structlog.typing.FilteringBoundLogger
    request_reconcile: Callable[[], None]
    boot_id: str
    synchronized: bool = False
    may_reject: bool = False  # the runtime keeps no records of rejected sandboxes
    hang_wait_s: float = HANG_WAIT_S
    turn_s: float = TURN_S
    rejections: Counter[str] = field(default_factory=Counter)
    _unread: str = ""  # why an allocation cannot be read, "" if all can
    _repairs: RepairRunner = field(init=False)

    def __post_init__(self) -> None:
        """Create the runner of repairs."""
        self._repairs = RepairRunner(self.log)

    # ------------------------------------------------------------------- hooks

    def is_unclaimed(self, pod: Pod, container: Container | None = None) -> bool:
        """Whether the hook's pod has no claims, the path of ordinary pods.

        False while an allocation cannot be read, because it may be this pod's.
        """
        self.refresh()
        return not (self._unread or self._is_ours(pod, container))

    def may_refuse(self, pod: Pod, container: Container | None = None) -> bool:
        """Whether the hook may be answered with an error; refusals of a sandbox are counted.

        Always True for a container with claims, which must not start without its devices.
        """
        if not self._is_ours(pod, container):
            return False
        if container is not None:
            return True
        self.rejections[pod.uid] += 1
        return self.may_reject and self.rejections[pod.uid] <= MAX_REJECTIONS

    async def run_pod_sandbox(self, pod: Pod, deadline: float) -> None:  # noqa: ARG002 - the connection enforces the deadline
        """Attach the pod's NICs. A failure is raised if the sandbox may be rejected.

        Raises:
            RefusedError: the pod must not get them; the text has reason and remedy.
            AttachError: the kernel refused an operation; all are undone.
            OSError: the record could not be written.
            Exception: an unexpected error.
        """
        self.refresh()
        if not self.has_claims(pod.uid):
            if self._unread:
                self.attacher.live.add(pod)  # Claims that are found later are attached late.
            return
        self.attacher.live.add(pod)
        try:
            await self.attacher.attach(pod, self._claims(pod))
        except Exception as error:
            if self.may_refuse(pod):
                raise
            self.attacher.metrics.hooks.refused(error)
            self.log.warning(
                "attach failed, sandbox accepted; the gate blocks its containers",
                pod=str(pod),
                reason=described(error),
                exc_info=trace_of(error),
            )
        else:
            del self.rejections[pod.uid]

    async def stop_pod_sandbox(self, pod: Pod) -> None:
        """Restore the sandbox's devices on the host. The reconciler retries failures soon."""
        self.attacher.live.remove(pod.sandbox_id)
        await self.attacher.idle(pod.sandbox_id)
        held = self._attached_to(pod.sandbox_id)
        await self._done(
            Repair(
                "detach failed",
                RepairSubject.of(attachment),
                partial(self.attacher.detach, attachment),
            )
            for attachment in held
        )
        if self._attached_to(pod.sandbox_id) or (held and self.pending()):
            self.attacher.wake()  # Another pod may wait for a restored device.

    async def remove_pod_sandbox(self, pod: Pod) -> None:
        """Act as stop_pod_sandbox: a removal may arrive without a stop."""
        await self.stop_pod_sandbox(pod)

    async def create_container(self, pod: Pod, container: Container, deadline: float) -> Edits:  # noqa: ARG002 - as above
        """Return the container's edits; attach the pod's NICs before, if that is pending.

        Raises:
            RefusedError: the container references a claim that is not in its pod.
            AttachError: the kernel refused an operation of the attach.
            OSError: the record could not be written.
        """
        records, directory = self.attacher.attachments, str(self.attacher.gate.metadata_dir)
        uids = carried(pod, container, records, directory)
        claims = tuple(
            claim
            for claim in self._claims(pod)
            if claim.claim.uid in uids or listed(claim, container.name)
        )
        if claims and not self.attacher.are_attached(claims, pod):
            refuse_outlived(pod, self.attacher.live, self.attacher.kernel)
            self.attacher.live.add(pod)
            await self.attacher.attach(pod, self._claims(pod))
        self._add_missed(pod)
        uids = uids.union(claim.claim.uid for claim in claims)
        refuse_unattached(pod, container, uids, records)
        merged = Edits()
        for claim in claims:
            attachment = records.get(claim.claim.uid)
            assert attachment is not None
            self._report_rdma(claim, attachment, pod, container)
            merged = merged_edits(
                merged, edits(claim, attachment, container, directory, self.attacher.options)
            )
        return merged

    def _report_rdma(
        self, claim: Allocation, attachment: Attachment, pod: Pod, container: Container
    ) -> None:
        requests = listed(claim, container.name)
        given = tuple(device for device in attachment.devices if device.request in requests)
        for reason in rdma_warnings(given, container, self.attacher.options.memlock):
            self.log.warning(
                "container may lack RDMA", pod=str(pod), container=container.name, reason=reason
            )

    async def synchronize(self, pods: tuple[Pod, ...]) -> None:
        """Replace the live sandboxes by the runtime's list, and request a reconcile.

        The list includes ended sandboxes; a pod has one live sandbox. A sandbox with a running
        attach is kept, because the list may be older, unless it has ended or the list has another
        sandbox of the pod.
        """
        live, records = self.attacher.live, self.attacher.attachments.all()
        busy = [pod for pod in live if self.attacher.is_busy(pod.sandbox_id)]
        live.replace_all(
            (pod for pod in pods if not has_ended(pod, self.attacher.kernel)),
            {record.sandbox_id for record in records if record.phase not in ENDED},
        )
        for pod in busy:
            if not (live.others(pod) or has_ended(pod, self.attacher.kernel)):
                live.add(pod)
        self.synchronized = True
        self.request_reconcile()

    def refresh(self) -> None:
        """Read changed allocations; an unreadable one is retried at each call."""
        changed, unread = False, ""
        try:
            changed = bool(self.allocations.refresh())
            unread = "; ".join(str(broken.error) for broken in self.allocations.unread)
        except Exception as error:  # noqa: BLE001 - one file must not stop a node
            unread = described(error)
        if unread and not self._unread:
            self.log.error(
                "allocations cannot be read, pods may get their NICs late", reason=unread
            )
            self.attacher.wake()
        if changed or (self._unread and not unread):
            self.request_reconcile()
        self._unread = unread

    # ------------------------------------------------------------------- reconcile

    async def reconcile(self) -> bool:
        """Compare desired and observed state of all records and pods, and repair differences.

        Returns:
            Whether repairs are pending, so that the next round must be soon.
        """
        self.refresh()
        for uid in tuple(self.rejections):
            if not self.has_claims(uid):
                del self.rejections[uid]
        return not await self._done(self._repairs_due()) or self.pending() > 0

    def _repairs_due(self) -> Iterator[Repair]:
        """Yield possible repairs, each by the state at its turn.

        Records precede the pods that may wait for their devices, and the gates that may outlive
        them. The order saves rounds; device locks make any order safe.
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
            close = partial(self._close_stray_gate, uid)
            yield Repair("gate not closed", RepairSubject(uid, uid), close)
        strays = RepairSubject("host", "host")
        yield Repair("orphaned links not removed", strays, self.attacher.remove_orphaned_links)

    def pending(self) -> int:
        """Return the number of unsettled claims, plus one while an allocation cannot be read."""
        return len(self.unsettled()) + bool(self._unread)

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

    async def _done(self, repairs: Iterable[Repair]) -> bool:
        return await self._repairs.done(repairs, self.hang_wait_s, self.turn_s)

    def _is_settled(self, record: Attachment) -> bool:
        if (
            record.phase is Phase.FAILED and not record.is_away
        ):  # on the host; a pod may wait for it
            return self.synchronized and record.sandbox_id not in self.attacher.live
        if record.phase is not Phase.ATTACHED:
            return record.phase is Phase.HOME
        lives = not self.synchronized or record.sandbox_id in self.attacher.live
        allocation = self.allocations.get(record.claim.uid)
        return lives and (allocation is None or self.attacher.gate.is_open(allocation))

    async def _reconcile_one(self, seen: Attachment) -> None:
        record = self.attacher.attachments.get(seen.claim.uid)
        if record is None:
            return
        uid = record.claim.uid
        if record.phase is Phase.HOME or (record.phase is Phase.FAILED and not record.is_away):
            if self.allocations.is_missing(uid):
                self.attacher.attachments.remove(uid)
        elif not self._is_wanted(record):
            await self.attacher.detach(record)
        elif record.phase is Phase.ATTACHED:
            await self.attacher.verify(record, self.allocations.get(uid))

    def _is_wanted(self, record: Attachment) -> bool:
        """Whether the sandbox is live: its namespace exists, and a synchronized runtime lists it.

        Without an allocation, attached devices stay, and a partial attach is undone.
        """
        if record.phase is Phase.DETACHING:
            return False
        if record.phase is not Phase.ATTACHED and self.allocations.is_missing(record.claim.uid):
            return False
        if self.attacher.kernel.identify(record.netns.path) != record.netns:
            return False
        return not self.synchronized or record.sandbox_id in self.attacher.live

    async def _attach_late(self, pod: Pod) -> None:
        claims = self._claims(pod)
        if pod.sandbox_id not in self.attacher.live or self.attacher.are_attached(claims, pod):
            return
        if has_ended(pod, self.attacher.kernel):
            self.attacher.live.remove(pod.sandbox_id)
        else:
            await self.attacher.attach(pod, claims)

    async def _close_stray_gate(self, claim_uid: str) -> None:
        self.attacher.close_orphaned_gate(claim_uid)

    # ------------------------------------------------------------------- queries

    def has_claims(self, pod_uid: str) -> bool:
        """Whether the pod has allocation records, usable or not."""
        return bool(self.allocations.by_pod(pod_uid) or self.allocations.broken_of_pod(pod_uid))

    def _is_ours(self, pod: Pod, container: Container | None) -> bool:
        """Whether the pod has claims, its sandbox devices, or the container a CDI file."""
        return bool(
            self.has_claims(pod.uid)
            or self.attacher.is_busy(pod.sandbox_id)
            or self._attached_to(pod.sandbox_id)
            or (container and carried_claims(container, str(self.attacher.gate.metadata_dir)))
        )

    def _claims(self, pod: Pod) -> tuple[Allocation, ...]:
        """Return the pod's claims; for a pod without claims no file is opened."""
        self.refresh()
        broken = self.allocations.broken_of_pod(pod.uid)
        if broken:
            raise UnusableRecordError(
                f"pod {pod}: its allocation record cannot be used: {broken[0].error};"
                " see dranet-nri status, then delete the pod so that it is recorded anew"
            )
        claims = self.allocations.by_pod(pod.uid)
        for claim in claims:
            if claim.boot_id and claim.boot_id != self.boot_id:
                raise OutdatedError(
                    f"pod {pod}: claim {claim.claim} was allocated before the node was booted;"
                    " kubelet prepares it anew; without kubelet, run dra-shim allocate once more"
                )
        handed = tuple(claim for claim in claims if moved(claim))
        if handed == claims or not self._is_on_host_network(pod):
            return claims
        return handed  # adminAccess needs no pod namespace

    def _is_on_host_network(self, pod: Pod) -> bool:
        kernel = self.attacher.kernel
        netns = kernel.identify(pod.netns_path) if pod.netns_path else None
        return not pod.netns_path or (netns is not None and kernel.is_host(netns))

    def _attached_to(self, sandbox_id: str) -> tuple[Attachment, ...]:
        return tuple(
            attachment
            for attachment in self.attacher.attachments.all()
            if attachment.sandbox_id == sandbox_id and attachment.phase is not Phase.HOME
        )

    def _add_missed(self, pod: Pod) -> None:
        """Add a live sandbox that no event or list reported, so that its NICs are attached late.

        CRI-O and old containerd do not report one that is created while the plugin connects
        (containerd/nri issue 63). The gate blocks its containers with claims, but the event of
        another container has the sandbox.
        """
        live = self.attacher.live
        if pod.sandbox_id not in live and not live.others(pod) and self.has_claims(pod.uid):
            live.add(pod)
            self.request_reconcile()
