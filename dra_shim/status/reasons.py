"""Event specs: contents of Events for the owners of pods and claims.

Reasons are those of dranet where possible. An event about a known pod has the pod as its object,
because users read those first; an event about a claim without a pod has the claim.
"""

from dataclasses import dataclass
from typing import Final

from dra_shim.prepare.events import (
    ClaimPrepared,
    Notice,
    OrphanRemoved,
    PodSuperseded,
    PrepareFailed,
    UnprepareFailed,
)
from dra_shim.status.conditions import HELD, PENDING, failure_reason, held_message, pending_message
from dra_shim.status.text import one_line
from dranet_nri.model import Allocation, Attachment, ObjectRef

MAX_MESSAGE: Final = 1024  # bytes of an Event's message (NoteLengthLimit)

PREPARE_FAILED: Final = "ClaimPrepareFailed"
UNPREPARE_FAILED: Final = "ClaimUnprepareFailed"
NOT_GATED: Final = "ClaimNotGated"
SWEPT: Final = "ClaimRecordDropped"
DEVICE_WARNING: Final = "NetworkDeviceWarning"


@dataclass(frozen=True, slots=True)
class EventSpec:
    """Content of an Event.

    Attributes:
        kind: "Pod" or "ResourceClaim".
        subject: the object.
        at: Unix seconds; the same event at the same time is reported once.
        once: it is reported once, also if it is repeated.
        warning: type Warning: a user should act.
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
        """Return the identity of an event for the detection of repetitions."""
        return self.subject.uid, self.reason, self.message


def of_notice(notice: Notice, now_s: float) -> tuple[EventSpec, ...]:
    """Return the event specs of a Prepare notice."""
    match notice:
        case ClaimPrepared(claim, pod, gated=False):
            text = (
                f"no container lists claim {claim.name} in resources.claims, or a request of it is"
                " listed by none, so none is held back until its devices are there; list the whole"
                " claim to be safe"
            )
            return (_of_pod(pod, NOT_GATED, text, now_s, once=True),)
        case PrepareFailed(claim, message):
            return (_of_claim(claim, PREPARE_FAILED, message, now_s),)
        case UnprepareFailed(claim, message):
            return (_of_claim(claim, UNPREPARE_FAILED, message, now_s),)
        case OrphanRemoved(claim, pod, reason):
            text = f"the node's record of it for pod {pod} was dropped: {reason}"
            return (_of_claim(claim, SWEPT, text, now_s, warning=False),)
        case PodSuperseded(claim, pod, waiting):
            text = f"claim {claim.name}: {held_message(pod, 'this pod')}"
            return tuple(_of_pod(pod, HELD, text, now_s, once=True) for pod in waiting)
        case _:
            return ()


def of_attachment(attachment: Attachment, now_s: float) -> tuple[EventSpec, ...]:
    """Return the event specs of the plugin's record of a claim, for its pod."""
    told = [
        _of_pod(attachment.pod, DEVICE_WARNING, f"{name}: {warning}", now_s, once=True)
        for device in attachment.devices
        for name in (device.pod_name or device.device.name,)
        for warning in device.warnings
    ]
    failure = attachment.failure
    if failure is not None:
        reason = failure_reason(attachment)
        text = f"claim {attachment.claim.name}: {failure.message}"
        told.insert(0, _of_pod(attachment.pod, reason, text, failure.time))
    return tuple(told)


def of_delay(
    allocation: Allocation, attachment: Attachment | None, now_s: float
) -> tuple[EventSpec, ...]:
    """Return the event spec for a pod whose claim is not attached after a long time."""
    text = f"claim {allocation.claim.name}: {pending_message(allocation, attachment)}"
    return (_of_pod(allocation.pod, PENDING, text, now_s, once=True),)


def _of_pod(
    pod: ObjectRef, reason: str, message: str, at_s: float, *, once: bool = False
) -> EventSpec:
    return EventSpec("Pod", pod, reason, one_line(message, MAX_MESSAGE), int(at_s), once)


def _of_claim(
    claim: ObjectRef, reason: str, message: str, at_s: float, *, warning: bool = True
) -> EventSpec:
    text = one_line(message, MAX_MESSAGE)
    return EventSpec("ResourceClaim", claim, reason, text, int(at_s), warning=warning)
