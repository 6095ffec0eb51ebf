"""Summary of a claim's records: the status to write and the Events to post.

Rules:
1. A transient state is not written: an attach in progress, or a pod that is being stopped. The
   previous status stays until the next one.
2. A transient state that lasts too long is written.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from dra_shim.status.conditions import DeviceStatus, device_statuses, in_transition
from dra_shim.status.reasons import EventSpec, of_attachment, of_delay
from dranet_nri.model import Allocation, Attachment, ObjectRef, Phase

SLOW_S: Final = 30.0  # seconds after which a transition is reported
DEBOUNCE_S: Final = 0.2  # seconds; records of one pod are written together
# seconds after the end of a pod; usually its claim is deleted meanwhile, and nothing is written
ENDED_DELAY_S: Final = 5.0
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
    def in_transition(self) -> bool:
        """Return whether the claim is being attached or detached, see conditions.in_transition."""
        if self.allocation is None or self.waiting:
            return False
        return in_transition(self.allocation, self.attachment)


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """The status to write and the events to post.

    Attributes:
        devices: this driver's entries of status.devices; None to leave them unchanged.
        delay_s: seconds to wait for a newer state.
        recheck_s: age of the transition in seconds at which to check again, inf for never.
    """

    devices: tuple[DeviceStatus, ...] | None
    events: tuple[EventSpec, ...] = ()
    delay_s: float = DEBOUNCE_S
    recheck_s: float = inf


def status_update(claim_records: ClaimRecords, age_s: float, now_s: float) -> StatusUpdate:
    """Return the status and the events for records.

    Args:
        claim_records: the records, and the pods that wait.
        age_s: seconds since the transition began; see `ClaimRecords.in_transition`.
        now_s: Unix seconds.
    """
    allocation, attachment = claim_records.allocation, claim_records.attachment
    events = of_attachment(attachment, now_s) if attachment else ()
    events = tuple(event for event in events if now_s - event.at < EVENT_LIFETIME_S)
    if allocation is None:
        return StatusUpdate((), events, ENDED_DELAY_S)
    if claim_records.in_transition:
        if age_s < SLOW_S:
            return StatusUpdate(None, events, recheck_s=SLOW_S)
        if attachment is None or attachment.phase is not Phase.DETACHING:
            events = (*events, *of_delay(allocation, attachment, now_s))
    ended = attachment is not None and attachment.phase is Phase.RESTORED
    delay_s = ENDED_DELAY_S if ended else DEBOUNCE_S
    return StatusUpdate(
        device_statuses(allocation, attachment, claim_records.waiting), events, delay_s
    )
