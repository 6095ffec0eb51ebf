"""The transactions behind Prepare and Unprepare; they write, and may block.

Rules:
1. What is answered to the kubelet stands on disk first.
2. A device is given away only while no other record has it, and the plugin no other pod's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dra_shim.allocator import Uses
from dra_shim.claims import AllocatedClaim, PodUse
from dra_shim.ledger import Ledger, new_nonce
from dra_shim.prepare.errors import NotYetError
from dra_shim.prepare.wanted import Terms, allocation_of, is_recorded
from dranet_nri.config import Configured, clashes, lease_addresses
from dranet_nri.errors import ConfigError, HeldError
from dranet_nri.model import AllocatedDevice, Allocation, Device, ObjectRef


@dataclass(frozen=True, slots=True)
class Standing:
    """A record, and whether the plugin may still have a device of its claim in a pod."""

    record: Allocation
    held: bool


def record(
    ledger: Ledger,
    claim: AllocatedClaim,
    pod: ObjectRef,
    use: PodUse,
    devices: Mapping[str, Device],
    terms: Terms,
    *,
    runs: bool = False,
) -> Allocation:
    """Return the claim's record for this pod, made now unless it is there.

    Args:
        ledger: of this transaction.
        claim: as the server has it.
        pod: the one that has it.
        use: what the pod does with it.
        devices: of the node, by name.
        terms: what holds for all claims.
        runs: the pod has its devices already, so it is not refused what other devices have too.

    Raises:
        NotYetError: a device or an address is another's still, or a device not on the node.
        DranetError: the claim is refused, or its record cannot be used.
        OSError: the record cannot be written.
    """
    before = ledger.by_uid(claim.ref.uid)
    if before and is_recorded(before[0], claim, pod.uid, terms):
        return before[0]
    _check_free(claim, ledger.in_use((claim.ref, pod)))
    made = allocation_of(claim, pod, use, devices, terms, new_nonce())
    made = _leased(made, ledger.addresses(besides=claim.ref.uid))
    if not runs:
        check_distinct([made, *_others(ledger, made)])
    ledger.record([made])
    return made


def check_distinct(records: Sequence[Allocation]) -> None:
    """See that no two devices of a pod would have one name or address.

    Raises:
        ConfigError: names each, and the devices.
    """
    violations = clashes(
        [
            Configured(
                f"device {each.device.name} of claim {record.claim}",
                each.config,
                _own_name(each),
            )
            for record in records
            for each in record.devices
        ]
    )
    if violations:
        raise ConfigError(violations)


def _own_name(given: AllocatedDevice) -> str:
    """Return the name of the interface that moves, "" where it stays on the host."""
    stays = given.share_id and given.config.interface.ipoib is None
    if stays or given.admin_access:
        return ""
    return str(given.device.attribute("dra.net/ifName") or "")


def _others(ledger: Ledger, made: Allocation) -> list[Allocation]:
    return [each for each in ledger.of_pod(made.pod.uid) if each.claim.uid != made.claim.uid]


def forget(ledger: Ledger, claim_uid: str, judged: Allocation | None = None) -> bool:
    """Drop a claim's record, and say whether there was one; one that is broken is moved aside.

    Args:
        ledger: of this transaction.
        claim_uid: of the claim.
        judged: the record to be dropped; another one stays. None for whatever is there.

    Raises:
        OSError: it cannot be removed.
    """
    there = ledger.by_uid(claim_uid)
    if judged is not None and there != (judged,):
        return False
    ledger.forget(claim_uid)
    return bool(there)


def standing(ledger: Ledger) -> tuple[Standing, ...]:
    """Return all records."""
    return tuple(Standing(each, ledger.holds(each.claim.uid)) for each in ledger.records())


def _leased(made: Allocation, taken: Sequence[str]) -> Allocation:
    """Return a record with addresses in place of ranges."""
    try:
        configs = lease_addresses([each.config for each in made.devices], taken)
    except HeldError as error:  # by a pod that may end
        raise NotYetError(str(error)) from error
    given = zip(made.devices, configs, strict=True)
    return replace(made, devices=tuple(replace(each, config=config) for each, config in given))


def _check_free(claim: AllocatedClaim, uses: Uses) -> None:
    held: list[str] = []
    for each in claim.results:
        name = each.device[2]
        who = uses.whole.get(name) or ("" if each.share_id else uses.shares.get(name))
        if who and not each.admin_access:
            held.append(f"device {name}: in use by {who}")
    if held:
        raise NotYetError("; ".join(held))
