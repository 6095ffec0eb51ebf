"""Record reader: an index of one directory's records by claim and by pod, updated by inotify.

Rules:
1. The directory is authoritative; the index is a cache that `refresh` updates.
2. A reader writes nothing: a read-only mount suffices, and the directory need not exist yet.
3. A broken record affects only its claim. It stays in `broken`, also while quarantined, until a
   valid record replaces it: its pod may run, and its devices must not be used. An operator must
   act only while it is `blocking`.
4. A record that could not be read is read again by each refresh.
5. Not thread-safe: one thread at a time.
6. An absent file is not looked up where inotify reports its absence: see DeferredFileSystem.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from errno import EMFILE, ENFILE, ENOENT, ENOMEM
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Generic, Self, TypeVar

from dranet_nri.component.files import read_record_bytes
from dranet_nri.component.replace import replace
from dranet_nri.errors import StateCorruptError, StateError
from dranet_nri.linux.inotify import UNCHANGED, Watch
from dranet_nri.model import Allocation, Attachment
from dranet_nri.state.record import (
    MAX_RECORD,
    decode_allocation,
    decode_attachment,
    salvage_devices,
    salvage_pod_uid,
)

ALLOCATIONS: Final = Path("/var/lib/dranet-nri/allocations")
ATTACHMENTS: Final = Path("/run/dranet-nri/attachments")
QUARANTINE: Final = "quarantine"
WRITER_UID: Final = 0  # both processes run as uid 0, the shim without any capability

_SUFFIX: Final = ".json"
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

R = TypeVar("R", bound=Allocation | Attachment)

# The shim has several readers, which read the same change one after the other. A store decodes each
# record: Preparer.drop compares identities, and the same bytes may have been written again.
_decode_allocation = lru_cache(maxsize=16)(decode_allocation)
_decode_attachment = lru_cache(maxsize=16)(decode_attachment)


@dataclass(frozen=True, slots=True)
class CorruptRecord:
    """A record that cannot be used.

    Attributes:
        name: path of its bytes, relative to the directory.
        error: the reason.
        pod_uid: UID of its pod, from its bytes or the previous record; None if unknown.
        unread: its bytes could not be read yet; the record may be valid.
        devices: devices that may not be restored, as name and share id ("": exclusive), from its
            bytes; None if unknown.
    """

    name: str
    error: StateError
    pod_uid: str | None = None
    unread: bool = False
    devices: tuple[tuple[str, str], ...] | None = None

    @property
    def in_place(self) -> bool:
        """Whether it is in the record directory, not in quarantine."""
        return not self.name.startswith(f"{QUARANTINE}/")

    @property
    def blocking(self) -> bool:
        """Whether an operator must act: it is in a record's place, or unread."""
        return self.in_place or self.unread


class RecordReader(Generic[R]):
    """An index of one directory's records."""

    def __init__(
        self, directory: Path, decode: Callable[[bytes], R], *, owner: int | None = WRITER_UID
    ) -> None:
        """Read the directory and watch it.

        Args:
            directory: need not exist yet.
            decode: bytes to a record; raises StateError.
            owner: uid that must own each record, None for any.

        Raises:
            StateError: inotify is not available.
            OSError: the directory cannot be read.
        """
        self._directory = directory
        self._decode = decode
        self._owner = owner
        self._records: dict[str, R] = {}
        self._pods: dict[str, set[str]] = {}
        self._broken: dict[str, CorruptRecord] = {}
        self._changed: set[str] = set()
        self._due: set[str] = set()  # keys to read
        self._removed: frozenset[str] = frozenset()  # due names without a file
        self._may_have_quarantine = True
        self._all_due = True
        self._watch = Watch(directory)
        try:
            self.rescan()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return self; leaving closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Stop watching. Idempotent; the index stays usable."""
        self._watch.close()

    @property
    def directory(self) -> Path:
        """Return the directory; `CorruptRecord.name` is relative to it."""
        return self._directory

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when records change."""
        return self._watch.fileno()

    def refresh(self) -> frozenset[str]:
        """Read changed records; return the claims (UIDs) whose records may have changed.

        One read(2) if nothing changed. A record that is in place before the call is included.

        Raises:
            StateError: no directory of the path can be watched.
            OSError: the directory cannot be read now; the next call tries again.
        """
        self._read_changes()
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def rescan(self) -> frozenset[str]:
        """Read all records again, independent of events; return as refresh does."""
        self._all_due = True
        self._watch.rearm()
        return self.refresh()

    def get(self, claim_uid: str) -> R | None:
        """Return the claim's record; None without a usable one."""
        return self._records.get(claim_uid)

    def by_pod(self, pod_uid: str) -> tuple[R, ...]:
        """Return the records of a pod's claims, ordered by claim UID."""
        return tuple(self._records[uid] for uid in sorted(self._pods.get(pod_uid, ())))

    def records(self) -> tuple[R, ...]:
        """Return all records, ordered by claim UID."""
        return tuple(self._records[uid] for uid in sorted(self._records))

    @property
    def broken(self) -> Mapping[str, CorruptRecord]:
        """Unusable records, by the claim UID in the file name."""
        return MappingProxyType(self._broken)

    def broken_of_pod(self, pod_uid: str) -> tuple[CorruptRecord, ...]:
        """Return the broken records whose pod is known to be this one."""
        return tuple(item for item in self._broken.values() if item.pod_uid == pod_uid)

    @property
    def unread(self) -> tuple[CorruptRecord, ...]:
        """Records whose current content is unknown."""
        return tuple(item for item in self._broken.values() if item.unread)

    def is_missing(self, claim_uid: str) -> bool:
        """Whether the claim has no record; False for an unread one, which may be valid."""
        broken = self._broken.get(claim_uid)
        return claim_uid not in self._records and not (broken and broken.unread)

    # ------------------------------------------------------------------- reading

    def _read_changes(self, own: str | None = None) -> None:
        """Read the changed records, except the one that this process wrote."""
        changes = self._watch.drain()
        if changes is UNCHANGED and not self._due and not self._all_due:
            return
        self._all_due = self._all_due or changes.everything
        self._removed = changes.removed
        if self._all_due or QUARANTINE in changes.names:
            self._may_have_quarantine = True
        named = {key for name in changes.names if (key := key_of(name))}
        self._due = (self._due | named) - {own}
        if self._all_due:
            self._due |= self._all_keys()
            self._all_due = False
        for key in sorted(self._due):
            self._read_again(key)

    def _read_again(self, key: str) -> None:
        """Read a due record; it stays due until the read succeeds."""
        before = self._broken.get(key)
        self._read(key)
        now = self._broken.get(key)
        if now is None or not now.unread:
            self._due.discard(key)
        elif before is not None and before.unread:
            return  # it was unread before as well
        self._changed.add(key)

    def _read(self, key: str) -> None:
        """Read one record again."""
        name = name_of(key)
        found = None if name in self._removed else self._load(self._watch.directory, key, name, "")
        if found is None:
            try:
                found = self._load_quarantined(key)
            except OSError as cause:
                found = self._unread_record(key, "", name, cause)
        self._index(key, found)

    def _all_keys(self) -> set[str]:
        """Return the keys of all present and former records."""
        names = _names(self._watch.directory)
        originals = (name.rpartition(".")[0] for name in self._quarantined_names())
        keys = {key for name in (*names, *originals) if (key := key_of(name))}
        return keys | self._records.keys() | self._broken.keys()

    def _index(self, key: str, found: R | CorruptRecord | None) -> None:
        """Replace the record of a key in the index."""
        old = self._records.pop(key, None)
        self._broken.pop(key, None)
        if old is not None:
            claims = self._pods[old.pod.uid]
            claims.discard(key)
            if not claims:
                del self._pods[old.pod.uid]
        if isinstance(found, CorruptRecord):
            self._broken[key] = found
        elif found is not None:
            self._records[key] = found
            self._pods.setdefault(found.pod.uid, set()).add(key)

    def _load(
        self, directory: int | None, key: str, name: str, below: str
    ) -> R | CorruptRecord | None:
        if directory is None:
            return None
        data = b""
        try:
            data = read_record_bytes(directory, name, MAX_RECORD, self._owner)
            record = self._decode(data)
        except FileNotFoundError:
            return None
        except StateError as cause:
            return self._broken_record(key, below + name, cause, data)
        except OSError as cause:
            return self._unread_record(key, below, name, cause)
        if record.claim.uid != key:
            wrong = StateCorruptError(f"{name}: has the record of claim {record.claim.uid}")
            return CorruptRecord(below + name, wrong, record.pod.uid)
        return record

    def _unread_record(self, key: str, below: str, name: str, cause: OSError) -> CorruptRecord:
        error = StateError(f"{name}: cannot be read: {cause.strerror}")
        return replace(self._broken_record(key, below + name, error, b""), unread=True)

    def _broken_record(self, key: str, name: str, error: StateError, data: bytes) -> CorruptRecord:
        record = self._records.get(key)
        before = self._broken.get(key)
        pod_uid = (
            salvage_pod_uid(data)
            or (record.pod.uid if record is not None else None)
            or (before.pod_uid if before is not None else None)
        )
        return CorruptRecord(name, error, pod_uid, devices=salvage_devices(data))

    # ------------------------------------------------------------------- quarantine

    def _open_quarantine(self) -> int | None:
        """Open the directory; None if it is absent or unusable.

        Raises:
            OSError: the process or the node has too few resources now.
        """
        if self._watch.directory is None or not self._may_have_quarantine:
            return None
        try:
            return os.open(QUARANTINE, _OPEN_DIRECTORY, dir_fd=self._watch.directory)
        except OSError as error:
            if error.errno in {EMFILE, ENFILE, ENOMEM}:
                raise
            self._may_have_quarantine = error.errno != ENOENT
            return None

    def _quarantined_names(self) -> list[str]:
        directory = self._open_quarantine()
        try:
            return _names(directory)
        finally:
            if directory is not None:
                os.close(directory)

    def _load_quarantined(self, key: str) -> CorruptRecord | None:
        """Return the newest quarantined record of a key.

        Raises:
            OSError: the quarantine cannot be read now.
        """
        names = [
            name for name in self._quarantined_names() if name.rpartition(".")[0] == name_of(key)
        ]
        directory = self._open_quarantine() if names else None
        if directory is None:
            return None
        name = max(names, key=lambda name: (len(name), name))
        try:
            found = self._load(directory, key, name, f"{QUARANTINE}/")
        finally:
            os.close(directory)
        if found is None or isinstance(found, CorruptRecord):
            return found
        return CorruptRecord(
            f"{QUARANTINE}/{name}", StateError(f"{name}: was quarantined"), found.pod.uid
        )


def _names(directory: int | None) -> list[str]:
    # By descriptor, which pathlib cannot: the path may now name another directory.
    return [] if directory is None else os.listdir(directory)  # noqa: PTH208


def key_of(name: str) -> str | None:
    """Return the claim UID of a file name, None if it is not a record's."""
    if name.startswith(".") or not name.endswith(_SUFFIX):
        return None
    return name.removesuffix(_SUFFIX)


def name_of(claim_uid: str) -> str:
    """Return the file name of a claim's record."""
    return f"{claim_uid}{_SUFFIX}"


class AllocationReader(RecordReader[Allocation]):
    """The allocations, as the plugin reads them."""

    def __init__(self, directory: Path = ALLOCATIONS, *, owner: int | None = WRITER_UID) -> None:
        """See RecordReader."""
        super().__init__(directory, _decode_allocation, owner=owner)


class AttachmentReader(RecordReader[Attachment]):
    """The attachments, as the shim reads them."""

    def __init__(self, directory: Path = ATTACHMENTS, *, owner: int | None = WRITER_UID) -> None:
        """See RecordReader."""
        super().__init__(directory, _decode_attachment, owner=owner)
