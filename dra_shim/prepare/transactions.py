"""Transactions of Prepare and Unprepare on the checkpoint. A transaction may block.

Rules:
1. A record is on disk before the response to the kubelet.
2. A device is recorded only if no other record has it, and it is attached to no other pod.
3. The CDI ids of a claim do not change, because a kubelet can keep them even if the record was
   lost. So a claim is recorded for a pod only if none of its devices is attached to another pod.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_shim.checkpoint.transaction import CheckpointTransaction, nonce_for
from dra_shim.checkpoint.usage import addresses_of_parents
from dra_shim.pool import DeviceUsage
from dra_shim.prepare.allocation import PrepareSettings, allocation_of, is_recorded
from dra_shim.prepare.errors import NotYetError
from dra_shim.prepare.parameters import ClaimParameters
from dra_shim.resourceapi import AllocatedClaim, PodUse
from dranet_nri.component.replace import replace
from dranet_nri.config import Provided, SameConfig, assign_addresses, clashes
from dranet_nri.errors import ConfigError, OwnedError, RefusedError
from dranet_nri.model import AllocatedDevice, Allocation, Device, ObjectRef


@dataclass(frozen=True, slots=True)
class RecordState:
    """A record, and whether a device of its claim may be attached to a pod."""

    record: Allocation
    attached: bool


@dataclass(frozen=True, slots=True)
class RecordInputs:
    """Devices of the node and their conflicts, for the record of one claim.

    Attributes:
        devices: devices of the node, by name.
        conflicts: device → devices that no other pod may have at the same time.
        parameters: parameters of class and claim.
        provided: parameters of cloud and profile; see allocation_of.
        adopted: the pod already has its devices, so duplicate names and addresses are not refused.
    """

    devices: Mapping[str, Device]
    conflicts: Mapping[str, frozenset[str]]
    parameters: ClaimParameters
    provided: Mapping[tuple[str, str], tuple[Provided, ...]] = field(default_factory=dict)
    adopted: bool = False


def record(
    transaction: CheckpointTransaction,
    claim: AllocatedClaim,
    pod: ObjectRef,
    use: PodUse,
    inputs: RecordInputs,
    settings: PrepareSettings,
) -> Allocation:
    """Return the claim's record for this pod; create it if there is none.

    Args:
        transaction: the open transaction.
        claim: the claim.
        pod: the pod that gets it.
        use: how the pod uses it.
        inputs: devices and parameters for the claim.
        settings: settings for all claims.

    Raises:
        NotYetError: a device or an address is still in use, or a device is not on the node.
        DranetError: the claim is refused, or its record is corrupt.
        OSError: the record cannot be written.
    """
    recorded = transaction.by_uid(claim.ref.uid)
    if recorded and is_recorded(recorded[0], claim, pod.uid, settings):
        return recorded[0]
    _check_free(claim, transaction.in_use((claim.ref, pod)), inputs.conflicts)
    attached_pod = transaction.attached_pod(claim.ref.uid, ignored=pod.uid)
    if attached_pod is not None:
        raise NotYetError(f"claim {claim.ref}: pod {attached_pod} has not released its devices")
    nonce = recorded[0].nonce if recorded else nonce_for(claim.ref.uid)
    allocation = allocation_of(
        claim, pod, use, inputs.devices, settings, nonce, inputs.parameters, inputs.provided
    )
    allocation = _leased(allocation, transaction.addresses(ignored=claim.ref.uid))
    if not inputs.adopted:
        check_distinct([allocation, *_others(transaction, allocation)])
    transaction.record([allocation])
    return allocation


def peek(
    checkpoint: CheckpointTransaction, mutex: threading.Lock, claim_uid: str
) -> tuple[Allocation, ...] | None:
    """Return a claim's record without a transaction, which would need a thread and the lock.

    Args:
        checkpoint: the checkpoint, outside a transaction.
        mutex: mutex of its transactions.
        claim_uid: UID of the claim.

    Returns:
        At most one record; None if a transaction is running, or none ran yet.
    """
    if not mutex.acquire(blocking=False):
        return None
    try:
        return checkpoint.peek(claim_uid)
    finally:
        mutex.release()


def check_distinct(records: Sequence[Allocation]) -> None:
    """Check that no two devices of one pod have the same interface name or address.

    Raises:
        ConfigError: all duplicates, with their devices.
    """
    violations = clashes(
        [
            SameConfig(
                f"device {device.device.name} of claim {record.claim}",
                device.config,
                _moved_interface(device),
            )
            for record in records
            for device in record.devices
        ]
    )
    if violations:
        raise ConfigError(violations)


def _moved_interface(allocated: AllocatedDevice) -> str:
    """Return the name of the interface that moves into the pod, "" if none moves."""
    stays_on_host = allocated.share_id and allocated.config.interface.child is None
    if stays_on_host or allocated.admin_access:
        return ""
    return str(allocated.device.attribute("dra.net/ifName") or "")


def _others(transaction: CheckpointTransaction, allocation: Allocation) -> list[Allocation]:
    """Return the records of the pod's other claims."""
    records = transaction.of_pod(allocation.pod.uid)
    return [record for record in records if record.claim.uid != allocation.claim.uid]


def forget(
    transaction: CheckpointTransaction, claim_uid: str, expected: Allocation | None = None
) -> bool:
    """Remove a claim's record, return whether there was one; a corrupt record is quarantined.

    Args:
        transaction: the open transaction.
        claim_uid: UID of the claim.
        expected: the record to remove, as returned by `record_states`; a record that was written
            since is kept. None for any record.

    Raises:
        OSError: the record cannot be removed.
    """
    records = transaction.by_uid(claim_uid)
    if expected is not None and not any(record is expected for record in records):
        return False
    transaction.forget(claim_uid)
    return bool(records)


def record_states(transaction: CheckpointTransaction) -> tuple[RecordState, ...]:
    """Return all records, and whether their devices may be attached."""
    return tuple(
        RecordState(record, transaction.may_be_attached(record.claim.uid))
        for record in transaction.records()
    )


def _leased(allocation: Allocation, addresses: Sequence[str]) -> Allocation:
    """Return a record with addresses in place of ranges."""
    taken = (*addresses, *addresses_of_parents(allocation.devices))
    try:
        configs = assign_addresses([device.config for device in allocation.devices], taken)
    except OwnedError as error:  # retriable: a pod can end
        raise NotYetError(str(error)) from error
    devices = tuple(
        replace(device, config=config)
        for device, config in zip(allocation.devices, configs, strict=True)
    )
    return replace(allocation, devices=devices)


def _check_free(
    claim: AllocatedClaim, uses: DeviceUsage, conflicts: Mapping[str, frozenset[str]]
) -> None:
    in_use: list[str] = []
    excluded: list[str] = []
    for result in claim.results:
        if result.admin_access:
            continue
        name = result.device[2]
        owner = uses.whole.get(name) or ("" if result.share_id else uses.shares.get(name))
        if owner:
            in_use.append(f"device {name}: in use by {owner}")
        for conflict in sorted(conflicts.get(name, ())):
            owner = uses.whole.get(conflict) or uses.shares.get(conflict)
            why = (
                f"device {name}: a PF and its functions exclude each other, and {conflict} is in "
                f"use by {owner}"
            )
            if conflict in uses.unrestored:
                in_use.append(why)
            elif owner:
                excluded.append(f"{why}; delete one of the pods, or select by dra.net/isSriovVf")
    if in_use:
        raise NotYetError("; ".join(in_use))
    if excluded:
        raise RefusedError("; ".join(excluded))
