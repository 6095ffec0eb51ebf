"""Thread-safe attachment records, shared by the event loop and the threads of kernel work."""

import threading

from dranet_nri.model import Attachment
from dranet_nri.state.corrupt import CorruptSummary, of_attachments
from dranet_nri.state.store import AttachmentStore


class AttachmentRecords:
    """AttachmentStore with a lock, for several threads."""

    def __init__(self, store: AttachmentStore) -> None:
        """Own the store; nothing else may use it."""
        self._store = store
        self._guard = threading.Lock()

    def put(self, attachment: Attachment) -> None:
        """Replace the claim's record; see RecordStore.put."""
        with self._guard:
            self._store.put(attachment)

    def swap(self, expected: Attachment | None, attachment: Attachment) -> bool:
        """Replace the claim's record if it still equals `expected` (None: no record).

        Returns:
            Whether it was replaced. False: another thread wrote a newer one.
        """
        with self._guard:
            if self._store.get(attachment.claim.uid) != expected:
                return False
            self._store.put(attachment)
            return True

    def get(self, claim_uid: str) -> Attachment | None:
        """Return the claim's record."""
        with self._guard:
            return self._store.get(claim_uid)

    def all(self) -> tuple[Attachment, ...]:
        """Return all records."""
        with self._guard:
            return self._store.records()

    def blocking(self) -> tuple[CorruptSummary, ...]:
        """Return the unusable records that are not quarantined, from the current files.

        Raises:
            StateError, OSError: see RecordReader.refresh.
        """
        with self._guard:
            self._store.refresh()
            return tuple(
                corrupt for corrupt in of_attachments(self._store) if corrupt.broken.blocking
            )

    def refresh(self) -> None:
        """Write removed records again; see RecordReader.refresh."""
        with self._guard:
            self._store.refresh()

    def remove(self, claim_uid: str) -> None:
        """Remove the claim's record; see RecordStore.remove."""
        with self._guard:
            self._store.remove(claim_uid)

    def close(self) -> None:
        """Close the store."""
        with self._guard:
            self._store.close()
