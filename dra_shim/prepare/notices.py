"""Notices of Prepare, Unprepare and the orphan collector."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dranet_nri.component.notice import LogLine, LogNotice
from dranet_nri.errors import RefusedError
from dranet_nri.model import ObjectRef


@dataclass(frozen=True, slots=True)
class ClaimPrepared(LogNotice):
    """A claim is recorded for a pod.

    Attributes:
        gated: containers list each request that has devices, and so wait for them; true without
            devices.
        document: the claim as the server returned it.
    """

    log = LogLine("info", "prepared")
    claim: ObjectRef
    pod: ObjectRef
    gated: bool
    document: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PrepareWaits(LogNotice):
    """A claim cannot be prepared yet; it is retried until the kubelet gets its response."""

    log = LogLine("info", "prepare waits")
    claim: ObjectRef
    message: str


@dataclass(frozen=True, slots=True)
class _CallFailed(LogNotice):
    """A call of the kubelet failed for one claim.

    Attributes:
        cause: an internal error, None if the message is complete.
        kind: kind of a DranetError, "io", "internal", or "late" after the time limit.
    """

    claim: ObjectRef
    message: str
    cause: Exception | None = None
    kind: str = RefusedError.kind

    def _facts(self) -> Mapping[str, object]:
        return {"claim": str(self.claim), "reason": self.message, "exc_info": self.cause}


@dataclass(frozen=True, slots=True)
class PrepareFailed(_CallFailed):
    """A claim could not be prepared; the kubelet retries."""

    log = LogLine("error", "prepare failed")


@dataclass(frozen=True, slots=True)
class ClaimUnprepared(LogNotice):
    """A claim's record was removed."""

    log = LogLine("info", "unprepared")
    claim: ObjectRef


@dataclass(frozen=True, slots=True)
class UnprepareFailed(_CallFailed):
    """A claim's record could not be removed; the kubelet retries, and the pod stays Terminating."""

    log = LogLine("error", "unprepare failed")


@dataclass(frozen=True, slots=True)
class OrphanRemoved(LogNotice):
    """The orphaned record of a claim was removed; reason is the cause."""

    log = LogLine("warning", "orphaned record removed")
    claim: ObjectRef
    pod: ObjectRef
    reason: str


@dataclass(frozen=True, slots=True)
class PodSuperseded(LogNotice):
    """Pods wait for a claim that is recorded for an earlier pod.

    Attributes:
        pod: the recorded pod, which ended.
        waiting: pods that wait; () when none waits any more.
    """

    claim: ObjectRef
    pod: ObjectRef
    waiting: tuple[ObjectRef, ...]

    def line(self) -> LogLine:
        """Return the log line."""
        claim, pods = str(self.claim), [str(pod) for pod in self.waiting]
        if not pods:
            event = "no pod waits for a claim that is recorded for an earlier pod"
            return LogLine("info", event, {"claim": claim})
        event = "pods wait for a claim that is recorded for an earlier pod"
        facts = {"claim": claim, "pods": pods, "recorded_pod": str(self.pod)}
        return LogLine("warning", event, facts)


@dataclass(frozen=True, slots=True)
class OrphanSearchFailed(LogNotice):
    """The search for orphaned records failed.

    Attributes:
        claim: the only claim that could not be checked, None if none could.
    """

    log = LogLine("error", "orphan collection failed")
    cause: Exception
    claim: ObjectRef | None = None

    def _facts(self) -> Mapping[str, object]:
        return {
            "claim": str(self.claim or "all"),
            "reason": str(self.cause),
            "exc_info": self.cause,
        }


@dataclass(frozen=True, slots=True)
class ProfileReleased(LogNotice):
    """The profile provider released the profiles of a claim."""

    log = LogLine("info", "profiles released")
    claim: ObjectRef


@dataclass(frozen=True, slots=True)
class ProfileReleaseFailed(LogNotice):
    """The profile provider did not release a profile; the request is retried."""

    log = LogLine("warning", "profiles not released", limited=True)
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
