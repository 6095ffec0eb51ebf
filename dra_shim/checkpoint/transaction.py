"""Checkpoint transactions: allocation records, read and written under the lock.

Rules:
1. A transaction that reads in order to write holds the lock from the first read to the last write.
2. Several records are written all or none, after any failure and any signal.
3. A device is in use as long as a record allocates it, or the plugin has not restored it: also one
   of which an attach failed, and then its undoing.
"""

import errno
import hashlib
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dra_shim.pool import DeviceUsage
from dra_shim.settings.common import StatePaths
from dranet_nri.component.files import FileSystem
from dranet_nri.errors import RefusedError
from dranet_nri.model import AllocatedDevice, Allocation, Attachment, Device, ObjectRef, Phase
from dranet_nri.state.corrupt import CorruptSummary, of_allocations
from dranet_nri.state.lock import OperationLock
from dranet_nri.state.reader import AttachmentReader
from dranet_nri.state.records import NodeRecords
from dranet_nri.state.store import AllocationStore

_LOCK: Final = ".lock"
_HELD_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_NONCE_DIGITS: Final = 16  # 64 bits of the UID: a stale CDI spec of a namesake must not fit
_HOLDING: Final = frozenset({Phase.INTENT, Phase.ATTACHED, Phase.DETACHING})
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class UnwritableError(OSError):
    """Records cannot be written.

    Attributes:
        filename: the state directory.
        strerror: why not, and at which file if the kernel's refusal was of one.
    """

    def __str__(self) -> str:
        """Say it with the remedy."""
        remedy = "make room there" if self.errno in _FULL else "make it writable"
        return f"state directory {self.filename}: cannot be written: {self.strerror}; {remedy}"


@contextmanager
def writing(state: StatePaths) -> Iterator[None]:
    """Say of what fails meanwhile where that was.

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
    """The records while the lock is held; use it as a context manager, one thread at a time."""

    def __init__(
        self, state: StatePaths, *, fs: FileSystem | None = None, keep: bool = False
    ) -> None:
        """Name the directories; nothing is opened yet.

        Args:
            state: where records are.
            fs: writes them.
            keep: stay open between transactions, so that each reads only what changed; until close.
        """
        self._state = state
        self._fs = fs
        self._keep = keep
        self._lock = OperationLock(state.directory / _LOCK)
        self._opened: _Opened | None = None
        self._stale = True  # the plugin's records, which are read when they are asked for

    def __enter__(self) -> Self:
        """Take the lock and read the records; the plugin's are read when they are asked for.

        Raises:
            StateError: inotify is not to be had.
            UnwritableError: the directory cannot be made or written.
            OSError: it cannot be read; what asks for the plugin's records raises it, too.
        """
        with writing(self._state):
            self._state.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
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
        """Release the lock; kept directories stay open, except after an OSError."""
        if not self._keep or isinstance(error, OSError):
            self.close()
        self._lock.__exit__(kind, error, trace)

    def close(self) -> None:
        """Close what stayed open. Idempotent."""
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
        """The plugin's records, as they are in this transaction."""
        assert self._opened is not None, "only inside a transaction"
        if self._stale:
            self._opened.attachments.refresh()
            self._stale = False
        return self._opened.attachments

    @property
    def directory(self) -> Path:
        """Return the directory of the records."""
        return self._state.allocations

    def damages(self) -> tuple[CorruptSummary, ...]:
        """Return the records that cannot be used, ordered by claim UID."""
        return of_allocations(self._store)

    def moved_aside(self, claim_uid: str) -> Path | None:
        """Return where a claim's record was moved since it was opened, None if it was not."""
        return self._store.moved_aside.get(claim_uid)

    def recorded(self, claim: ObjectRef, pod: ObjectRef) -> Allocation | None:
        """Return the claim's record if it is this pod's; None if there is none.

        A claim without a UID goes by its name.

        Raises:
            RefusedError: the claim is another pod's, its name another claim's, or the plugin has
                devices of it in another pod.
        """
        broken = self._store.broken.get(claim.uid)
        if broken is not None and broken.in_place:  # one that was moved aside can't be lost
            raise RefusedError(
                f"claim {claim}: its record cannot be used: {broken.error}; "
                f"dra-shim release --claim-uid {claim.uid} moves it aside"
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
                    f"claim {claim}: held by pod {record.pod} (UID {record.pod.uid}); "
                    f"dra-shim release --claim-uid {record.claim.uid} when that pod is gone"
                )
            return record
        if holder := self.holder(claim.uid, besides=pod.uid):
            raise RefusedError(
                f"claim {claim}: pod {holder} (UID {holder.uid}) has not given its devices back; "
                "once it has ended, dranet-nri brings them home"
            )
        return None

    def in_use(self, besides: tuple[ObjectRef, ObjectRef] | None = None) -> DeviceUsage:
        """Return the owners of devices.

        Args:
            besides: a claim whose record does not count, and the pod it is for now: what that pod
                has by it does not count either, what another pod still has by it does.
        """
        return _in_use(self._store.records(), self._attachments.records(), besides)

    def holds(self, claim_uid: str) -> bool:
        """Whether the plugin has a device of a claim in a pod, or its record of it is unreadable.

        What it moved aside it does not go by any more.
        """
        attached = self._attachments.get(claim_uid)
        if attached is not None:
            return attached.holds_devices
        broken = self._attachments.broken.get(claim_uid)
        return broken is not None and broken.in_place

    def holder(self, claim_uid: str, besides: str) -> ObjectRef | None:
        """Return the pod that the plugin has devices of a claim in, None if there is none.

        The CDI spec of the claim may be that pod's, and its ids are those of the next pod.

        Args:
            claim_uid: of the claim.
            besides: UID of a pod that does not count.
        """
        held = self._attachments.get(claim_uid)
        if held is None or held.pod.uid == besides or not (held.holds_devices and held.devices):
            return None
        return held.pod

    def records(self) -> tuple[Allocation, ...]:
        """Return all records."""
        return self._store.records()

    def known_devices(self) -> tuple[Device, ...]:
        """Return the devices that records give away, with the facts of when they were allocated."""
        return _devices(self._store.records())

    def addresses(self, besides: str = "") -> tuple[str, ...]:
        """Return the addresses that records give to pods, in CIDR notation.

        Args:
            besides: UID of a claim whose record does not count.
        """
        return tuple(
            cidr
            for record in self._store.records()
            if record.claim.uid != besides
            for device in record.devices
            for cidr in device.config.interface.addresses or ()
        )

    def of_pod(self, pod_uid: str) -> tuple[Allocation, ...]:
        """Return the records of a pod's claims."""
        return self._store.by_pod(pod_uid)

    def named(self, namespace: str, name: str) -> tuple[Allocation, ...]:
        """Return the record of a claim by its name, none or one."""
        return tuple(
            record
            for record in self._store.records()
            if (record.claim.namespace, record.claim.name) == (namespace, name)
        )

    def by_uid(self, claim_uid: str) -> tuple[Allocation, ...]:
        """Return the record of a claim by its UID, none or one."""
        record = self._store.get(claim_uid)
        return (record,) if record is not None else ()

    def peek(self, claim_uid: str) -> tuple[Allocation, ...] | None:
        """Return what by_uid returns, without the lock; None before the first transaction."""
        if self._opened is None:
            return None
        self._opened.store.refresh()
        return self.by_uid(claim_uid)

    def record(self, allocations: Sequence[Allocation]) -> None:
        """Write all records, or leave everything as it was.

        Raises:
            InvalidValueError: a record breaks the rules of records.
            StateError: what stands in a record's place must not be lost.
            UnwritableError: writing failed.
        """
        before: dict[str, Allocation | None] = {}
        with writing(self._state), _signals_held():
            try:
                for allocation in allocations:
                    before[allocation.claim.uid] = self._store.get(allocation.claim.uid)
                    self._store.put(allocation)
            except BaseException:
                self._put_back(before)
                raise

    def forget(self, claim_uid: str) -> None:
        """Remove a claim's record; one that cannot be used is moved aside.

        Raises:
            UnwritableError: removing failed.
        """
        with writing(self._state):
            self._store.remove(claim_uid)

    def _put_back(self, before: Mapping[str, Allocation | None]) -> None:
        for uid, old in before.items():
            if old is not None:
                self._store.put(old)
            elif uid not in self._store.broken:
                self._store.remove(uid)


def nonce_for(claim_uid: str) -> str:
    """Return the last part of a claim's CDI ids: 16 hexadecimal digits, the same at each call.

    A kubelet of the releases up to 1.34.4, 1.35.4 and 1.36.3 appends what Prepare answers to its
    checkpoint (kubernetes issue 140471): another id would be added to the one before, and no
    spec would resolve that one any more.
    """
    return hashlib.sha256(claim_uid.encode()).hexdigest()[:_NONCE_DIGITS]


def observe(
    state: StatePaths, counted: Collection[str] = ()
) -> tuple[tuple[Device, ...], DeviceUsage]:
    """Return `known_devices` and `in_use` of the records, without lock and without writing.

    Args:
        state: where records are.
        counted: claims, as namespace/name, of which the caller knows what their shares consume.

    Raises:
        StateError: inotify is not to be had.
        OSError: a directory cannot be read.
    """
    with NodeRecords(state.allocations, state.attachments) as node:
        records = node.allocations.records()
        return _devices(records), _in_use(records, node.attachments.records(), counted=counted)


@dataclass(frozen=True, slots=True)
class _Opened:
    """The directories of records, the shim's and the plugin's."""

    store: AllocationStore
    attachments: AttachmentReader


def _devices(records: Iterable[Allocation]) -> tuple[Device, ...]:
    return tuple(
        device.device for record in records for device in record.devices if not device.admin_access
    )


def _in_use(
    records: Iterable[Allocation],
    attachments: Iterable[Attachment],
    besides: tuple[ObjectRef, ObjectRef] | None = None,
    counted: Collection[str] = (),
) -> DeviceUsage:
    whole: dict[str, str] = {}
    shares: dict[str, str] = {}
    consumed: dict[str, dict[str, int]] = {}
    claim_uid, pod_uid = (ref.uid for ref in besides) if besides else ("", "")
    for held in attachments:
        own = (held.claim.uid, held.pod.uid) == (claim_uid, pod_uid)
        if own:
            continue
        who = f"pod {held.pod}, which has not given it back (claim {held.claim})"
        for one in held.devices:
            if one.touched or (held.phase in _HOLDING and not one.home):
                (shares if one.share_id else whole)[one.device.name] = who
    for record in records:
        who = f"claim {record.claim} of pod {record.pod}"
        for device in record.devices:
            if not device.admin_access and record.claim.uid != claim_uid:
                (shares if device.share_id else whole)[device.device.name] = who
                if str(record.claim) not in counted:
                    _add(consumed.setdefault(device.device.name, {}), device)
    return DeviceUsage(whole, shares, consumed)


def _add(amounts: dict[str, int], device: AllocatedDevice) -> None:
    for share in device.consumed:
        amounts[share.capacity] = amounts.get(share.capacity, 0) + share.amount


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delay a signal that would end the process until the records are whole."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
