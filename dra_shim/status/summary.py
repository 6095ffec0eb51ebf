"""Summary of a claim's records that have been unchanged for some time.

Rules:
1. A transient state is not written: an attach in progress, or a pod that is being stopped. The
   previous status stays until the next one.
2. A state that should have been transient and is not is written.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from dra_shim.status.conditions import DeviceStatus, device_statuses, is_passing
from dra_shim.status.reasons import EventSpec, of_attachment, of_delay
from dranet_nri.model import Allocation, Attachment, ObjectRef, Phase

SLOW_S: Final = 30.0  # seconds of a transition, after which it is late
GATHER_S: Final = 0.2  # seconds; records of one pod are written together
# seconds; usually the claim is deleted with its pod, and nothing is written
DEPARTURE_S: Final = 5.0
# seconds for which Events are kept (--event-ttl); older failures are not reported
EVENT_LIFETIME_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class ClaimRecords:
    """Records of one claim, and the pods that wait for an earlier pod's claim.

    Attributes:
        allocation: the shim's record, None if there is none.
        attachment: the plugin's record, None if there is none.
        waiting: pods that wait for a claim that is recorded for an earlier pod.
    """

    allocation: Allocation | None = None
    attachment: Attachment | None = None
    waiting: tuple[ObjectRef, ...] = ()

    @property
    def is_passing(self) -> bool:
        """Return whether the claim is in transition."""
        if self.allocation is None or self.waiting:
            return False
        return is_passing(self.allocation, self.attachment)


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """The status to write and the events to post.

    Attributes:
        devices: this driver's entries of status.devices; None to leave them unchanged.
        delay_s: seconds to wait for a newer state.
        again_s: age in seconds at which to check again, inf to wait for an event.
    """

    devices: tuple[DeviceStatus, ...] | None
    occurrences: tuple[EventSpec, ...] = ()
    delay_s: float = GATHER_S
    again_s: float = inf


def status_update(claim_records: ClaimRecords, age_s: float, now_s: float) -> StatusUpdate:
    """Return the status and the events for records.

    Args:
        claim_records: the records, and the pods that wait.
        age_s: seconds since the transition began; see `ClaimRecords.is_passing`.
        now_s: Unix seconds.
    """
    allocation, attachment = claim_records.allocation, claim_records.attachment
    events = of_attachment(attachment, now_s) if attachment else ()
    events = tuple(event for event in events if now_s - event.at < EVENT_LIFETIME_S)
    if allocation is None:
        return StatusUpdate((), events, DEPARTURE_S)
    if claim_records.is_passing:
        if age_s < SLOW_S:
            return StatusUpdate(None, events, again_s=SLOW_S)
        if attachment is None or attachment.phase is not Phase.DETACHING:
            events = (*events, *of_delay(allocation, attachment, now_s))
    ended = attachment is not None and attachment.phase is Phase.HOME
    delay_s = DEPARTURE_S if ended else GATHER_S
    return StatusUpdate(
        device_statuses(allocation, attachment, claim_records.waiting), events, delay_s
    )
