"""Notices of the status controller."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dra_shim.kubeapi import ApiError
from dranet_nri.component.notice import LogLine, LogNotice
from dranet_nri.model import ObjectRef


@dataclass(frozen=True, slots=True)
class StatusApplied(LogNotice):
    """A claim's status was written; devices is the number of this driver's entries."""

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

    The status is not written again until it changes.
    """

    log = LogLine("error", "status rejected by the API server")
    claim: ObjectRef
    reason: str


@dataclass(frozen=True, slots=True)
class StatusNotKept(LogNotice):
    """The server drops status.devices, because its gate DRAResourceClaimDeviceStatus is off."""

    log = LogLine("warning", "API server drops claim status")

    def _facts(self) -> Mapping[str, object]:
        return {"gate": "DRAResourceClaimDeviceStatus"}


@dataclass(frozen=True, slots=True)
class EventPosted(LogNotice):
    """An Event was created, or its count was increased by count."""

    log = LogLine("debug", "event")
    name: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class EventLost(LogNotice):
    """An Event was dropped; a reason is reported once until an Event is posted."""

    log = LogLine("warning", "event not posted")
    reason: str


@dataclass(frozen=True, slots=True)
class StatusSyncFailed(LogNotice):
    """A request for a claim's status or an Event failed; it is retried after retry_s seconds."""

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
