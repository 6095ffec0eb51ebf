"""Corrupt records: location, cause and remedy, for `status`, `doctor` and refusals.

Rules:
1. A corrupt file in a record's place, or an unreadable one, blocks: an operator must act.
2. A quarantined record does not block. Its bytes stay until an operator removes them.
"""

from dataclasses import dataclass
from pathlib import Path

from dranet_nri.errors import StateCorruptError
from dranet_nri.model import Allocation, Attachment
from dranet_nri.state.reader import CorruptRecord, RecordReader


@dataclass(frozen=True, slots=True)
class CorruptSummary:
    """A record that cannot be used, and its text for operators.

    Attributes:
        claim_uid: UID of its claim, from the file name.
        path: location of its bytes.
        broken: the record and its error.
        text: continues "the record of this claim", with path and remedy.
    """

    claim_uid: str
    path: Path
    broken: CorruptRecord
    text: str


def of_allocations(reader: RecordReader[Allocation]) -> tuple[CorruptSummary, ...]:
    """Return the allocations that cannot be used, ordered by claim UID."""
    return tuple(
        _corrupt_summary(
            reader,
            uid,
            broken,
            f"delete its pod, or run dra-shim release --claim-uid {uid}, which quarantines it",
        )
        for uid, broken in sorted(reader.broken.items())
    )


def of_attachments(reader: RecordReader[Attachment]) -> tuple[CorruptSummary, ...]:
    """Return the attachments that cannot be used, ordered by claim UID."""
    return tuple(
        _corrupt_summary(
            reader,
            uid,
            broken,
            "dranet-nri quarantines it when it runs"
            if isinstance(broken.error, StateCorruptError)
            else "dranet-nri reads it as soon as possible, and gives the devices in it to no pod"
            " until then; if they are restored on the host, remove the file",
        )
        for uid, broken in sorted(reader.broken.items())
    )


def quarantine_note(path: Path) -> str:
    """Return the note for quarantined bytes."""
    return f"bytes kept in {path}; remove it when its pod has ended and they are not needed"


def _corrupt_summary(
    reader: RecordReader[Allocation] | RecordReader[Attachment],
    claim_uid: str,
    broken: CorruptRecord,
    remedy: str,
) -> CorruptSummary:
    path = reader.directory / broken.name
    if broken.in_place:
        text = f"cannot be used: {broken.error} ({path}); {remedy}"
    else:
        owner = f", of the pod with UID {broken.pod_uid}" if broken.pod_uid else ""
        text = f"was quarantined{owner}: {broken.error}; {quarantine_note(path)}"
    return CorruptSummary(claim_uid, path, broken, text)
