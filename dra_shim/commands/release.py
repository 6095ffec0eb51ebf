"""Command `release`: removes allocations."""

import argparse
import sys
from typing import Final

from dra_shim.checkpoint.transaction import CheckpointTransaction
from dra_shim.settings.common import add_state_flags, namespaced_name, state_from, uid
from dranet_nri.component.output import add_output_flag, print_lines, show_document
from dranet_nri.model import Allocation
from dranet_nri.state.corrupt import CorruptSummary, quarantine_note

EXAMPLES: Final = (
    "release --pod UID",
    "release --claim ml/fast",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--claim-uid", type=uid, metavar="UID", help="the claim with this UID")
    which.add_argument(
        "--claim", type=namespaced_name, metavar="NS/NAME", help="the claim with this name"
    )
    which.add_argument("--pod", type=uid, metavar="UID", help="all claims of this pod")
    add_state_flags(parser)
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Remove the records; no record to remove is a success.

    Raises:
        OSError: the records cannot be read or removed.
    """
    with CheckpointTransaction(state_from(args)) as transaction:
        damaged = {corrupt.claim_uid: corrupt for corrupt in transaction.damages()}
        title, records = _selected(transaction, args)
        for record in records:
            transaction.forget(record.claim.uid)
        lines = [_released(record) for record in records]
        if named := damaged.pop(args.claim_uid, None):
            lines.append(_dropped(transaction, named))
        elif not records:
            lines.append(f"nothing to release: {title} has no allocation")
        document = {"released": [_document(record) for record in records], "messages": lines}
        if not show_document(args.output, lambda: document):
            print_lines(*lines)
        for finding in damaged.values():
            _report(transaction, finding)
    return 0


def _selected(
    transaction: CheckpointTransaction, args: argparse.Namespace
) -> tuple[str, tuple[Allocation, ...]]:
    """Return the request for messages, and its usable records."""
    if args.pod is not None:
        return f"pod {args.pod}", transaction.of_pod(args.pod)
    if args.claim is not None:
        return f"claim {'/'.join(args.claim)}", transaction.named(*args.claim)
    return f"claim {args.claim_uid}", transaction.by_uid(args.claim_uid)


def _released(record: Allocation) -> str:
    devices = ", ".join(device.device.name for device in record.devices)
    return f"released claim {record.claim} of pod {record.pod}: {devices}"


def _document(record: Allocation) -> dict[str, object]:
    return {
        "claim": str(record.claim),
        "uid": record.claim.uid,
        "pod": str(record.pod),
        "devices": [device.device.name for device in record.devices],
    }


def _dropped(transaction: CheckpointTransaction, damage: CorruptSummary) -> str:
    """Quarantine a corrupt record, unless that was done already, and return the result."""
    whose = f"the record of claim {damage.claim_uid}"
    if damage.broken.in_place:
        transaction.forget(damage.claim_uid)
    if path := transaction.quarantined(damage.claim_uid):
        return f"quarantined {whose}: {damage.broken.error}; {quarantine_note(path)}"
    if damage.broken.in_place:  # the first read failed, the second succeeded
        return f"removed {whose}; the first attempt failed: {damage.broken.error}"
    return f"nothing to release: {whose} {damage.text}"


def _report(transaction: CheckpointTransaction, damage: CorruptSummary) -> None:
    """Report a corrupt record of another claim: it blocks, or was quarantined just now."""
    whose = f"the record of claim {damage.claim_uid}"
    if damage.broken.in_place:
        print_lines(f"dra-shim: {whose} was not removed: it {damage.text}", to=sys.stderr)
    elif damage.broken.unread or transaction.quarantined(damage.claim_uid):
        print_lines(f"dra-shim: {whose} {damage.text}", to=sys.stderr)
