"""Checkpoint transactions: allocation records, read and written under a lock.

Rules:
1. A transaction that reads in order to write holds the lock from the first read to the last write.
2. Several records are written all or none, also after a failure or a signal.
3. A device and its addresses are in use while a record allocates it or the plugin has not restored
   it. The latter includes a device whose attach failed and could not be undone.
"""

import asyncio
import hashlib
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dra_shim.checkpoint.usage import addresses_in_use, devices_in_use
from dra_shim.pool import DeviceUsage
from dra_shim.settings.common import StatePaths
from dranet_nri.component.files import DeferredFileSystem, FileSystem
from dranet_nri.errors import FILE_REMEDIES, RefusedError
from dranet_nri.model import Allocation, Device, ObjectRef
from dranet_nri.state.corrupt import CorruptSummary, of_allocations
from dranet_nri.state.lock import OperationLock
from dranet_nri.state.reader import AttachmentReader
from dranet_nri.state.records import NodeRecords
from dranet_nri.state.store import AllocationStore

_LOCK: Final = ".lock"
_BLOCKED_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
# 64 bits of the UID, so that a stale CDI spec of another claim never matches
_NONCE_DIGITS: Final = 16
FREED_S: Final = 0.08  # seconds; the readers of the records read a change after 0.1 s


class UnwritableError(OSError):
    """Records cannot be written.

    Attributes:
        filename: the state directory.
        strerror: the error, with the file if the kernel named one.
    """

    def __str__(self) -> str:
        """Return the error with its remedy."""
        remedy = FILE_REMEDIES.get(self.errno, "make it writable")
        return f"state directory {self.filename}: cannot be written: {self.strerror}; {remedy}"


@contextmanager
def writing(state: StatePaths) -> Iterator[None]:
    """Convert an OSError in the block to one that names the state directory.

    Raises:
        UnwritableError: in place of another OSError.
    """
    try:
        yield
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        why = f"{error.strerror or error}{place}"
        raise UnwritableError(error.errno, why, str(state.directory)) from error


class CheckpointTransaction:
    """Records under the lock; a context manager, for one thread at a time."""

    def __init__(
        self, state: StatePaths, *, fs: FileSystem | None = None, keep: bool = False
    ) -> None:
        """Set the directories; nothing is opened yet.

        Args:
            state: locations of the records.
            fs: file operations.
            keep: whether directories stay open between transactions, so that each reads only
                changed records; then call `close`.
        """
        self._state = state
        self._fs = fs or DeferredFileSystem()
        self._keep = keep
        make = partial(state.directory.mkdir, mode=0o755, parents=True, exist_ok=True)
        self._lock = OperationLock(state.directory / _LOCK, make)
        self._opened: _Opened | None = None
        self._stale = True  # attachment records; they are read on first use

    def __enter__(self) -> Self:
        """Take the lock and read the allocation records; attachment records are read on first use.

        Raises:
            StateError: inotify is not available.
            UnwritableError: the directory cannot be created or written.
            OSError: the directory cannot be read; also of methods that read attachment records.
        """
        with writing(self._state):
            self._lock.__enter__()
        try:
            if self._opened is None:
                self._opened = self._open()
            self._opened.store.refresh()
            self._stale = True
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock; directories stay open with `keep`, except after an OSError."""
        if not self._keep or isinstance(error, OSError):
            self.close()
        self._lock.__exit__(kind, error, trace)

    def free_later(self) -> None:
        """Free files that are created or replaced from now on after FREED_S.

        The devices of the pod may move soon, see DeferredFileSystem. Called on the event loop.
        """
        freed = ExitStack()
        freed.enter_context(self._fs.freed_later())
        asyncio.get_running_loop().call_later(FREED_S, freed.close)

    def close(self) -> None:
        """Close directories that stayed open. Idempotent."""
        if self._opened is not None:
            self._opened.store.close()
            self._opened.attachments.close()
            self._opened = None

    def _open(self) -> "_Opened":
        with writing(self._state):
            store = AllocationStore(self._state.allocations, fs=self._fs)
        try:
            return _Opened(store, AttachmentReader(self._state.attachments, owner=None))
        except BaseException:
            store.close()
            raise

    @property
    def _store(self) -> AllocationStore:
        assert self._opened is not None, "only inside a transaction"
        return self._opened.store

    @property
    def _attachments(self) -> AttachmentReader:
        """Return the attachment records of this transaction."""
        assert self._opened is not None, "only inside a transaction"
        if self._stale:
            self._opened.attachments.refresh()
            self._stale = False
        return self._opened.attachments

    @property
    def directory(self) -> Path:
        """Return the directory of the records."""
        return self._state.allocations

    def corrupt_records(self) -> tuple[CorruptSummary, ...]:
        """Return the corrupt records, ordered by claim UID."""
        return of_allocations(self._store)

    def quarantined(self, claim_uid: str) -> Path | None:
        """Return the path of a claim's quarantined record, None if it was not quarantined."""
        return self._store.quarantined.get(claim_uid)

    def recorded(self, claim: ObjectRef, pod: ObjectRef) -> Allocation | None:
        """Return the claim's record for this pod, None if there is none.

        A claim without a UID is looked up by name.

        Raises:
            RefusedError: the record is for another pod, the name is that of another claim, or the
                plugin has devices of the claim in another pod.
        """
        broken = self._store.broken.get(claim.uid)
        if broken is not None and broken.in_place:  # a quarantined record cannot be lost
            raise RefusedError(
                f"claim {claim}: its record cannot be used: {broken.error}; "
                f"dra-shim release --claim-uid {claim.uid} quarantines it"
            )
        for record in self._store.records():
            same_name = (record.claim.namespace, record.claim.name) == (claim.namespace, claim.name)
            if record.claim.uid != claim.uid and not same_name:
                continue
            if claim.uid not in {"", record.claim.uid}:
                raise RefusedError(
                    f"claim {claim}: the name is still allocated under UID {record.claim.uid} "
                    f"to pod {record.pod}; dra-shim release --claim-uid {record.claim.uid}"
                )
            if record.pod.uid != pod.uid:
                raise RefusedError(
                    f"claim {claim}: in use by pod {record.pod} (UID {record.pod.uid}); "
                    f"dra-shim release --claim-uid {record.claim.uid} when that pod is gone"
                )
            return record
        if attached_pod := self.attached_pod(claim.uid, ignored=pod.uid):
            raise RefusedError(
                f"claim {claim}: pod {attached_pod} (UID {attached_pod.uid}) has not released its "
                "devices; dranet-nri restores them when the pod has ended"
            )
        return None

    def in_use(self, ignored: tuple[ObjectRef, ObjectRef] | None = None) -> DeviceUsage:
        """Return the owners of all devices.

        Args:
            ignored: (claim, pod). The record of this claim is ignored, and so is its attachment to
                this pod, but not its attachment to another pod.
        """
        return devices_in_use(self._store.records(), self._attachments.records(), ignored)

    def may_be_attached(self, claim_uid: str) -> bool:
        """Return whether a device of the claim is attached to a pod, or whether that is unknown.

        It is unknown while the attachment record is unreadable; a quarantined one is ignored.
        """
        attached = self._attachments.get(claim_uid)
        if attached is not None:
            return attached.owns_devices
        return bool((broken := self._attachments.broken.get(claim_uid)) and broken.in_place)

    def attached_pod(self, claim_uid: str, ignored: str) -> ObjectRef | None:
        """Return the pod to which devices of the claim are attached, None if there is none.

        The CDI spec of the claim may still be that of this pod, and another pod would have the same
        CDI ids.

        Args:
            claim_uid: UID of the claim.
            ignored: UID of a pod that does not count.
        """
        attachment = self._attachments.get(claim_uid)
        if attachment and attachment.pod.uid != ignored and attachment.owns_devices:
            return attachment.pod if attachment.devices else None
        return None

    def records(self) -> tuple[Allocation, ...]:
        """Return all records."""
        return self._store.records()

    def recorded_devices(self) -> tuple[Device, ...]:
        """Return the devices of all records, with their facts at allocation."""
        return _devices(self._store.records())

    def addresses(self, ignored: str = "") -> tuple[str, ...]:
        """Return the addresses of pods, in CIDR notation.

        Args:
            ignored: UID of a claim that does not count.
        """
        return tuple(addresses_in_use(self._store.records(), self._attachments.records(), ignored))

    def of_pod(self, pod_uid: str) -> tuple[Allocation, ...]:
        """Return the records of a pod's claims."""
        return self._store.by_pod(pod_uid)

    def named(self, namespace: str, name: str) -> tuple[Allocation, ...]:
        """Return the record of a claim by its name; at most one."""
        return tuple(
            record
            for record in self._store.records()
            if (record.claim.namespace, record.claim.name) == (namespace, name)
        )

    def by_uid(self, claim_uid: str) -> tuple[Allocation, ...]:
        """Return the record of a claim by its UID; at most one."""
        record = self._store.get(claim_uid)
        return (record,) if record is not None else ()

    def peek(self, claim_uid: str) -> tuple[Allocation, ...] | None:
        """Return the result of by_uid without the lock; None before the first transaction."""
        if self._opened is None:
            return None
        self._opened.store.refresh()
        return self.by_uid(claim_uid)

    def record(self, allocations: Sequence[Allocation]) -> None:
        """Write all records or none.

        Raises:
            InvalidValueError: a record is invalid.
            StateError: a file in the place of a record must not be overwritten.
            UnwritableError: a write failed.
        """
        before: dict[str, Allocation | None] = {}
        with writing(self._state), _signals_blocked():
            try:
                for allocation in allocations:
                    before[allocation.claim.uid] = self._store.get(allocation.claim.uid)
                    self._store.put(allocation)
            except BaseException:
                self._roll_back(before)
                raise

    def forget(self, claim_uid: str) -> None:
        """Remove a claim's record; a corrupt record is quarantined.

        Raises:
            UnwritableError: the removal failed.
        """
        with writing(self._state):
            self._store.remove(claim_uid)

    def _roll_back(self, before: Mapping[str, Allocation | None]) -> None:
        for uid, old in before.items():
            if old is not None:
                self._store.put(old)
            elif uid not in self._store.broken:
                self._store.remove(uid)


def nonce_for(claim_uid: str) -> str:
    """Return the last part of a claim's CDI ids: 16 hexadecimal digits, derived from the UID.

    Kubelets up to 1.34.4, 1.35.4 and 1.36.3 append the CDI ids of each Prepare response to their
    checkpoint (kubernetes issue 140471). A different id would be added to the previous one, which
    no CDI spec resolves any more.
    """
    return hashlib.sha256(claim_uid.encode()).hexdigest()[:_NONCE_DIGITS]


def observe(
    state: StatePaths, counted_elsewhere: Collection[str] = ()
) -> tuple[tuple[Device, ...], DeviceUsage]:
    """Return `recorded_devices` and `in_use` of the records, without the lock; nothing is written.

    Args:
        state: locations of the records.
        counted_elsewhere: claims (namespace/name) whose consumed capacity the caller counts itself.

    Raises:
        StateError: inotify is not available.
        OSError: a directory cannot be read.
    """
    with NodeRecords(state.allocations, state.attachments) as node:
        records = node.allocations.records()
        attachments = node.attachments.records()
        usage = devices_in_use(records, attachments, counted_elsewhere=counted_elsewhere)
        return _devices(records), usage


@dataclass(frozen=True, slots=True)
class _Opened:
    """Open directories of the allocation and attachment records."""

    store: AllocationStore
    attachments: AttachmentReader


def _devices(records: Iterable[Allocation]) -> tuple[Device, ...]:
    return tuple(
        device.device for record in records for device in record.devices if not device.admin_access
    )


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals that end the process until all records are written."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
