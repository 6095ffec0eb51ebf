"""Command `release`: removes allocation records."""

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
        corrupt_records = {corrupt.claim_uid: corrupt for corrupt in transaction.corrupt_records()}
        title, records = _selected(transaction, args)
        for record in records:
            transaction.forget(record.claim.uid)
        lines = [_released(record) for record in records]
        if corrupt := corrupt_records.pop(args.claim_uid, None):
            lines.append(_quarantined(transaction, corrupt))
        elif not records:
            lines.append(f"nothing to release: {title} has no allocation")
        document = {"released": [_document(record) for record in records], "messages": lines}
        if not show_document(args.output, lambda: document):
            print_lines(*lines)
        for corrupt in corrupt_records.values():
            _report(transaction, corrupt)
    return 0


def _selected(
    transaction: CheckpointTransaction, args: argparse.Namespace
) -> tuple[str, tuple[Allocation, ...]]:
    """Return the selected claims for messages, and their usable records."""
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


def _quarantined(transaction: CheckpointTransaction, corrupt: CorruptSummary) -> str:
    """Quarantine a corrupt record unless it is quarantined already; return the result."""
    title = f"the record of claim {corrupt.claim_uid}"
    if corrupt.broken.in_place:
        transaction.forget(corrupt.claim_uid)
    if path := transaction.quarantined(corrupt.claim_uid):
        return f"quarantined {title}: {corrupt.broken.error}; {quarantine_note(path)}"
    if corrupt.broken.in_place:  # the first read failed, the second succeeded
        return f"removed {title}; the first attempt failed: {corrupt.broken.error}"
    return f"nothing to release: {title} {corrupt.text}"


def _report(transaction: CheckpointTransaction, corrupt: CorruptSummary) -> None:
    """Report a corrupt record of another claim that blocks, or was quarantined just now."""
    title = f"the record of claim {corrupt.claim_uid}"
    if corrupt.broken.in_place:
        print_lines(f"dra-shim: {title} was not removed: it {corrupt.text}", to=sys.stderr)
    elif corrupt.broken.unread or transaction.quarantined(corrupt.claim_uid):
        print_lines(f"dra-shim: {title} {corrupt.text}", to=sys.stderr)
