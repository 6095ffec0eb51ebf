"""NRI hook handlers for pods with network devices.

Rules:
1. A pod without an allocation is answered at once, without a task or thread, and never refused.
2. Desired state = allocation and live sandbox. Devices leave a pod only when its sandbox or network
   namespace is gone; an allocation that disappears is no reason.
3. A failed attach, of whatever cause, is answered with an error three times per pod, and never
   where the runtime keeps records of rejected sandboxes; otherwise the sandbox is accepted and the
   gate blocks its containers.
4. While an allocation cannot be read, pods that are not known to have one are accepted: the gate
   blocks the containers of a claim, and its NICs are attached once the allocation can be read.
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

HANG_WAIT_S: Final = 10.0  # for all repairs that hang; usual ones take milliseconds
TURN_S: Final = 0.25  # for one of them, before the next one has its turn
MAX_REJECTIONS: Final = 3


@dataclass(slots=True)
class HookHandler:
    """Handler of the runtime's events. One instance, on one event loop."""

    attacher: AttachController
    allocations: AllocationReader
    log: structlog.typing.FilteringBoundLogger
    news: Callable[[], None]
    boot_id: str
    synchronized: bool = False
    may_reject: bool = False  # the runtime forgets the sandboxes that we reject
    patience_s: float = HANG_WAIT_S
    moment_s: float = TURN_S
    rejections: Counter[str] = field(default_factory=Counter)
    _unread: str = ""  # why we may not know every allocation
    _repairs: RepairRunner = field(init=False)

    def __post_init__(self) -> None:
        """Make the runner of repairs."""
        self._repairs = RepairRunner(self.log)

    # ------------------------------------------------------------------- hooks

    def is_unclaimed(self, pod: Pod, container: Container | None = None) -> bool:
        """Whether the hook is about a pod without claims: the path of every ordinary pod.

        It is not known where an allocation could not be read: it may be this pod's.
        """
        self.refresh()
        return not (self._unread or self._is_ours(pod, container))

    def may_refuse(self, pod: Pod, container: Container | None = None) -> bool:
        """Whether the hook may be answered with an error; a sandbox's refusals are counted.

        A container with claims always: it must not start without what it lists.
        """
        if not self._is_ours(pod, container):
            return False
        if container is not None:
            return True
        self.rejections[pod.uid] += 1
        return self.may_reject and self.rejections[pod.uid] <= MAX_REJECTIONS

    async def run_pod_sandbox(self, pod: Pod, deadline: float) -> None:  # noqa: ARG002 - the answer's time is the connection's business
        """Attach the pod's NICs. Where a sandbox may be rejected, a failure is raised.

        Raises:
            RefusedError: the pod may not have them; the text says why and what to do.
            AttachError: the kernel refused; everything is undone.
            OSError: it could not be recorded.
            Exception: an unexpected error.
        """
        self.refresh()
        if not self.has_claims(pod.uid):
            if self._unread:
                self.attacher.live.enter(pod)  # It may have claims, and is then attached late.
            return
        self.attacher.live.enter(pod)
        try:
            await self.attacher.attach(pod, self._claims(pod))
        except Exception as error:
            if self.may_refuse(pod):
                raise
            self.attacher.meter.hooks.refused(error)
            self.log.warning(
                "attach failed, accepting the sandbox; the gate holds its containers",
                pod=str(pod),
                reason=described(error),
                exc_info=trace_of(error),
            )
        else:
            del self.rejections[pod.uid]

    async def stop_pod_sandbox(self, pod: Pod) -> None:
        """Restore the sandbox's devices on the host. What cannot be done now is repaired soon."""
        self.attacher.live.leave(pod.sandbox_id)
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
            self.attacher.wake()  # Another pod may wait for what came home.

    async def remove_pod_sandbox(self, pod: Pod) -> None:
        """Do what stop_pod_sandbox does: a removal may come without a stop."""
        await self.stop_pod_sandbox(pod)

    async def create_container(self, pod: Pod, container: Container, deadline: float) -> Edits:  # noqa: ARG002 - as above
        """Return what the container gets; attach first if that is still to be done.

        Raises:
            RefusedError: it lists a claim that is not in its pod.
            AttachError: the kernel refused to attach it.
            OSError: it could not be recorded.
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
            self.attacher.live.enter(pod)
            await self.attacher.attach(pod, self._claims(pod))
        self._enter_missed(pod)
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
        """Take the runtime's list of pods as the truth; the difference is repaired right after.

        The list includes sandboxes that have ended; a pod has one live sandbox. A sandbox that is
        being attached to is kept, because the list may be older, unless it has ended or the list
        has a newer sandbox of the same pod.
        """
        live, records = self.attacher.live, self.attacher.attachments.all()
        busy = [pod for pod in live if self.attacher.is_busy(pod.sandbox_id)]
        live.take(
            (pod for pod in pods if not has_ended(pod, self.attacher.kernel)),
            {record.sandbox_id for record in records if record.phase not in ENDED},
        )
        for pod in busy:
            if not (live.others(pod) or has_ended(pod, self.attacher.kernel)):
                live.enter(pod)
        self.synchronized = True
        self.news()

    def refresh(self) -> None:
        """Take in what changed in the allocations; what can't be read now, as soon as it can."""
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
            self.news()
        self._unread = unread

    # ------------------------------------------------------------------- reconcile

    async def reconcile(self) -> bool:
        """Compare wanted and observed for every record and pod, and run the difference.

        Returns:
            Whether something is left to be repaired, so that the caller comes back soon.
        """
        self.refresh()
        for uid in tuple(self.rejections):
            if not self.has_claims(uid):
                del self.rejections[uid]
        return not await self._done(self._differences()) or self.pending() > 0

    def _differences(self) -> Iterator[Repair]:
        """Yield what may have to be repaired, by what is known when it is its turn.

        Records come before the pods that may wait for what they have, and before the gates that
        may outlive them. That saves rounds; safe is any order, for devices are locked.
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
        yield Repair("orphaned links not removed", strays, self.attacher.remove_strays)

    def pending(self) -> int:
        """Return the number of claims neither restored nor attached with open gates, or unknown."""
        return len(self.unsettled()) + bool(self._unread)

    def unsettled(self) -> tuple[Attachment, ...]:
        """Return the records of claims that are neither restored nor attached with open gates."""
        return tuple(
            attachment
            for attachment in self.attacher.attachments.all()
            if not self._is_settled(attachment)
        )

    def has_rdma(self) -> bool:
        """Whether a pod has a device with RDMA, whose device files can change their numbers."""
        return any(
            attachment.phase is Phase.ATTACHED
            and any(device.device.rdma_devices for device in attachment.devices)
            for attachment in self.attacher.attachments.all()
        )

    def has_any(self, names: Collection[str]) -> bool:
        """Whether a pod has a device whose PCI function, or one of whose files, has such a name."""
        return any(
            device.device.key.pci in names
            or any(file.path.rpartition("/")[2] in names for file in device.char_devices)
            for attachment in self.attacher.attachments.all()
            if attachment.phase is Phase.ATTACHED
            for device in attachment.devices
        )

    async def _done(self, repairs: Iterable[Repair]) -> bool:
        return await self._repairs.done(repairs, self.patience_s, self.moment_s)

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
        elif not self.is_wanted(record):
            await self.attacher.detach(record)
        elif record.phase is Phase.ATTACHED:
            await self.attacher.verify(record, self.allocations.get(uid))

    def is_wanted(self, record: Attachment) -> bool:
        """Whether the sandbox is live: its namespace is, and the runtime, once asked, lists it.

        What is attached stays without its allocation; what is half done is restored.
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
            self.attacher.live.leave(pod.sandbox_id)
        else:
            await self.attacher.attach(pod, claims)

    async def _close_stray_gate(self, claim_uid: str) -> None:
        self.attacher.close_stray_gate(claim_uid)

    # ------------------------------------------------------------------- questions

    def has_claims(self, pod_uid: str) -> bool:
        """Whether there are records for the pod, usable or not."""
        return bool(self.allocations.by_pod(pod_uid) or self.allocations.broken_of_pod(pod_uid))

    def _is_ours(self, pod: Pod, container: Container | None) -> bool:
        """Whether the pod has claims, its sandbox may have devices, or the container a file."""
        return bool(
            self.has_claims(pod.uid)
            or self.attacher.is_busy(pod.sandbox_id)
            or self._attached_to(pod.sandbox_id)
            or (container and carried_claims(container, str(self.attacher.gate.metadata_dir)))
        )

    def _claims(self, pod: Pod) -> tuple[Allocation, ...]:
        """Return the pod's claims. Of a pod without any, nothing is opened."""
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
        return handed  # adminAccess works from the host's namespace

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

    def _enter_missed(self, pod: Pod) -> None:
        """Take in a sandbox that neither an event nor a list named: its pod's NICs come late.

        CRI-O and old containerd lose one that is made while we connect (containerd/nri issue 63),
        and the gate keeps from us the containers that list a claim; another one may tell of it.
        """
        live = self.attacher.live
        if pod.sandbox_id not in live and not live.others(pod) and self.has_claims(pod.uid):
            live.enter(pod)
            self.news()
