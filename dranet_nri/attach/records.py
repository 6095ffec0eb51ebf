"""Attachment records shared by the event loop and the threads that do kernel work."""

import threading

from dranet_nri.model import Attachment
from dranet_nri.state.corrupt import CorruptSummary, of_attachments
from dranet_nri.state.store import AttachmentStore


class AttachmentRecords:
    """An AttachmentStore that one thread uses at a time."""

    def __init__(self, store: AttachmentStore) -> None:
        """Guard store, which has no other user from now on."""
        self._store = store
        self._guard = threading.Lock()

    def put(self, attachment: Attachment) -> None:
        """Replace the claim's record; see RecordStore.put."""
        with self._guard:
            self._store.put(attachment)

    def swap(self, seen: Attachment | None, attachment: Attachment) -> bool:
        """Replace the claim's record if it still is what was seen, None if there was none.

        Returns:
            Whether it was. False: another thread knows better by now.
        """
        with self._guard:
            if self._store.get(attachment.claim.uid) != seen:
                return False
            self._store.put(attachment)
            return True

    def get(self, claim_uid: str) -> Attachment | None:
        """Return the claim's record."""
        with self._guard:
            return self._store.get(claim_uid)

    def all(self) -> tuple[Attachment, ...]:
        """Return every record."""
        with self._guard:
            return self._store.records()

    def in_the_way(self) -> tuple[CorruptSummary, ...]:
        """Return the records that cannot be used and are not moved aside, as they are on disk now.

        Raises:
            StateError, OSError: see RecordReader.refresh.
        """
        with self._guard:
            self._store.refresh()
            return tuple(
                damage for damage in of_attachments(self._store) if damage.broken.in_the_way
            )

    def remove(self, claim_uid: str) -> None:
        """Forget the claim; see RecordStore.remove."""
        with self._guard:
            self._store.remove(claim_uid)

    def close(self) -> None:
        """Let go of the directory."""
        with self._guard:
            self._store.close()
