"""Events of Prepare, Unprepare and the orphan collector."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dranet_nri.errors import RefusedError
from dranet_nri.model import ObjectRef


@dataclass(frozen=True, slots=True)
class ClaimPrepared:
    """A claim is recorded for a pod.

    Attributes:
        gated: each request that hands devices over is listed by a container, which is held back
            until they are there; true where there is nothing to wait for.
        document: the claim as the server returned it.
    """

    claim: ObjectRef
    pod: ObjectRef
    gated: bool
    document: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PrepareWaits:
    """A claim cannot be prepared yet; it is tried again before the kubelet is answered."""

    claim: ObjectRef
    message: str


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    """A claim could not be prepared; the kubelet retries.

    Attributes:
        cause: an internal error, None where the message says all.
        kind: of the error, see DranetError; "io"; "late" after the time limit.
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
    """A claim's record could not be removed; the kubelet retries, and the pod waits.

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
    """Pods wait for a claim that is recorded for an earlier pod.

    Attributes:
        pod: the one on record; it has ended.
        waiting: pods that wait, () after the last one stopped.
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


@dataclass(frozen=True, slots=True)
class ProfileReleased:
    """The profile provider took back what it gave to a claim."""

    claim: ObjectRef


@dataclass(frozen=True, slots=True)
class ProfileReleaseFailed:
    """The profile provider did not take back what it gave; it is asked again."""

    claim_uid: str
    message: str


Notice = (
    ClaimPrepared
    | PrepareWaits
    | PrepareFailed
    | ClaimUnprepared
    | UnprepareFailed
    | OrphanRemoved
    | PodSuperseded
    | OrphanSearchFailed
    | ProfileReleased
    | ProfileReleaseFailed
)
Notify = Callable[[Notice], None]
