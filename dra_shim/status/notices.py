"""Events of the status controller."""

from collections.abc import Callable
from dataclasses import dataclass

from dra_shim.kubeapi import ApiError
from dranet_nri.model import ObjectRef


@dataclass(frozen=True, slots=True)
class StatusApplied:
    """A claim's status is up to date for so many devices of this driver; 0: they were withdrawn."""

    claim: ObjectRef
    devices: int


@dataclass(frozen=True, slots=True)
class ClaimGone:
    """The claim does not exist any more, so its status is not written."""

    claim: ObjectRef


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """The server does not take a claim's status, or the claim can't be read.

    It is left at that until there is something else to say.
    """

    claim: ObjectRef
    reason: str


@dataclass(frozen=True, slots=True)
class StatusNotKept:
    """The server drops status.devices (gate DRAResourceClaimDeviceStatus); see claims.PROBE_S."""


@dataclass(frozen=True, slots=True)
class EventPosted:
    """An event is on the server, with so many occurrences more than before."""

    name: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class EventLost:
    """An event was dropped; the reason is reported once until one is posted."""

    reason: str


@dataclass(frozen=True, slots=True)
class StatusSyncFailed:
    """Something failed, and is tried again after that many seconds."""

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
