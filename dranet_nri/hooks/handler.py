"""NRI hook handlers for pods with network devices.

Rules:
1. A pod without an allocation is answered at once, without a task or thread, and is not refused.
2. A failed attach is answered with an error three times per pod, unless the runtime keeps records
   of rejected sandboxes. Otherwise the sandbox is accepted and the gate blocks its containers.
3. While an allocation cannot be read, pods without one are accepted: the gate blocks the containers
   of a claim, and its NICs are attached once the allocation can be read.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from dranet_nri.attach.allocations import PodAllocations
from dranet_nri.attach.controller import AttachController
from dranet_nri.attach.reconciler import Reconciler
from dranet_nri.attach.repairs import Repair, RepairSubject
from dranet_nri.attach.sandboxes import ENDED, has_ended
from dranet_nri.cdi.edits import edits, merged_edits, rdma_warnings
from dranet_nri.cdi.names import mounted_claims, requests_of
from dranet_nri.component.log import trace_of
from dranet_nri.component.threads import soon_on_this_loop
from dranet_nri.hooks.admission import check_attached, check_current_sandbox, claims_of_container
from dranet_nri.model import Allocation, Attachment, Container, Edits, Phase, Pod
from dranet_nri.nri.stub import Answer, Outcome
from dranet_nri.plan.refusals import described

MAX_REJECTIONS: Final = 3


@dataclass(slots=True)
class HookHandler:
    """Handler of the runtime's hooks. One instance, on one event loop."""

    attacher: AttachController
    allocations: PodAllocations
    reconciler: Reconciler
    log: structlog.typing.FilteringBoundLogger
    may_reject: bool = False  # the runtime keeps no records of rejected sandboxes
    rejections: Counter[str] = field(default_factory=Counter)

    def is_unclaimed(self, pod: Pod, container: Container | None = None) -> bool:
        """Whether the hook's pod has no claims, as most pods.

        False while an allocation cannot be read, because it may be of this pod.
        """
        self.allocations.refresh()
        return not (self.allocations.unread or self._has_claims(pod, container))

    def may_refuse(self, pod: Pod, container: Container | None = None) -> bool:
        """Whether the hook may be answered with an error; refusals of a sandbox are counted.

        Always True for a container with claims, which must not start without its devices.
        """
        if not self._has_claims(pod, container):
            return False
        if container is not None:
            return True
        self.rejections[pod.uid] += 1
        return self.may_reject and self.rejections[pod.uid] <= MAX_REJECTIONS

    def answered(self, hook: str, pod: Pod, outcome: Outcome, seconds: float) -> None:
        """Count a hook; one of a pod without claims that was queued counts as noop."""
        counts = self.attacher.metrics.hooks
        if outcome in {"success", "deferred"} and not self.allocations.has(pod.uid):
            outcome = "noop"
        counts.answered(hook, outcome, seconds)
        if hook == "RunPodSandbox" and outcome != "noop":
            # An attach that succeeds ends the pod's rejections; one that fails adds one, also where
            # the runtime must accept the sandbox.
            failed = outcome == "success" and pod.uid in self.rejections
            counts.sandbox("failed" if failed else outcome)

    async def run_pod_sandbox(self, pod: Pod, deadline: float) -> None:  # noqa: ARG002 - the connection enforces the deadline
        """Attach the pod's NICs. A failure is raised if the sandbox may be rejected.

        Raises:
            RefusedError: the pod must not get them; the text has reason and remedy.
            AttachError: the kernel refused an operation; all are undone.
            OSError: the record could not be written.
            Exception: an unexpected error.
        """
        self.allocations.refresh()
        if not self.allocations.has(pod.uid):
            if self.allocations.unread:
                self.attacher.live.add(pod)  # its claims may be read later, and are attached then
            return
        self.attacher.live.add(pod)
        try:
            await self.attacher.attach(pod, self.allocations.of(pod))
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

    async def stop_pod_sandbox(self, pod: Pod, answer: Answer = lambda: None) -> None:
        """Restore the sandbox's devices on the host. The reconciler retries failures soon.

        The answer is given once the kernel has accepted all operations. Verification and record
        follow: until then the record has the device, also after a crash, and no other pod gets it.
        """
        self.attacher.live.remove(pod.sandbox_id)
        await self.attacher.wait_idle(pod.sandbox_id)
        attached = self._attached_to(pod.sandbox_id)
        unapplied = {attachment.claim.uid for attachment in attached}

        def applied(claim_uid: str) -> None:
            unapplied.discard(claim_uid)
            if not unapplied:
                answer()

        await self.reconciler.run_repairs(
            Repair(
                "detach failed",
                RepairSubject.of(attachment),
                partial(
                    self.attacher.detach,
                    attachment,
                    soon_on_this_loop(partial(applied, attachment.claim.uid)),
                ),
            )
            for attachment in attached
        )
        if self._attached_to(pod.sandbox_id) or (attached and self.reconciler.pending()):
            self.attacher.wake()  # another pod may wait for a restored device

    async def remove_pod_sandbox(self, pod: Pod, answer: Answer = lambda: None) -> None:
        """Act as stop_pod_sandbox: a removal may arrive without a stop."""
        await self.stop_pod_sandbox(pod, answer)

    async def create_container(self, pod: Pod, container: Container, deadline: float) -> Edits:  # noqa: ARG002 - as above
        """Return the container's edits; attach the pod's NICs before, if that is pending.

        Raises:
            RefusedError: the container references a claim that is not in its pod.
            AttachError: the kernel refused an operation of the attach.
            OSError: the record could not be written.
        """
        records, directory = self.attacher.attachments, str(self.attacher.gate.metadata_dir)
        uids = claims_of_container(pod, container, records, directory)
        claims = tuple(
            claim
            for claim in self.allocations.of(pod)
            if claim.claim.uid in uids or requests_of(claim, container.name)
        )
        if claims and not self.attacher.are_attached(claims, pod):
            check_current_sandbox(pod, self.attacher.live, self.attacher.kernel)
            self.attacher.live.add(pod)
            await self.attacher.attach(pod, self.allocations.of(pod))
        self._add_missed(pod)
        uids = uids.union(claim.claim.uid for claim in claims)
        check_attached(pod, container, uids, records)
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
        requests = requests_of(claim, container.name)
        devices = tuple(device for device in attachment.devices if device.request in requests)
        for reason in rdma_warnings(devices, container, self.attacher.options.memlock):
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
        self.reconciler.synchronized = True
        self.allocations.request_reconcile()

    async def reconcile(self) -> bool:
        """Run the reconciler, and forget the rejections of pods that are gone.

        Returns:
            Whether repairs are pending, so that the next round must be soon.
        """
        self.allocations.refresh()
        for uid in tuple(self.rejections):
            if not self.allocations.has(uid):
                del self.rejections[uid]
        return await self.reconciler.run()

    def _has_claims(self, pod: Pod, container: Container | None) -> bool:
        """Whether the pod has claims, its sandbox devices, or the container a CDI file."""
        return bool(
            self.allocations.has(pod.uid)
            or self.attacher.is_busy(pod.sandbox_id)
            or self._attached_to(pod.sandbox_id)
            or (container and mounted_claims(container, str(self.attacher.gate.metadata_dir)))
        )

    def _attached_to(self, sandbox_id: str) -> tuple[Attachment, ...]:
        return tuple(
            attachment
            for attachment in self.attacher.attachments.all()
            if attachment.sandbox_id == sandbox_id and attachment.phase is not Phase.RESTORED
        )

    def _add_missed(self, pod: Pod) -> None:
        """Add a live sandbox that no event or list reported, so that its NICs are attached late.

        CRI-O and old containerd do not report one that is created while the plugin connects
        (containerd/nri issue 63). The gate blocks its containers with claims, but the event of
        another container has the sandbox.
        """
        live = self.attacher.live
        if pod.sandbox_id not in live and not live.others(pod) and self.allocations.has(pod.uid):
            live.add(pod)
            self.allocations.request_reconcile()
