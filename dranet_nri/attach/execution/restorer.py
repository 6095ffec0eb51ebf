"""Restorer of devices on the host: runs restore plans and verifies the result.

Rules:
1. A setting that cannot be restored blocks neither the rest of the device nor other devices.
2. All devices of a claim are moved before one is verified: a route may need several of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from dranet_nri.attach.leases import release_lease
from dranet_nri.attach.observation import observe
from dranet_nri.errors import KernelError
from dranet_nri.model import AttachedDevice, Attachment
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import Op
from dranet_nri.plan.planner import is_cut, make_plan
from dranet_nri.plan.refusals import described
from dranet_nri.plan.restore import RestoreTarget
from dranet_nri.plan.retry import RestoreResult, has_tries_left, verify_restored

MAX_BEGINNINGS: Final = 2  # of one restore, see is_cut

T = TypeVar("T")
Refused = list[tuple[Op, KernelError]]


@dataclass(frozen=True, slots=True)
class Restorer:
    """Restores devices on the host.

    Attributes:
        boot: returns seconds of CLOCK_BOOTTIME.
    """

    boot: Callable[[], int]

    def all(self, session: Session, attachment: Attachment, *, alive: bool) -> list[RestoreResult]:
        """Restore the devices in reverse order, then verify them.

        One device's error must not block others.
        """
        devices, tries_left = attachment.devices, has_tries_left(attachment.failure)
        moves = [_tried(device, partial(self._move, session, device)) for device in devices[::-1]]
        return [
            move
            if isinstance(move, RestoreResult)
            else _tried(
                device,
                partial(self._arrived, session, device, move, alive=alive, tries_left=tries_left),
            )
            for device, move in zip(devices, reversed(moves), strict=True)
        ]

    def one(self, session: Session, device: AttachedDevice) -> RestoreResult:
        """Run the restore plan; return whether the device is verified on the host, or why not."""
        return self._arrived(
            session, device, self._move(session, device), alive=True, tries_left=True
        )

    def _arrived(
        self,
        session: Session,
        device: AttachedDevice,
        failed: Refused,
        *,
        alive: bool,
        tries_left: bool,
    ) -> RestoreResult:
        """Return whether the device is verified on the host, or why not; see verify_restored."""
        observed = observe(session, device, bare=True)
        desired = self._at_home(device)
        return verify_restored(
            device.device, desired, observed, failed, alive=alive, tries_left=tries_left
        )

    def _at_home(self, device: AttachedDevice) -> RestoreTarget:
        elapsed = self.boot() - device.snapshot_s
        return RestoreTarget(
            device.snapshot,
            elapsed,
            device.rdma,
            child=bool(device.child),
            altnames=device.pod_altnames,
        )

    def _move(self, session: Session, device: AttachedDevice) -> Refused:
        """Run the restore plan; if it ends early, run the next one. Return the failures.

        A beginning runs twice at most: a net device that it creates is then restored at once.
        """
        release_lease(session, device)
        failed: Refused = []
        desired = self._at_home(device)
        beginnings, cut = 0, True
        while cut:
            ops = make_plan(desired, observe(session, device, bare=True))
            cut = is_cut(device.snapshot, ops)
            beginnings += cut
            if beginnings > MAX_BEGINNINGS:
                break
            for op in ops:
                try:
                    session.apply(op)
                except KernelError as error:
                    # A setting that cannot be restored must not block the others.
                    failed.append((op, error))
        return failed


def _tried(device: AttachedDevice, work: Callable[[], T]) -> T | RestoreResult:
    """Return the result of work on a device, or its failure."""
    if not device.touched:
        return RestoreResult(home=True)
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - see all()
        text = f"device {device.device.name}: {described(error)}"
        return RestoreResult(home=False, text=text)
