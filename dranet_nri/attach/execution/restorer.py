"""Restorer of devices on the host: runs restore plans and verifies the result.

Rules:
1. A setting that cannot be restored blocks neither the rest of the device nor other devices.
   After a refused move, or rename on the host, the rest waits for the next try: its operations
   address the link by name, and another link may have that name now.
2. All devices of a claim are moved before one is verified: a route may need several of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from dranet_nri.attach.leases import release_lease
from dranet_nri.attach.observation import observe
from dranet_nri.errors import KernelError
from dranet_nri.model import AttachedDevice, Attachment, Ns
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import MoveLink, Op, RenameLink
from dranet_nri.plan.planner import is_incomplete, make_plan
from dranet_nri.plan.refusals import described
from dranet_nri.plan.restore import RestoreTarget
from dranet_nri.plan.retry import RestoreResult, has_tries_left, verify_restored

MAX_INCOMPLETE_PLANS: Final = 2  # of one restore, see plan.planner.is_incomplete

T = TypeVar("T")
Applied = Callable[[], None]
Refused = list[tuple[Op, KernelError]]


@dataclass(frozen=True, slots=True)
class Restorer:
    """Restores devices on the host.

    Attributes:
        boot: returns seconds of CLOCK_BOOTTIME.
    """

    boot: Callable[[], int]

    def all(
        self,
        session: Session,
        attachment: Attachment,
        applied: Applied | None,
        *,
        netns_exists: bool,
    ) -> list[RestoreResult]:
        """Restore the devices in reverse order, then verify them.

        The error of a device does not stop the others.

        Args:
            session: session of the pod.
            attachment: the claim's record.
            applied: called before the verification, unless an operation was refused.
            netns_exists: see PlanExecutor.detach.
        """
        devices, tries_left = attachment.devices, has_tries_left(attachment.failure)
        with session.shortened():
            runs = [
                _result_of(device, partial(self._run_plans, session, device))
                for device in reversed(devices)
            ]
        if applied and not any(_has_failed(run) for run in runs):
            applied()
        verify = partial(self._verify, session, netns_exists=netns_exists, tries_left=tries_left)
        return [
            run
            if isinstance(run, RestoreResult)
            else _result_of(device, partial(verify, device, run))
            for device, run in zip(devices, reversed(runs), strict=True)
        ]

    def one(self, session: Session, device: AttachedDevice) -> RestoreResult:
        """Restore one device, and verify it."""
        with session.shortened():
            failed = self._run_plans(session, device)
        return self._verify(session, device, failed, netns_exists=True, tries_left=True)

    def _verify(
        self,
        session: Session,
        device: AttachedDevice,
        failed: Refused,
        *,
        netns_exists: bool,
        tries_left: bool,
    ) -> RestoreResult:
        return verify_restored(
            device.device,
            self._target(device),
            observe(session, device, link_only=True),
            failed,
            netns_exists=netns_exists,
            tries_left=tries_left,
        )

    def _target(self, device: AttachedDevice) -> RestoreTarget:
        return RestoreTarget(
            device.snapshot,
            self.boot() - device.snapshot_s,
            device.rdma,
            child=bool(device.child),
            altnames=device.pod_altnames,
        )

    def _run_plans(self, session: Session, device: AttachedDevice) -> Refused:
        """Release the lease, and run the restore plan, and others while a plan is incomplete.

        Returns:
            The operations that the kernel refused.
        """
        failed: Refused = []
        target = self._target(device)
        incomplete_plans, incomplete = 0, True
        while incomplete:
            observed = observe(session, device, link_only=True)
            if device.lease and observed.pod:
                release_lease(session, observed.pod.link, device.lease)
            ops = make_plan(target, observed)
            incomplete = is_incomplete(device.snapshot, ops)
            incomplete_plans += incomplete
            if incomplete_plans > MAX_INCOMPLETE_PLANS:
                break
            for op in ops:
                try:
                    session.apply(op)
                except KernelError as error:
                    failed.append((op, error))
                    if _sets_host_name(op):
                        break
        return failed


def _has_failed(run: Refused | RestoreResult) -> bool:
    return not run.restored if isinstance(run, RestoreResult) else bool(run)


def _sets_host_name(op: Op) -> bool:
    """Whether the operation sets the name on the host that later operations use."""
    return isinstance(op, MoveLink) or (isinstance(op, RenameLink) and op.ns is Ns.HOST)


def _result_of(device: AttachedDevice, work: Callable[[], T]) -> T | RestoreResult:
    """Return the result of work on a device, or its failure."""
    if not device.is_unrestored:
        return RestoreResult(restored=True)
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the error of a device does not stop the others
        text = f"device {device.device.name}: {described(error)}"
        return RestoreResult(restored=False, text=text)
