"""Bring whole pods' devices in and home: who may, in which order, one job a device.

Rules:
1. Work on one device is done by one job at a time, and a retry waits until the device of the
   previous sandbox is home. A job runs on a thread of its own, so that a kernel call that hangs
   holds up nobody else.
2. The gate (CDI spec) is open only while the record says ATTACHED; closing comes first.
3. A record that still says where a device is, is never overwritten by another sandbox's.
4. The namespace is held from the attach until the devices are home, and not a moment longer: a
   held namespace never dies, and its NICs would be stuck in it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from dranet_nri.edits import EditOptions
from dranet_nri.errors import DranetError, RefusedError
from dranet_nri.executor import Clock, Executor
from dranet_nri.gate import Gate
from dranet_nri.journal import SharedAttachments
from dranet_nri.model import AllocatedDevice, Allocation, Attachment, NetnsId, Phase, Pod
from dranet_nri.plan.port import Kernel
from dranet_nri.threads import in_thread

HOLD_UNLINKED_S: Final = 30  # a namespace without a path, before the kernel is to empty it


@dataclass(slots=True)
class Attacher:
    """Attaches and detaches. One instance, on one event loop.

    Attributes:
        live: the sandboxes that may have devices, by id; kept by the hooks.
        wake: asks for a reconciliation soon.
    """

    kernel: Kernel
    executor: Executor
    attachments: SharedAttachments
    gate: Gate
    options: EditOptions
    log: structlog.typing.FilteringBoundLogger
    wake: Callable[[], None]
    clock: Clock
    live: dict[str, Pod] = field(default_factory=dict)
    _unlinked: dict[NetnsId, int] = field(default_factory=dict)
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    _jobs: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def attach(self, pod: Pod, claims: tuple[Allocation, ...]) -> None:
        """Attach once, however many hooks ask for it at the same time."""
        task = self._jobs.get(pod.sandbox_id)
        if task is None or task.done():
            task = asyncio.create_task(self._attach(pod, claims), name=f"attach {pod.sandbox_id}")
            self._jobs[pod.sandbox_id] = task
            task.add_done_callback(lambda done: self._forget_job(pod.sandbox_id, done))
        await asyncio.shield(task)

    def _forget_job(self, sandbox_id: str, task: asyncio.Task[None]) -> None:
        if self._jobs.get(sandbox_id) is task:
            del self._jobs[sandbox_id]
        if not task.cancelled():
            task.exception()  # Recorded by the executor; a hook that still waits raises it.

    async def _attach(self, pod: Pod, claims: tuple[Allocation, ...]) -> None:
        async with _all_of(self._device_locks(claims)):
            previous = self._records(claims)
            if all(self.is_attached(each, pod) for each in claims):
                return
            try:
                netns = self._admit(pod, claims)
                await self._supersede(pod, claims)
            except RefusedError as error:
                self.executor.refuse(pod, claims, previous, str(error))
                raise
            for claim in claims:
                self.gate.close(claim.claim.uid)
            await self._run(pod, netns, claims)

    async def _run(self, pod: Pod, netns: NetnsId, claims: tuple[Allocation, ...]) -> None:
        previous = self._records(claims)
        try:
            done = await in_thread(lambda: self.executor.attach(pod, netns, claims, previous))
        except DranetError as error:
            self._release_if_home(netns)
            self.log.error("attach failed", pod=str(pod), reason=str(error))
            raise
        for claim, attachment in zip(claims, done, strict=True):
            self.open_gate(claim, attachment)
            self._log_attached(pod, attachment)

    def _records(self, claims: tuple[Allocation, ...]) -> dict[str, Attachment]:
        records = (self.attachments.get(each.claim.uid) for each in claims)
        return {each.claim.uid: each for each in records if each is not None}

    def _admit(self, pod: Pod, claims: tuple[Allocation, ...]) -> NetnsId:
        """Return the pod's namespace, held.

        Raises:
            RefusedError: the pod may not have the devices.
        """
        if pod.sandbox_id not in self.live:
            raise RefusedError(f"pod {pod}: its sandbox was stopped meanwhile")
        netns = self._netns(pod)
        self._refuse_held(pod, claims)
        if not self.kernel.hold(netns):
            raise RefusedError(f"pod {pod}: its network namespace {netns.path} is gone")
        return netns

    def _log_attached(self, pod: Pod, attachment: Attachment) -> None:
        self.log.info(
            "attached",
            pod=str(pod),
            claim=str(attachment.claim),
            devices=[f"{each.device.name} as {each.pod_name}" for each in attachment.devices],
        )

    def _netns(self, pod: Pod) -> NetnsId:
        """Return the pod's own network namespace.

        Raises:
            RefusedError: it has none of its own: host network, a VM runtime, or gone.
        """
        if not pod.netns_path:
            raise RefusedError(
                f"pod {pod} claims a NIC but has no network namespace of its own: hostNetwork and"
                " VM sandboxes cannot be given one; remove hostNetwork or the claim"
            )
        netns = self.kernel.identify(pod.netns_path)
        if netns is None:
            raise RefusedError(f"pod {pod}: network namespace {pod.netns_path} does not exist")
        if self.kernel.is_host(netns):
            raise RefusedError(
                f"pod {pod} claims a NIC but uses the host's network;"
                " remove hostNetwork or the claim"
            )
        return netns

    def _refuse_held(self, pod: Pod, claims: tuple[Allocation, ...]) -> None:
        """Refuse devices that another claim or pod still holds."""
        wanted = {each.device.name: claim for claim in claims for each in _moved(claim)}
        for holder in self.attachments.all():
            for device in holder.devices:
                claim = wanted.get(device.device.name)
                if claim is None or device.home or device.snapshot is None:
                    continue
                if holder.claim.uid != claim.claim.uid or holder.pod.uid != pod.uid:
                    raise RefusedError(
                        f"device {device.device.name} of claim {claim.claim} is held by pod"
                        f" {holder.pod} (claim {holder.claim}); delete that pod, or allocate the"
                        " claim anew"
                    )

    async def _supersede(self, pod: Pod, claims: tuple[Allocation, ...]) -> None:
        """Bring home what an older sandbox of the pod, or an older allocation, still has.

        Raises:
            RefusedError: it is not home yet. Its record says where it is and stays as it is.
        """
        for claim in claims:
            record = self.attachments.get(claim.claim.uid)
            if record is None or not is_away(record):
                continue
            same = {each.device.name for each in record.devices} == {
                each.device.name for each in _moved(claim)
            }
            if same and record.sandbox_id == pod.sandbox_id:
                continue
            record = await self._detach_locked(record)
            if is_away(record):
                raise RefusedError(
                    f"claim {claim.claim}: its devices are still on their way back from the pod's"
                    f" previous sandbox {record.sandbox_id}; this is retried"
                )

    def _device_locks(self, claims: tuple[Allocation, ...]) -> tuple[asyncio.Lock, ...]:
        names = {each.device.name for claim in claims for each in claim.devices}
        for claim in claims:
            record = self.attachments.get(claim.claim.uid)
            names |= {each.device.name for each in record.devices} if record else set()
        return self._locks_of(names)

    def _locks_of(self, names: Iterable[str]) -> tuple[asyncio.Lock, ...]:
        return tuple(self._locks.setdefault(name, asyncio.Lock()) for name in sorted(set(names)))

    def open_gate(self, allocation: Allocation, attachment: Attachment) -> None:
        """Write the claim's files. What fails is said aloud, and tried again by every sweep."""
        try:
            self.gate.open(allocation, attachment, self.options)
        except OSError as error:
            self.log.error("gate not opened", claim=str(allocation.claim), reason=str(error))
            self.wake()

    # ------------------------------------------------------------------- detach

    async def detach(self, attachment: Attachment) -> None:
        """Bring one claim's devices home, as far as possible now."""
        async with _all_of(self._locks_of(each.device.name for each in attachment.devices)):
            current = self.attachments.get(attachment.claim.uid)
            if current is None or current.sandbox_id != attachment.sandbox_id:
                return  # Another sandbox's attach came first and took over.
            if current.phase is not Phase.HOME:
                await self._detach_locked(current)

    async def _detach_locked(self, attachment: Attachment) -> Attachment:
        self.gate.close(attachment.claim.uid)
        alive = self.kernel.hold(attachment.netns)
        record = await in_thread(lambda: self.executor.detach(attachment, netns_alive=alive))
        if record.phase is Phase.HOME:
            self._release_if_home(attachment.netns)
            self.log.info("detached", pod=str(record.pod), claim=str(record.claim))
            return record
        if not alive or self._patience_ended(attachment.netns):
            self.kernel.release(attachment.netns)
        reason = record.failure.message if record.failure else "the kernel has not returned it yet"
        self.log.warning(
            "device not home yet", pod=str(record.pod), claim=str(record.claim), reason=reason
        )
        self.wake()
        return record

    def _patience_ended(self, netns: NetnsId) -> bool:
        """Whether only our descriptor has kept the namespace alive for too long.

        Once it is let go, the kernel returns the hardware in it to the host by itself.
        """
        if self.kernel.identify(netns.path) == netns:
            self._unlinked.pop(netns, None)
            return False
        now = self.clock.boot()
        return now - self._unlinked.setdefault(netns, now) >= HOLD_UNLINKED_S

    def _release_if_home(self, netns: NetnsId) -> None:
        """Let the namespace go once no device of ours is in it: a held one never dies."""
        if not any(each.netns == netns and is_away(each) for each in self.attachments.all()):
            self.kernel.release(netns)
            self._unlinked.pop(netns, None)

    async def verify(self, allocation: Allocation, sandbox_id: str) -> None:
        """Keep an attached claim as its record says: namespace held, devices in it, gate open.

        A device that left its pod behind our back closes the gate and is attached anew.
        """
        uid = allocation.claim.uid
        async with _all_of(self._device_locks((allocation,))):
            record = self.attachments.get(uid)
            if record is None or record.phase is not Phase.ATTACHED:
                return
            if record.sandbox_id != sandbox_id or not self.kernel.hold(record.netns):
                return
            if await in_thread(lambda: self.executor.verify(record)):
                self.open_gate(allocation, record)
                return
            self.gate.close(uid)
            self.log.error("device left its pod", pod=str(record.pod), claim=str(record.claim))
            self.attachments.put(replace(record, phase=Phase.INTENT))

    def is_attached(self, allocation: Allocation, pod: Pod) -> bool:
        """Whether the claim's devices are in this very sandbox, configured."""
        record = self.attachments.get(allocation.claim.uid)
        return (
            record is not None
            and record.phase is Phase.ATTACHED
            and record.sandbox_id == pod.sandbox_id
            and record.pod.uid == pod.uid
        )


def is_away(attachment: Attachment) -> bool:
    """Whether a device of the record was touched and is not verified home."""
    return any(not each.home and each.snapshot is not None for each in attachment.devices)


def _moved(claim: Allocation) -> tuple[AllocatedDevice, ...]:
    return tuple(each for each in claim.devices if not each.admin_access)


@asynccontextmanager
async def _all_of(locks: tuple[asyncio.Lock, ...]) -> AsyncIterator[None]:
    """Hold every lock. The caller sorts them, so that two jobs can't wait for each other."""
    async with AsyncExitStack() as stack:
        for lock in locks:
            await stack.enter_async_context(lock)
        yield
