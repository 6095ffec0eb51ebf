"""Node records: one reader of both record directories, allocations and attachments."""

from pathlib import Path
from typing import Self

from dranet_nri.state.corrupt import CorruptSummary, of_allocations, of_attachments
from dranet_nri.state.reader import AllocationReader, AttachmentReader, CorruptRecord


class NodeRecords:
    """Read-only records of both processes; a context manager, for one thread."""

    def __init__(self, allocations: Path, attachments: Path) -> None:
        """Read the directories and watch them; they need not exist yet.

        Raises:
            StateError: inotify is not available.
            OSError: a directory cannot be read.
        """
        self.allocations = AllocationReader(allocations, owner=None)
        try:
            self.attachments = AttachmentReader(attachments, owner=None)
        except BaseException:
            self.allocations.close()
            raise
        self._readers = (self.allocations, self.attachments)

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching; the index stays usable."""
        for reader in self._readers:
            reader.close()

    def filenos(self) -> tuple[int, ...]:
        """Return the descriptors that become readable when records change."""
        return tuple(reader.fileno() for reader in self._readers)

    def refresh(self) -> frozenset[str]:
        """Read changed records; return the claims (UIDs) whose records may have changed.

        Raises:
            StateError: no directory of a path can be watched.
            OSError: a directory cannot be read now. The next call tries again.
        """
        return frozenset[str]().union(*(reader.refresh() for reader in self._readers))

    def claim_uids(self) -> frozenset[str]:
        """Return the UIDs of claims with a usable record."""
        return frozenset(
            record.claim.uid for reader in self._readers for record in reader.records()
        )

    def is_broken(self, claim_uid: str) -> bool:
        """Whether a record of the claim cannot be used."""
        return any(claim_uid in reader.broken for reader in self._readers)

    @property
    def unread(self) -> tuple[CorruptRecord, ...]:
        """Records whose current content is unknown."""
        return tuple(record for reader in self._readers for record in reader.unread)

    def corrupt(self) -> tuple[CorruptSummary, ...]:
        """Return the unusable records, allocations first."""
        return (*of_allocations(self.allocations), *of_attachments(self.attachments))
