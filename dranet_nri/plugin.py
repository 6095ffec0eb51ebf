"""The hooks: what each NRI event means for the pods that claim NICs.

Rules:
1. A pod without an allocation is answered at once, without a task or a thread.
2. Wanted = allocation and live sandbox. Devices leave a pod only when its sandbox or namespace
   is gone; an allocation that disappears is no reason.
3. A failed attach is answered with an error three times a pod, because each rejection costs the
   runtime a sandbox record; then the sandbox is accepted and the gate holds its containers.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from dranet_nri.attacher import Attacher, is_away
from dranet_nri.edits import edits, holder_of, listed
from dranet_nri.errors import DranetError, RefusedError
from dranet_nri.model import Allocation, Attachment, Container, Edits, Phase, Pod
from dranet_nri.state.reader import AllocationReader

MAX_REJECTIONS: Final = 3  # containerd before 2.2.6 and 2.3.3 leaks a sandbox for each


@dataclass(slots=True)
class Plugin:
    """What the runtime's events do. One instance, on one event loop."""

    attacher: Attacher
    allocations: AllocationReader
    log: structlog.typing.FilteringBoundLogger
    news: Callable[[], None]
    synchronized: bool = False
    rejections: Counter[str] = field(default_factory=Counter)

    # ------------------------------------------------------------------- hooks

    def is_unclaimed(self, pod: Pod) -> bool:
        """Whether the pod has nothing to do with us: the path of every ordinary pod.

        While any claim is attached, a container of another pod may carry that claim's file, and
        only its hook can tell; so the answer is True on nodes without attached claims alone.
        """
        self.allocations.refresh()
        return not (
            self.allocations.by_pod(pod.uid)
            or self.allocations.broken_of_pod(pod.uid)
            or self.attacher.attachments.all()
        )

    async def run_pod_sandbox(self, pod: Pod, deadline: float) -> None:  # noqa: ARG002 - the answer's time is the connection's business
        """Attach the pod's NICs.

        Raises:
            RefusedError: the pod may not have them; the text says why and what to do.
            AttachError: the kernel refused; everything is undone.
        """
        claims = self._claims(pod)
        if not claims:
            return
        self.attacher.live[pod.sandbox_id] = pod
        try:
            await self.attacher.attach(pod, claims)
        except DranetError as error:
            self.attacher.wake()
            self.rejections[pod.uid] += 1
            if self.rejections[pod.uid] <= MAX_REJECTIONS:
                raise
            self.log.warning(
                "attach failed, accepting the sandbox; the gate holds its containers",
                pod=str(pod),
                reason=str(error),
            )
        else:
            del self.rejections[pod.uid]

    async def stop_pod_sandbox(self, pod: Pod) -> None:
        """Bring the sandbox's devices home. What can't be done now is repaired later."""
        self.attacher.live.pop(pod.sandbox_id, None)
        for attachment in self._attached_to(pod.sandbox_id):
            await self.attacher.detach(attachment)

    async def remove_pod_sandbox(self, pod: Pod) -> None:
        """Do what stop_pod_sandbox does: a removal may come without a stop."""
        await self.stop_pod_sandbox(pod)

    async def create_container(self, pod: Pod, container: Container, deadline: float) -> Edits:  # noqa: ARG002 - as above
        """Return what the container gets; attach first if that is still to be done.

        Raises:
            RefusedError: it lists a claim that is not in its pod.
        """
        self._refuse_foreign(pod, container)
        claims = tuple(each for each in self._claims(pod) if listed(each, container.name))
        if not claims:
            return Edits()
        self.attacher.live[pod.sandbox_id] = pod
        if not all(self.attacher.is_attached(each, pod) for each in claims):
            await self.attacher.attach(pod, self._claims(pod))
        directory = str(self.attacher.gate.metadata_dir)
        merged = Edits()
        for claim in claims:
            attachment = self.attacher.attachments.get(claim.claim.uid)
            assert attachment is not None
            merged = _merged(
                merged, edits(claim, attachment, container, directory, self.attacher.options)
            )
        return merged

    async def synchronize(self, pods: tuple[Pod, ...], containers: tuple[Container, ...]) -> None:  # noqa: ARG002 - containers follow their pods
        """Take the runtime's list of pods as the truth; the difference is repaired right after."""
        self.attacher.live = {pod.sandbox_id: pod for pod in pods}
        self.synchronized = True
        self.news()

    # ------------------------------------------------------------------- reconcile

    async def reconcile(self) -> bool:
        """Compare wanted and observed for every record and pod, and run the difference.

        Returns:
            Whether something is left to be repaired, so that the caller comes back soon.
        """
        self.allocations.refresh()
        for attachment in self.attacher.attachments.all():
            try:
                await self._reconcile_one(attachment.claim.uid)
            except (DranetError, OSError) as error:
                self.log.error("repair failed", claim=str(attachment.claim), reason=str(error))
        for pod in tuple(self.attacher.live.values()):
            if pod.netns_path and self.attacher.kernel.identify(pod.netns_path) is None:
                self.attacher.live.pop(pod.sandbox_id, None)
            else:
                await self._attach_late(pod)
        for uid in self.attacher.gate.claims():
            record = self.attacher.attachments.get(uid)
            if record is None or record.phase is not Phase.ATTACHED:
                self.attacher.gate.close(uid)
        return self.pending()

    def pending(self) -> bool:
        """Whether some claim is neither attached nor home."""
        return any(
            each.phase not in {Phase.ATTACHED, Phase.HOME}
            for each in self.attacher.attachments.all()
        )

    async def _reconcile_one(self, claim_uid: str) -> None:
        record = self.attacher.attachments.get(claim_uid)
        if record is None:
            return
        allocation = self.allocations.get(claim_uid)
        if record.phase is Phase.HOME or (record.phase is Phase.FAILED and not is_away(record)):
            if allocation is None:
                self.attacher.attachments.remove(claim_uid)
        elif not self._is_wanted(record):
            await self.attacher.detach(record)
        elif record.phase is Phase.ATTACHED and allocation is not None:
            await self.attacher.verify(allocation, record.sandbox_id)

    def _is_wanted(self, attachment: Attachment) -> bool:
        """Whether the sandbox lives: its namespace does, and the runtime, once asked, knows it."""
        if attachment.phase is Phase.DETACHING:
            return False
        if self.attacher.kernel.identify(attachment.netns.path) != attachment.netns:
            return False
        return not self.synchronized or attachment.sandbox_id in self.attacher.live

    async def _attach_late(self, pod: Pod) -> None:
        try:
            claims = self._claims(pod)
            if claims and not all(self.attacher.is_attached(each, pod) for each in claims):
                await self.attacher.attach(pod, claims)
        except (DranetError, OSError) as error:
            self.log.warning("late attach failed", pod=str(pod), reason=str(error))

    # ------------------------------------------------------------------- attach

    def _claims(self, pod: Pod) -> tuple[Allocation, ...]:
        self.allocations.refresh()
        broken = self.allocations.broken_of_pod(pod.uid)
        if broken:
            raise RefusedError(
                f"pod {pod}: its allocation record cannot be used: {broken[0].error};"
                " see dranet-nri status, then delete the pod so that it is recorded anew"
            )
        return self.allocations.by_pod(pod.uid)

    # ------------------------------------------------------------------- questions

    def _attached_to(self, sandbox_id: str) -> tuple[Attachment, ...]:
        return tuple(
            each
            for each in self.attacher.attachments.all()
            if each.sandbox_id == sandbox_id and each.phase is not Phase.HOME
        )

    def _refuse_foreign(self, pod: Pod, container: Container) -> None:
        """Refuse a container that carries a claim's file in a sandbox that does not have it."""
        uid = holder_of(container, str(self.attacher.gate.metadata_dir))
        if uid is None:
            return
        record = self.attacher.attachments.get(uid)
        if record is None:
            raise RefusedError(
                f"container {container.name} of pod {pod}: claim {uid} is attached nowhere"
            )
        if record.pod.uid != pod.uid or record.sandbox_id != pod.sandbox_id:
            raise RefusedError(
                f"container {container.name} of pod {pod} lists claim {record.claim}, which pod"
                f" {record.pod} holds; a NIC claim serves one pod, use a ResourceClaimTemplate"
            )


def _merged(one: Edits, other: Edits) -> Edits:
    """Return both; what the first has already is left out of the second."""
    paths = {each.path for each in one.char_devices}
    limits = {each.type for each in one.rlimits}
    return Edits(
        mounts=(*one.mounts, *other.mounts),
        char_devices=(
            *one.char_devices,
            *(each for each in other.char_devices if each.path not in paths),
        ),
        env=(*one.env, *other.env),
        rlimits=(*one.rlimits, *(each for each in other.rlimits if each.type not in limits)),
    )
