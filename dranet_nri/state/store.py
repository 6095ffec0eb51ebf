"""Record store: a directory of records, written by the one process that owns it.

Rules:
1. The shim writes allocations, the plugin attachments. A lock file serializes the shim and its
   commands. The plugin needs none: PluginLock admits one process, and its commands only read.
2. An unusable record is never overwritten, reset or deleted. A corrupt one is moved to
   `quarantine/` under a unique name. One of another version stays, and put is refused. The sole
   writer of a directory then writes its copy in memory again, also if the file was removed.
3. A change is durable when put or remove returns; if it raises, the old or the new record exists.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar, Final, Generic, TypeVar

from dranet_nri.component.files import FileSystem, remove, remove_staged, save
from dranet_nri.errors import StateCorruptError
from dranet_nri.model import Allocation, Attachment, parse_uid
from dranet_nri.state.lock import OperationLock
from dranet_nri.state.reader import ALLOCATIONS, ATTACHMENTS, QUARANTINE, RecordReader, name_of
from dranet_nri.state.record import (
    decode_allocation,
    decode_attachment,
    encode_allocation,
    encode_attachment,
)

_LOCK: Final = ".lock"
_DIRECTORY_MODE: Final = 0o750
_PARENT_MODE: Final = 0o755  # other users read the metrics beside the records

R = TypeVar("R", bound=Allocation | Attachment)


class RecordStore(RecordReader[R], Generic[R]):
    """The records of one directory, for their writer.

    Attributes:
        sole_writer: no other process writes records here, so that memory is up to date.
        quarantined: claim UID → path of its last quarantined record since the store was opened.
    """

    sole_writer: ClassVar[bool] = False

    def __init__(
        self,
        directory: Path,
        decode: Callable[[bytes], R],
        encode: Callable[[R], bytes],
        *,
        fs: FileSystem,
    ) -> None:
        """Create the directory, remove staged files of a crash, read the records.

        Raises:
            StateError: inotify is not available.
            OSError: the directory cannot be created, read or written.
        """
        self.quarantined: dict[str, Path] = {}
        self._encode = encode
        self._fs = fs
        create = partial(_create, fs, directory)
        self._lock = (
            _Existing(directory, create)
            if self.sole_writer
            else OperationLock(directory / _LOCK, create)
        )
        with self._lock:
            remove_staged(fs, directory)
        super().__init__(directory, decode, owner=os.geteuid())

    def put(self, record: R) -> None:
        """Write a claim's record.

        Raises:
            InvalidValueError: the record is invalid; nothing was written.
            StateError: an unusable record is in its place, and is not overwritten.
            OSError: the write failed; the old or the new record exists.
        """
        key = record.claim.uid
        data = self._encode(record)
        with self._lock:
            self._read_changes()
            if self._is_in_place(key):
                raise self._broken[key].error
            save(self._fs, self._directory / name_of(key), data, new=key not in self._records)
            self._index(key, record)
            self._read_changes(own=key)

    def remove(self, claim_uid: str) -> None:
        """Remove a claim's record, if any. An unusable one is quarantined.

        Raises:
            InvalidValueError: claim_uid is not a valid file name.
            OSError: the removal failed; another call completes it.
        """
        key = parse_uid(claim_uid)
        with self._lock:
            self._read_changes()
            if self._is_in_place(key):
                self._quarantine(key)
            else:
                remove(self._fs, self._directory / name_of(key))
            self._index(key, self._load_quarantined(key))
            self._read_changes(own=key)

    def _read(self, key: str) -> None:
        """Read one record again; quarantine a corrupt one, and write a removed one again."""
        previous = self._records.get(key) if self.sole_writer else None
        super()._read(key)
        if self._is_corrupt(key):
            with self._lock:
                super()._read(key)  # another process may have replaced it meanwhile
                if self._is_corrupt(key):
                    with suppress(OSError):  # it stays in place, and put is refused
                        self._quarantine(key)
                        if previous is not None:
                            save(self._fs, self._directory / name_of(key), self._encode(previous))
                    super()._read(key)
        elif previous is not None and key not in self._records and not self._is_in_place(key):
            self._index(key, previous)
            with self._lock:  # creates the directory if it was removed, too
                save(self._fs, self._directory / name_of(key), self._encode(previous))

    def _is_corrupt(self, key: str) -> bool:
        return self._is_in_place(key) and isinstance(self._broken[key].error, StateCorruptError)

    def _is_in_place(self, key: str) -> bool:
        """Whether an unusable record is in the place of the key's record."""
        broken = self._broken.get(key)
        return broken is not None and broken.in_place

    def _quarantine(self, key: str) -> None:
        quarantine = self._directory / QUARANTINE
        quarantine.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        self._may_have_quarantine = True
        # No other process creates files here: one at a time writes.
        free = (quarantine / f"{name_of(key)}.{number}" for number in count(1))
        target = next(path for path in free if not os.path.lexists(path))
        self._fs.replace(self._directory / name_of(key), target)
        self.quarantined[key] = target
        self._fs.sync_directory(quarantine)
        self._fs.sync_directory(self._directory)


@dataclass(frozen=True, slots=True)
class _Existing:
    """In place of a lock: creates the directory if it is missing."""

    directory: Path
    create: Callable[[], None]

    def __enter__(self) -> None:
        if not self.directory.is_dir():
            self.create()

    def __exit__(self, *_: object) -> None:
        pass


def _create(fs: FileSystem, directory: Path) -> None:
    for path in reversed((directory, *directory.parents)):
        if not path.is_dir():
            path.mkdir(mode=_DIRECTORY_MODE if path == directory else _PARENT_MODE, exist_ok=True)
            fs.sync_directory(path.parent)


class AllocationStore(RecordStore[Allocation]):
    """The allocations, as the shim writes them."""

    def __init__(self, directory: Path = ALLOCATIONS, *, fs: FileSystem | None = None) -> None:
        """See RecordStore."""
        super().__init__(directory, decode_allocation, encode_allocation, fs=fs or FileSystem())


class AttachmentStore(RecordStore[Attachment]):
    """The attachments, as the plugin writes them."""

    sole_writer = True

    def __init__(self, directory: Path = ATTACHMENTS, *, fs: FileSystem | None = None) -> None:
        """See RecordStore."""
        super().__init__(directory, decode_attachment, encode_attachment, fs=fs or FileSystem())
