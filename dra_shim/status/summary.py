"""Summary of a claim's records that have been unchanged for some time.

Rules:
1. A transient state is not written: neither an attach in progress, nor a pod that is torn down.
   The previous status stays until there is another one.
2. A state that should have passed and did not is written.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

from dra_shim.status.conditions import DeviceStatus, device_statuses, is_passing
from dra_shim.status.reasons import EventSpec, of_attachment, of_delay
from dranet_nri.model import Allocation, Attachment, ObjectRef, Phase

SLOW_S: Final = 30.0  # a claim that is on its way for that long is late
GATHER_S: Final = 0.2  # records of one pod come together
DEPARTURE_S: Final = 5.0  # a pod that ended mostly takes its claim along, and nothing is written
NEWS_S: Final = 3600.0  # events are kept that long (--event-ttl); older failures are no news


@dataclass(frozen=True, slots=True)
class ClaimRecords:
    """Records of one claim, and the pods that wait for an earlier pod's claim.

    Attributes:
        allocation: the shim's record, None where there is none.
        attachment: the plugin's, None where there is none.
        waiting: pods that wait for a claim that is recorded for an earlier pod.
    """

    allocation: Allocation | None = None
    attachment: Attachment | None = None
    waiting: tuple[ObjectRef, ...] = ()

    @property
    def is_passing(self) -> bool:
        """Whether it is on its way to another state, and that will come."""
        if self.allocation is None or self.waiting:
            return False
        return is_passing(self.allocation, self.attachment)


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """The status to write and the events to post.

    Attributes:
        devices: this driver's entries of status.devices; None to leave them unchanged.
        patience_s: for how long to wait with that for something newer.
        again_s: at which age to check again, inf if only an event changes anything.
    """

    devices: tuple[DeviceStatus, ...] | None
    occurrences: tuple[EventSpec, ...] = ()
    patience_s: float = GATHER_S
    again_s: float = inf


def status_update(claim_records: ClaimRecords, age_s: float, now_s: float) -> StatusUpdate:
    """Return what records come to.

    Args:
        claim_records: the records, and the pods that wait.
        age_s: for how long the claim has been on its way; see `ClaimRecords.is_passing`.
        now_s: Unix seconds.
    """
    allocation, attachment = claim_records.allocation, claim_records.attachment
    told = of_attachment(attachment, now_s) if attachment else ()
    told = tuple(event for event in told if now_s - event.at < NEWS_S)
    if allocation is None:
        return StatusUpdate((), told, DEPARTURE_S)
    if claim_records.is_passing:
        if age_s < SLOW_S:
            return StatusUpdate(None, told, again_s=SLOW_S)
        if attachment is None or attachment.phase is not Phase.DETACHING:
            told = (*told, *of_delay(allocation, attachment, now_s))
    ended = attachment is not None and attachment.phase is Phase.HOME
    patience_s = DEPARTURE_S if ended else GATHER_S
    return StatusUpdate(
        device_statuses(allocation, attachment, claim_records.waiting), told, patience_s
    )
