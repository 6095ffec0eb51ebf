"""Conflicts between pods: claims and devices that another claim or pod owns."""

from collections.abc import Callable, Container, Sequence
from fnmatch import fnmatchcase

from dranet_nri.attach.desired import moved
from dranet_nri.errors import OwnedError, UnusableRecordError, VirtualMachineError
from dranet_nri.model import AllocatedDevice, Allocation, Attachment, ChildConfig, Phase, Pod
from dranet_nri.plan.child import why_not_beside
from dranet_nri.state.corrupt import CorruptSummary


def check_not_owned(
    pod: Pod,
    claims: tuple[Allocation, ...],
    records: tuple[Attachment, ...],
    live: Container[str],
) -> None:
    """Refuse devices and claims that another claim or pod still holds.

    Args:
        pod: their next owner.
        claims: what it is to get.
        records: of all claims.
        live: ids of the sandboxes that live.

    Raises:
        OwnedError: one of them is held.
    """
    wanted = {
        allocated.device.name: (claim, allocated) for claim in claims for allocated in moved(claim)
    }
    uids = {allocation.claim.uid for allocation in claims}
    for holder in [record for record in records if record.holds_devices]:
        if holder.claim.uid in uids and holder.pod.uid != pod.uid:
            raise OwnedError(_held(f"claim {holder.claim}", holder, live))
        for device in holder.devices:
            claim, asked = wanted.get(device.device.name, (None, None))
            if claim is None or asked is None or holder.claim.uid == claim.claim.uid:
                continue
            if not device.home and not (asked.share_id and device.share_id):
                subject = f"device {device.device.name} of claim {claim.claim}"
                raise OwnedError(_held(subject, holder, live))


def refuse_unlike_children(claims: tuple[Allocation, ...], records: tuple[Attachment, ...]) -> None:
    """Refuse children that the kernel cannot have beside others of the same parent.

    Args:
        claims: what a pod is to get.
        records: of all claims.

    Raises:
        OwnedError: another one is there, or the pod is to get both.
    """
    there = [
        (record.claim.uid, device.identity, f"pod {record.pod}", device.made_by.child)
        for record in records
        for device in record.devices
        if device.made_by and device.touched
    ]
    wanted = [
        (claim.claim, device.identity, child)
        for claim in claims
        for device, child in _children(claim)
    ]
    there += [(claim.uid, identity, "the same pod", child) for claim, identity, child in wanted]
    for claim, identity, child in wanted:
        for uid, owned, owner, other in there:
            is_other = owned[0] == identity[0] and (uid, owned) != (claim.uid, identity)
            reason = why_not_beside(child, other) if is_other and other else ""
            if reason:
                raise OwnedError(
                    f"device {identity[0]} of claim {claim} is shared with {owner}, and {reason},"
                    " or claim another device"
                )


def _children(claim: Allocation) -> list[tuple[AllocatedDevice, ChildConfig]]:
    """Return the devices of which a pod is to get a child, with the child."""
    pairs = ((device, device.config.interface.child) for device in moved(claim))
    return [(device, child) for device, child in pairs if child is not None]


def check_not_virtual_machine(
    pod: Pod, claims: tuple[Allocation, ...], handlers: Sequence[str]
) -> None:
    """Refuse devices for a pod whose containers see a kernel of their own (Kata, gVisor).

    The guest's network is made of what its namespace has when the sandbox is created, which is
    before plugins are called; a NIC that comes later is not in the guest.

    Args:
        pod: their next owner.
        claims: what it is to get.
        handlers: patterns of the handlers of such RuntimeClasses.

    Raises:
        VirtualMachineError: it is such a pod.
    """
    if not any(map(moved, claims)):
        return
    if any(fnmatchcase(pod.handler.lower(), pattern) for pattern in handlers):
        raise VirtualMachineError(
            f"pod {pod}: its RuntimeClass has the handler {pod.handler!r}, whose pods run on a"
            " kernel of their own, and a NIC that is moved into the pod's namespace does not reach"
            " it; remove runtimeClassName or the claim. If the handler runs containers on the"
            " node's kernel, give the handlers that do not by dranet-nri run --vm-runtimes"
        )


def check_no_corrupt_owner(
    claims: tuple[Allocation, ...],
    damages: tuple[CorruptSummary, ...],
    allocation: Callable[[str], Allocation | None],
) -> None:
    """Refuse claims and devices of which a record that cannot be used may say where they are.

    Args:
        claims: what a pod is to get.
        damages: the attachment records that cannot be used.
        allocation: returns what is allocated to a claim (UID), for records that lack it.

    Raises:
        UnusableRecordError: it is the record of one of the claims.
        OwnedError: it may have one of their devices.
    """
    wanted = {
        allocated.device.name: (claim, allocated) for claim in claims for allocated in moved(claim)
    }
    own = {allocation.claim.uid: allocation for allocation in claims}
    for damage in damages:
        if damage.claim_uid in own:
            claim = own[damage.claim_uid].claim
            raise UnusableRecordError(f"claim {claim}: its attachment record {damage.text}")
        for name, share_id in _named(damage, allocation(damage.claim_uid)):
            for_claim, asked = wanted.get(name, (None, None))
            if for_claim is None or asked is None or (asked.share_id and share_id):
                continue
            raise OwnedError(
                f"device {name} of claim {for_claim.claim} may be in another pod: the attachment"
                f" record of claim {damage.claim_uid} {damage.text}"
            )


def _named(damage: CorruptSummary, allocated: Allocation | None) -> tuple[tuple[str, str], ...]:
    """Return name and share id of each device of the claim that may not be restored."""
    if damage.broken.devices is not None:
        return damage.broken.devices
    devices = moved(allocated) if allocated else ()
    return tuple((device.device.name, device.share_id) for device in devices)


def _held(subject: str, holder: Attachment, live: Container[str]) -> str:
    text = f"{subject} is held by pod {holder.pod} (claim {holder.claim})"
    if holder.phase is not Phase.DETACHING and holder.sandbox_id in live:
        return f"{text}; delete that pod, or allocate the claim anew"
    reason = f" ({holder.failure.message})" if holder.failure else ""
    return f"{text}, which is gone; it is still on its way home{reason}, this is retried"
