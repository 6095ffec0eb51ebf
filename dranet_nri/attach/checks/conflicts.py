"""Conflicts between pods: checks for claims and devices that another claim or pod owns."""

from collections.abc import Callable, Container, Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_interface

from dranet_nri.attach.desired import devices_to_attach
from dranet_nri.errors import OwnedError, UnusableRecordError, VirtualMachineError
from dranet_nri.model import Allocation, Attachment, InterfaceConfig, Phase, Pod
from dranet_nri.plan.child import why_incompatible
from dranet_nri.state.corrupt import CorruptSummary


def check_not_owned(
    pod: Pod,
    claims: tuple[Allocation, ...],
    records: tuple[Attachment, ...],
    live: Container[str],
) -> None:
    """Refuse devices and claims that another claim or pod owns.

    Args:
        pod: the pod that claims them.
        claims: claims of the pod.
        records: attachment records of all claims.
        live: ids of the live sandboxes.

    Raises:
        OwnedError: a device or claim has another owner.
    """
    claimed_devices = {
        allocated.device.name: (claim, allocated)
        for claim in claims
        for allocated in devices_to_attach(claim)
    }
    uids = {allocation.claim.uid for allocation in claims}
    for owner in [record for record in records if record.owns_devices]:
        if owner.claim.uid in uids and owner.pod.uid != pod.uid:
            raise OwnedError(_owned_text(f"claim {owner.claim}", owner, live))
        for device in owner.devices:
            claim, claimed = claimed_devices.get(device.device.name, (None, None))
            if claim is None or claimed is None or owner.claim.uid == claim.claim.uid:
                continue
            if not device.restored and not (claimed.share_id and device.share_id):
                subject = f"device {device.device.name} of claim {claim.claim}"
                raise OwnedError(_owned_text(subject, owner, live))


def check_compatible_children(
    claims: tuple[Allocation, ...], records: tuple[Attachment, ...]
) -> None:
    """Refuse children that the kernel cannot combine with others of the same parent.

    Args:
        claims: claims of the pod.
        records: records of all claims.

    Raises:
        OwnedError: an incompatible child exists, or the pod claims two incompatible children.
    """
    owned = [
        (record.claim.uid, device.identity, f"pod {record.pod}", device.child_config)
        for record in records
        for device in record.devices
        if device.child_config and device.is_unrestored
    ]
    children = [
        (claim.claim, device.identity, device.config.interface)
        for claim in claims
        for device in devices_to_attach(claim)
    ]
    owned += [(claim.uid, identity, "the same pod", child) for claim, identity, child in children]
    for claim, identity, child in children:
        for uid, owned_identity, owner, other in owned:
            is_same_device = owned_identity[0] == identity[0]
            is_other = is_same_device and (uid, owned_identity) != (claim.uid, identity)
            reason = _why_in_conflict(child, other) if is_other else ""
            if reason:
                raise OwnedError(
                    f"device {identity[0]} of claim {claim} is shared with {owner}, and {reason},"
                    " or claim another device"
                )


def _why_in_conflict(interface: InterfaceConfig, other: InterfaceConfig) -> str:
    """Return why two interfaces of one device are incompatible, "" if they are not.

    Children of equal parameters are on one link, so they cannot have one address in its network.
    Several pods may have one service address (/32 or /128).
    """
    if interface.child is None or other.child is None:
        return ""
    if interface.child == other.child:
        for cidr in sorted({*(interface.addresses or ())} & {*(other.addresses or ())}):
            network = ip_interface(cidr).network
            if network.prefixlen < network.max_prefixlen:
                return f"it has the address {cidr} too; give each pod its own"
    return why_incompatible(interface.child, other.child)


def check_not_virtual_machine(
    pod: Pod, claims: tuple[Allocation, ...], handlers: Sequence[str]
) -> None:
    """Refuse devices for a pod whose containers run on a guest kernel (Kata, gVisor).

    The guest gets the links that are in its namespace when the sandbox is created, before plugins
    are called; a NIC that is moved later does not reach the guest.

    Args:
        pod: the pod that claims devices.
        claims: claims of the pod.
        handlers: patterns of the handlers of such RuntimeClasses.

    Raises:
        VirtualMachineError: the pod's handler matches.
    """
    if not any(map(devices_to_attach, claims)):
        return
    if any(fnmatchcase(pod.handler.lower(), pattern) for pattern in handlers):
        raise VirtualMachineError(
            f"pod {pod}: its RuntimeClass has the handler {pod.handler!r}, whose pods run on a"
            " guest kernel, and a NIC that is moved into the pod's namespace does not reach it;"
            " remove runtimeClassName or the claim. If the handler runs containers on the node's"
            " kernel, set dranet-nri run --vm-runtimes to patterns that do not match it"
        )


def check_no_corrupt_owner(
    claims: tuple[Allocation, ...],
    corrupt_records: tuple[CorruptSummary, ...],
    allocation: Callable[[str], Allocation | None],
) -> None:
    """Refuse claims and devices that an unusable attachment record may concern.

    Args:
        claims: claims of the pod.
        corrupt_records: the unusable attachment records.
        allocation: returns a claim's allocation by UID, for records whose devices are unknown.

    Raises:
        UnusableRecordError: the record is of one of the claims.
        OwnedError: the record's claim may have one of their devices.
    """
    claimed_devices = {
        allocated.device.name: (claim, allocated)
        for claim in claims
        for allocated in devices_to_attach(claim)
    }
    own = {allocation.claim.uid: allocation for allocation in claims}
    for corrupt in corrupt_records:
        if corrupt.claim_uid in own:
            claim = own[corrupt.claim_uid].claim
            raise UnusableRecordError(f"claim {claim}: its attachment record {corrupt.text}")
        for name, share_id in _devices_of(corrupt, allocation(corrupt.claim_uid)):
            for_claim, claimed = claimed_devices.get(name, (None, None))
            if for_claim is None or claimed is None or (claimed.share_id and share_id):
                continue
            raise OwnedError(
                f"device {name} of claim {for_claim.claim} may be in another pod: the attachment"
                f" record of claim {corrupt.claim_uid} {corrupt.text}"
            )


def _devices_of(
    corrupt: CorruptSummary, allocated: Allocation | None
) -> tuple[tuple[str, str], ...]:
    """Return name and share id of the claim's devices that may not be restored."""
    if corrupt.broken.devices is not None:
        return corrupt.broken.devices
    devices = devices_to_attach(allocated) if allocated else ()
    return tuple((device.device.name, device.share_id) for device in devices)


def _owned_text(subject: str, owner: Attachment, live: Container[str]) -> str:
    text = f"{subject} is owned by pod {owner.pod} (claim {owner.claim})"
    if owner.phase is not Phase.DETACHING and owner.sandbox_id in live:
        return f"{text}; delete that pod, or allocate the claim again"
    reason = f" ({owner.failure.message})" if owner.failure else ""
    return f"{text}, which has ended; it is being restored on the host{reason}, this is retried"
