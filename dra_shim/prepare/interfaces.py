"""Ports of Prepare: its sources and notifications. API client and inventory implement them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from dranet_nri.errors import RefusedError
from dranet_nri.model import Device, ObjectRef


class ClaimSource(Protocol):
    """Reads ResourceClaims."""

    async def claim(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Return the claim of that namespace and name as JSON, None if there is none.

        It must come from the API server, not from a cache: its UID and allocation decide. The
        caller compares the UID.

        Raises:
            UnavailableError: the server cannot answer now.
            NotYetError: it will not (401, 403), or serves no such kind; says what is missing. One
                that has just started says so for a while.
        """


class PodSource(Protocol):
    """Reads Pods."""

    async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """Return the pod of that namespace and name as JSON, None if there is none.

        Raises:
            UnavailableError: the server cannot answer now.
            NotYetError: it will not (401, 403), or serves no such kind; says what is missing. One
                that has just started says so for a while.
        """


class UseSource(ClaimSource, PodSource, Protocol):
    """Reads claims, and the pods that use them."""


class DeviceSource(Protocol):
    """Source of the node's devices."""

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """Return those of the devices that this node may give away, published or not, by name.

        A device that is in a pod keeps its last facts. For a name that it does not know it looks
        at the node once more before it leaves it out.

        Raises:
            KernelError: the node cannot be scanned.
        """


class NodeSource(DeviceSource, Protocol):
    """Source of the node's devices, and of those that exclude each other."""

    def rivals(self) -> Mapping[str, frozenset[str]]:
        """Return device → those that no other pod may have beside it, by the last scan.

        A PF and its virtual functions and subfunctions are such.
        """


@dataclass(frozen=True, slots=True)
class ClaimPrepared:
    """A claim is recorded for a pod.

    Attributes:
        gated: each request that hands devices over is listed by a container, which is held back
            until they are there; true where there is nothing to wait for.
    """

    claim: ObjectRef
    pod: ObjectRef
    gated: bool


@dataclass(frozen=True, slots=True)
class PrepareWaits:
    """A claim cannot be prepared yet; it is tried again before the kubelet is answered."""

    claim: ObjectRef
    message: str


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    """A claim could not be prepared; the kubelet will ask again.

    Attributes:
        cause: an internal error, None where the message says all.
        kind: of the error, see DranetError; "io"; "late" for what was waited for in vain.
    """

    claim: ObjectRef
    message: str
    cause: Exception | None = None
    kind: str = RefusedError.kind


@dataclass(frozen=True, slots=True)
class ClaimUnprepared:
    """A claim's record is gone."""

    claim: ObjectRef


@dataclass(frozen=True, slots=True)
class UnprepareFailed:
    """A claim's record could not be removed; the kubelet will ask again, and the pod waits.

    Attributes are as for PrepareFailed.
    """

    claim: ObjectRef
    message: str
    cause: Exception | None = None
    kind: str = RefusedError.kind


@dataclass(frozen=True, slots=True)
class OrphanRemoved:
    """The orphaned record of a claim was removed; reason says why."""

    claim: ObjectRef
    pod: ObjectRef
    reason: str


@dataclass(frozen=True, slots=True)
class PodSuperseded:
    """Pods wait in vain for a claim that is recorded for an earlier one.

    Attributes:
        pod: the one on record; it has ended.
        waiting: those that wait, () where none does any more.
    """

    claim: ObjectRef
    pod: ObjectRef
    waiting: tuple[ObjectRef, ...]


@dataclass(frozen=True, slots=True)
class OrphanSearchFailed:
    """The search for orphaned records failed.

    Attributes:
        claim: the one whose record alone could not be judged, None for all.
    """

    cause: Exception
    claim: ObjectRef | None = None


Notice = (
    ClaimPrepared
    | PrepareWaits
    | PrepareFailed
    | ClaimUnprepared
    | UnprepareFailed
    | OrphanRemoved
    | PodSuperseded
    | OrphanSearchFailed
)
Notify = Callable[[Notice], None]
