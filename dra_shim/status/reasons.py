"""Event types and event specs: contents of Events for the owners of pods and claims.

Reasons are those of dranet where possible. The object of an Event is the pod if it is known,
because users read the Events of pods first, and otherwise the claim.
"""

from dataclasses import dataclass
from typing import Final

from dra_shim.prepare.notices import (
    ClaimPrepared,
    Notice,
    OrphanRemoved,
    PodSuperseded,
    PrepareFailed,
    UnprepareFailed,
)
from dra_shim.status.conditions import (
    IN_USE,
    PENDING,
    RDMA_ATTACH_FAILED,
    failure_reason,
    pending_message,
    superseded_message,
)
from dra_shim.status.text import one_line
from dranet_nri.model import (
    ATTACH_FAILED,
    DETACH_FAILED,
    FAULT,
    GATE_CLOSED,
    GATE_OPEN,
    HUNG,
    NOT_READY,
    RESTORE_FAILED,
    Allocation,
    Attachment,
    ObjectRef,
)

MAX_MESSAGE: Final = 1024  # bytes of an Event's message (NoteLengthLimit)


@dataclass(frozen=True, slots=True)
class EventType:
    """Declaration of the Events of one reason.

    Attributes:
        kind: "Pod" or "ResourceClaim": the object of the Event.
        meaning: one line of the table in the documents.
        note: format string of the message.
        warning: type Warning, otherwise Normal.
        once: posted once, however often it happens.
    """

    reason: str
    kind: str
    meaning: str
    note: str = "claim {claim}: {message}"
    warning: bool = True
    once: bool = False


PREPARE_FAILED: Final = EventType(
    "ClaimPrepareFailed", "ResourceClaim", "Prepare refuses the claim", "{message}"
)
UNPREPARE_FAILED: Final = EventType(
    "ClaimUnprepareFailed", "ResourceClaim", "the allocation record is not removed", "{message}"
)
NOT_GATED: Final = EventType(
    "ClaimNotGated",
    "Pod",
    "no container waits for the devices",
    "no container lists claim {claim} in resources.claims, or a request of it is listed by none, so"
    " none is held back until its devices are there; list the whole claim to be safe",
    once=True,
)
RECORD_DROPPED: Final = EventType(
    "ClaimRecordDropped",
    "ResourceClaim",
    "an allocation record without a user is removed",
    "the node's record of it for pod {pod} was dropped: {reason}",
    warning=False,
)
SUPERSEDED: Final = EventType(IN_USE, "Pod", "the claim is recorded for an ended pod", once=True)
DELAYED: Final = EventType(PENDING, "Pod", "the attach takes more than 30 s", once=True)
DEFERRED: Final = EventType(
    "NetworkDeviceAttachDeferred",
    "Pod",
    "the same, while a kernel call runs",
    once=True,
)
DEVICE_WARNING: Final = EventType(
    "NetworkDeviceWarning", "Pod", "a device lacks something", "{device}: {message}", once=True
)
FAILURES: Final = {
    event.reason: event
    for event in (
        EventType(ATTACH_FAILED, "Pod", "the attach is refused or undone"),
        EventType(RDMA_ATTACH_FAILED, "Pod", "the same, for devices that have RDMA only"),
        EventType(NOT_READY, "Pod", "no address in time, or its DHCP lease is lost"),
        EventType(GATE_CLOSED, "Pod", "attached, but no container can start"),
        EventType(DETACH_FAILED, "Pod", "a device is not restored"),
        EventType(RESTORE_FAILED, "Pod", "a part of a device is not restored"),
        EventType(HUNG, "Pod", "a kernel call does not return"),
        EventType(GATE_OPEN, "Pod", "not attached, but containers can start"),
        EventType(FAULT, "Pod", "an unexpected error"),
    )
}
EVENT_TYPES: Final = (
    *(PREPARE_FAILED, UNPREPARE_FAILED, NOT_GATED, RECORD_DROPPED, SUPERSEDED, DELAYED, DEFERRED),
    *FAILURES.values(),
    DEVICE_WARNING,
)


@dataclass(frozen=True, slots=True)
class EventSpec:
    """Content of an Event.

    Attributes:
        kind: "Pod" or "ResourceClaim".
        subject: the object.
        at: Unix seconds; the same event at the same time is posted once.
        once: posted once, however often it happens.
        warning: type Warning, otherwise Normal.
    """

    kind: str
    subject: ObjectRef
    reason: str
    message: str
    at: int
    once: bool = False
    warning: bool = True

    @property
    def key(self) -> tuple[str, str, str]:
        """Return the identity of an event: equal for repetitions."""
        return self.subject.uid, self.reason, self.message


def of_notice(notice: Notice, now_s: float) -> tuple[EventSpec, ...]:
    """Return the event specs of a Prepare notice."""
    match notice:
        case ClaimPrepared(claim, pod, gated=False):
            return (_spec(NOT_GATED, pod, now_s, claim=claim.name),)
        case PrepareFailed(claim, message):
            return (_spec(PREPARE_FAILED, claim, now_s, message=message),)
        case UnprepareFailed(claim, message):
            return (_spec(UNPREPARE_FAILED, claim, now_s, message=message),)
        case OrphanRemoved(claim, pod, reason):
            return (_spec(RECORD_DROPPED, claim, now_s, pod=pod, reason=reason),)
        case PodSuperseded(claim, earlier, waiting):
            text = superseded_message(earlier, "this pod")
            return tuple(
                _spec(SUPERSEDED, pod, now_s, claim=claim.name, message=text) for pod in waiting
            )
        case _:
            return ()


def of_attachment(attachment: Attachment, now_s: float) -> tuple[EventSpec, ...]:
    """Return the event specs of the plugin's record of a claim, for its pod."""
    pod, failure = attachment.pod, attachment.failure
    events = [
        _spec(DEVICE_WARNING, pod, now_s, device=name, message=warning)
        for device in attachment.devices
        for name in (device.pod_name or device.device.name,)
        for warning in device.warnings
    ]
    if failure is not None:
        reason = failure_reason(attachment)
        event = FAILURES.get(reason) or EventType(reason, "Pod", "a failure of a newer version")
        name = attachment.claim.name
        events.insert(0, _spec(event, pod, failure.time, claim=name, message=failure.message))
    return tuple(events)


def of_delay(
    allocation: Allocation, attachment: Attachment | None, now_s: float
) -> tuple[EventSpec, ...]:
    """Return the event spec for a pod whose claim is not attached after a long time."""
    text = pending_message(allocation, attachment)
    own = attachment is not None and attachment.pod.uid == allocation.pod.uid
    event = DEFERRED if own else DELAYED
    return (_spec(event, allocation.pod, now_s, claim=allocation.claim.name, message=text),)


def _spec(event: EventType, subject: ObjectRef, at_s: float, **facts: object) -> EventSpec:
    text = one_line(event.note.format(**facts), MAX_MESSAGE)
    return EventSpec(event.kind, subject, event.reason, text, int(at_s), event.once, event.warning)
