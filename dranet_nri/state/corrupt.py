"""Corrupt records: location, cause and remedy, for `status`, `doctor` and refusals.

Rules:
1. A corrupt file in a record's place, or an unreadable one, blocks: an operator must act.
2. A quarantined record is a note. Its bytes are kept until an operator removes them.
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
            f"delete its pod, or run dra-shim release --claim-uid {uid}, which moves it aside",
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
            "dranet-nri moves it aside when it runs"
            if isinstance(broken.error, StateCorruptError)
            else "dranet-nri uses it as soon as it can, and gives what it may hold to no pod until"
            " then; if that is on the host as it was, remove the file",
        )
        for uid, broken in sorted(reader.broken.items())
    )


def kept_in(path: Path) -> str:
    """Return the note for quarantined bytes."""
    return f"bytes kept in {path}; remove it when its pod is gone and nobody needs them"


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
        whose = f", of the pod with UID {broken.pod_uid}" if broken.pod_uid else ""
        text = f"was quarantined{whose}: {broken.error}; {kept_in(path)}"
    return CorruptSummary(claim_uid, path, broken, text)
