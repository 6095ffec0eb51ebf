"""Transactions of Prepare and Unprepare; they write, and may block.

Rules:
1. A record is on disk before the response to the kubelet.
2. A device is allocated only if no other record has it, and the plugin has it in no other pod.
3. The CDI ids of a claim do not change, because a kubelet can keep them, even if the record was
   lost. So a claim is assigned to a pod only if the plugin has none of its devices in another pod.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dra_shim.checkpoint.transaction import CheckpointTransaction, nonce_for
from dra_shim.pool import DeviceUsage
from dra_shim.prepare.allocation import PrepareSettings, allocation_of, is_recorded
from dra_shim.prepare.errors import NotYetError
from dra_shim.resourceapi import AllocatedClaim, PodUse
from dranet_nri.config import Provided, SameConfig, assign_addresses, clashes
from dranet_nri.errors import ConfigError, OwnedError, RefusedError
from dranet_nri.model import AllocatedDevice, Allocation, Device, ObjectRef


@dataclass(frozen=True, slots=True)
class RecordState:
    """A record, and whether the plugin can still have a device of its claim in a pod."""

    record: Allocation
    held: bool


@dataclass(frozen=True, slots=True)
class RecordInputs:
    """Devices of the node and their conflicts, for the record of one claim.

    Attributes:
        devices: devices of the node, by name.
        conflicts: device → devices that no other pod may have at the same time.
        provided: parameters of cloud and profile; see allocation_of.
        runs: the pod already has its devices, so duplicate names and addresses are not refused.
    """

    devices: Mapping[str, Device]
    conflicts: Mapping[str, frozenset[str]]
    provided: Mapping[tuple[str, str], tuple[Provided, ...]] = field(default_factory=dict)
    runs: bool = False


def record(
    transaction: CheckpointTransaction,
    claim: AllocatedClaim,
    pod: ObjectRef,
    use: PodUse,
    given: RecordInputs,
    terms: PrepareSettings,
) -> Allocation:
    """Return the claim's record for this pod; create it if there is none.

    Args:
        transaction: the open transaction.
        claim: the claim.
        pod: the pod that gets it.
        use: how the pod uses it.
        given: devices and parameters for the claim.
        terms: settings for all claims.

    Raises:
        NotYetError: a device or an address is still in use, or a device is not on the node.
        DranetError: the claim is refused, or its record is unusable.
        OSError: the record cannot be written.
    """
    before = transaction.by_uid(claim.ref.uid)
    if before and is_recorded(before[0], claim, pod.uid, terms):
        return before[0]
    _check_free(claim, transaction.in_use((claim.ref, pod)), given.conflicts)
    holder = transaction.holder(claim.ref.uid, besides=pod.uid)
    if holder is not None:
        raise NotYetError(f"claim {claim.ref}: pod {holder} has not given its devices back")
    nonce = before[0].nonce if before else nonce_for(claim.ref.uid)
    made = allocation_of(claim, pod, use, given.devices, terms, nonce, given.provided)
    made = _leased(made, transaction.addresses(besides=claim.ref.uid))
    if not given.runs:
        check_distinct([made, *_others(transaction, made)])
    transaction.record([made])
    return made


def peek(
    checkpoint: CheckpointTransaction, mutex: threading.Lock, claim_uid: str
) -> tuple[Allocation, ...] | None:
    """Return a claim's record without a transaction, to save a thread and the lock.

    Args:
        checkpoint: not entered.
        mutex: held by the thread that has entered it.
        claim_uid: of the claim.

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
    """Check that no two devices of a pod have the same name or address.

    Raises:
        ConfigError: all duplicates, with their devices.
    """
    violations = clashes(
        [
            SameConfig(
                f"device {device.device.name} of claim {record.claim}",
                device.config,
                _own_name(device),
            )
            for record in records
            for device in record.devices
        ]
    )
    if violations:
        raise ConfigError(violations)


def _own_name(given: AllocatedDevice) -> str:
    """Return the name of the interface that moves, "" if it stays on the host."""
    stays = given.share_id and given.config.interface.child is None
    if stays or given.admin_access:
        return ""
    return str(given.device.attribute("dra.net/ifName") or "")


def _others(transaction: CheckpointTransaction, made: Allocation) -> list[Allocation]:
    return [
        entry for entry in transaction.of_pod(made.pod.uid) if entry.claim.uid != made.claim.uid
    ]


def forget(
    transaction: CheckpointTransaction, claim_uid: str, judged: Allocation | None = None
) -> bool:
    """Remove a claim's record and return whether there was one; a corrupt one is quarantined.

    Args:
        transaction: the open transaction.
        claim_uid: UID of the claim.
        judged: the record to remove, as returned by `record_state`; a record that was written since
            is kept. None for any record.

    Raises:
        OSError: the record cannot be removed.
    """
    there = transaction.by_uid(claim_uid)
    if judged is not None and not any(record is judged for record in there):
        return False
    transaction.forget(claim_uid)
    return bool(there)


def record_state(transaction: CheckpointTransaction) -> tuple[RecordState, ...]:
    """Return all records."""
    return tuple(
        RecordState(entry, transaction.holds(entry.claim.uid)) for entry in transaction.records()
    )


def _leased(made: Allocation, taken: Sequence[str]) -> Allocation:
    """Return a record with addresses in place of ranges."""
    try:
        configs = assign_addresses([device.config for device in made.devices], taken)
    except OwnedError as error:  # retriable: a pod can end
        raise NotYetError(str(error)) from error
    given = zip(made.devices, configs, strict=True)
    return replace(made, devices=tuple(replace(device, config=config) for device, config in given))


def _check_free(
    claim: AllocatedClaim, uses: DeviceUsage, conflicts: Mapping[str, frozenset[str]]
) -> None:
    taken = [result for result in claim.results if not result.admin_access]
    held: list[str] = []
    for entry in taken:
        name = entry.device[2]
        who = uses.whole.get(name) or ("" if entry.share_id else uses.shares.get(name))
        if who:
            held.append(f"device {name}: in use by {who}")
    if held:
        raise NotYetError("; ".join(held))
    excluded = [
        f"device {name}: a PF and its functions exclude each other, and {conflict} is in use "
        f"by {who}; delete one of the pods, or select by dra.net/isSriovVf"
        for name in (result.device[2] for result in taken)
        for conflict in sorted(conflicts.get(name, ()))
        if (who := uses.whole.get(conflict) or uses.shares.get(conflict))
    ]
    if excluded:
        raise RefusedError("; ".join(excluded))
