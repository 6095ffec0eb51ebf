"""Devices and addresses in use: by allocation records, and by devices that are not restored."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from dra_shim.pool import DeviceUsage
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    ObjectRef,
    Phase,
)

_ATTACHED_PHASES: Final = frozenset({Phase.INTENT, Phase.ATTACHED, Phase.DETACHING})


def devices_in_use(
    records: Iterable[Allocation],
    attachments: Iterable[Attachment],
    ignored: tuple[ObjectRef, ObjectRef] | None = None,
    counted_elsewhere: Collection[str] = (),
) -> DeviceUsage:
    """Return the owners of all devices.

    Args:
        records: all allocation records.
        attachments: all attachment records.
        ignored: (claim, pod), see CheckpointTransaction.in_use.
        counted_elsewhere: claims (namespace/name) whose consumed capacity the caller counts itself.
    """
    whole: dict[str, str] = {}
    shares: dict[str, str] = {}
    consumed: dict[str, dict[str, int]] = {}
    unrestored: set[str] = set()
    claim_uid, pod_uid = (ref.uid for ref in ignored) if ignored else ("", "")
    for attachment in attachments:
        if (attachment.claim.uid, attachment.pod.uid) == (claim_uid, pod_uid):
            continue
        owner = f"pod {attachment.pod}, which has not released it (claim {attachment.claim})"
        for device in _unrestored(attachment):
            (shares if device.share_id else whole)[device.device.name] = owner
            unrestored.add(device.device.name)
    for record in records:
        owner = f"claim {record.claim} of pod {record.pod}"
        for allocated in record.devices:
            if not allocated.admin_access and record.claim.uid != claim_uid:
                (shares if allocated.share_id else whole)[allocated.device.name] = owner
                unrestored.discard(allocated.device.name)
                if str(record.claim) not in counted_elsewhere:
                    _add(consumed.setdefault(allocated.device.name, {}), allocated)
    return DeviceUsage(whole, shares, consumed, frozenset(unrestored))


def addresses_in_use(
    records: Iterable[Allocation], attachments: Iterable[Attachment], ignored: str
) -> Iterator[str]:
    """Yield the addresses of all devices, in CIDR notation.

    Args:
        records: all allocation records.
        attachments: all attachment records.
        ignored: UID of a claim that does not count.
    """
    for record in records:
        if record.claim.uid != ignored:
            for allocated in record.devices:
                yield from allocated.config.interface.addresses or ()
    for attachment in attachments:
        if attachment.claim.uid != ignored:
            for device in _unrestored(attachment):
                yield from device.addresses
                if device.child_config:  # its attach may not be complete
                    yield from device.child_config.addresses or ()


def addresses_of_parents(devices: Iterable[AllocatedDevice]) -> Iterator[str]:
    """Yield the addresses on the host of devices that stay there, in CIDR notation."""
    for allocated in devices:
        if allocated.config.interface.child is not None:
            for name in ("dra.net/ipv4", "dra.net/ipv6"):
                yield from filter(None, str(allocated.device.attribute(name) or "").split(","))


def _unrestored(attachment: Attachment) -> Iterator[AttachedDevice]:
    attached = attachment.phase in _ATTACHED_PHASES
    for device in attachment.devices:
        if device.is_unrestored or (attached and not device.restored):
            yield device


def _add(amounts: dict[str, int], device: AllocatedDevice) -> None:
    for share in device.consumed:
        amounts[share.capacity] = amounts.get(share.capacity, 0) + share.amount
