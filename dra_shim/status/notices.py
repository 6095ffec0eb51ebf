"""Events of the status controller."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dra_shim.kubeapi import ApiError
from dranet_nri.component.notice import LogLine, LogNotice
from dranet_nri.model import ObjectRef


@dataclass(frozen=True, slots=True)
class StatusApplied(LogNotice):
    """A claim's status is up to date for so many devices of this driver; 0: they were withdrawn."""

    log = LogLine("info", "status written")
    claim: ObjectRef
    devices: int


@dataclass(frozen=True, slots=True)
class ClaimGone(LogNotice):
    """The claim does not exist any more, so its status is not written."""

    log = LogLine("debug", "claim is gone")
    claim: ObjectRef


@dataclass(frozen=True, slots=True)
class ClaimRefused(LogNotice):
    """The server rejects a claim's status, or the claim cannot be read.

    It is not written again until the status changes.
    """

    log = LogLine("error", "status rejected by the API server")
    claim: ObjectRef
    reason: str


@dataclass(frozen=True, slots=True)
class StatusNotKept(LogNotice):
    """The server drops status.devices (gate DRAResourceClaimDeviceStatus); see claims.PROBE_S."""

    log = LogLine("warning", "API server drops claim status")

    def _facts(self) -> Mapping[str, object]:
        return {"gate": "DRAResourceClaimDeviceStatus"}


@dataclass(frozen=True, slots=True)
class EventPosted(LogNotice):
    """An event is on the server, with so many occurrences more than before."""

    log = LogLine("debug", "event")
    name: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class EventLost(LogNotice):
    """An event was dropped; the reason is reported once until one is posted."""

    log = LogLine("warning", "event not posted")
    reason: str


@dataclass(frozen=True, slots=True)
class StatusSyncFailed(LogNotice):
    """Something failed, and is tried again after that many seconds."""

    log = LogLine("warning", "status not written", limited=True)
    error: ApiError
    retry_s: float


Notice = (
    StatusApplied
    | ClaimGone
    | ClaimRefused
    | StatusNotKept
    | EventPosted
    | EventLost
    | StatusSyncFailed
)
Notify = Callable[[Notice], None]
