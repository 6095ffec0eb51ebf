"""Command `status`: the pod of each device, and the state of the plugin.

It sends no request: records and heartbeat are files.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dranet_nri.component.output import (
    Style,
    Styles,
    add_output_flag,
    print_lines,
    show_document,
    show_table,
)
from dranet_nri.model import Allocation, Attachment, Phase
from dranet_nri.settings import ALLOCATIONS, RUN
from dranet_nri.state import heartbeat
from dranet_nri.state.corrupt import CorruptSummary
from dranet_nri.state.heartbeat import PluginHealth
from dranet_nri.state.records import NodeRecords

EXAMPLES: Final = (
    "status",
    "status --output json",
)
COLUMNS: Final = ("DEVICE", "STATE", "POD", "CLAIM", "IN POD AS", "REASON")
_FIELDS: Final = ("device", "state", "pod", "claim", "inPodAs", "reason")
_STYLES: Final[Styles] = {
    str(Phase.ATTACHED): Style.GOOD,
    str(Phase.DETACHING): Style.WARNING,
    str(Phase.FAILED): Style.BAD,
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument(
        "--allocations-dir", type=Path, default=ALLOCATIONS, help="the shim's records"
    )
    parser.add_argument("--run-dir", type=Path, default=RUN, help="the plugin's directory")
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Print one row per device; return 1 if a record needs an operator, or the plugin is down."""
    health = heartbeat.plugin_health(args.run_dir)
    with NodeRecords(args.allocations_dir, args.run_dir / "attachments") as node:
        attachments = node.attachments.records()
        rows = _rows(
            node.allocations.records(), {record.claim.uid: record for record in attachments}
        )
        warnings = _warnings(attachments)
        corrupt_records = node.corrupt()
    blocking = [corrupt for corrupt in corrupt_records if corrupt.broken.blocking]
    document = {
        "devices": [dict(zip(_FIELDS, row, strict=True)) for row in rows],
        "warnings": warnings,
        "corrupt": _by_claim(blocking),
        "quarantined": _by_claim(
            [corrupt for corrupt in corrupt_records if corrupt not in blocking]
        ),
        "plugin": _plugin(health),
    }
    if not show_document(args.output, lambda: document):
        show_table([COLUMNS, *rows], _STYLES)
        for warning, devices in warnings.items():
            print_lines(f"{', '.join(devices)}: {warning}")
        for corrupt in corrupt_records:
            print_lines(f"record of claim {corrupt.claim_uid} {corrupt.text}")
        if lines := (*health.problems, *health.remarks):
            print_lines(f"the plugin: {'; '.join(lines)}")
    return 1 if blocking or health.problems else 0


def _plugin(health: PluginHealth) -> dict[str, object]:
    return {
        "alive": not health.not_live,
        "connected": not health.problems,
        "problems": list(health.problems),
        "remarks": list(health.remarks),
    }


def _by_claim(corrupt_records: Iterable[CorruptSummary]) -> dict[str, str]:
    """Return the texts of the records by claim UID; a claim may have two records."""
    lines: dict[str, list[str]] = {}
    for corrupt in corrupt_records:
        lines.setdefault(corrupt.claim_uid, []).append(corrupt.text)
    return {uid: "; ".join(texts) for uid, texts in lines.items()}


def _rows(
    allocations: tuple[Allocation, ...], attachments: dict[str, Attachment]
) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for allocation in allocations:
        if allocation.claim.uid in attachments:
            continue
        owner = (str(allocation.pod), str(allocation.claim))
        rows += ((device.device.name, "allocated", *owner, "", "") for device in allocation.devices)
    for record in attachments.values():
        owner = (str(record.pod), str(record.claim))
        reason = record.failure.message if record.failure else ""
        for device in record.devices:
            state = "restored" if device.restored else str(record.phase)
            waiting = record.phase is Phase.DETACHING and not device.restored
            why = reason or (_why_not_restored(record) if waiting else "")
            rows.append((device.device.name, state, *owner, device.pod_name, why))
    return sorted(rows)


def _why_not_restored(record: Attachment) -> str:
    """Return the hint for a device that is not on the host though its pod has ended."""
    return (
        "not restored on the host yet; if this lasts, a process holds its network namespace open"
        f" (the pod's was {record.netns.inode}): lsns --type net lists it; end that process"
    )


def _warnings(attachments: tuple[Attachment, ...]) -> dict[str, list[str]]:
    """Return warning -> devices, of attached devices."""
    found: dict[str, list[str]] = {}
    for record in attachments:
        for device in record.devices if record.phase is Phase.ATTACHED else ():
            for warning in device.warnings:
                found.setdefault(warning, []).append(device.device.name)
    return {warning: sorted(devices) for warning, devices in sorted(found.items())}
