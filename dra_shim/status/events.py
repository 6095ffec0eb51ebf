"""Events as documents: v1 of the core group, as dranet's are and as kubectl describe counts them.

events.k8s.io/v1 would forbid a count and make the text immutable; both are kept in one place.

Rules:
1. An event's name is derived from its reason and subject, so that a restart finds it again.
2. A repeated event is a larger count, not another event.
"""

from hashlib import sha256
from typing import Final

from dra_shim.kubeapi import Document, Object
from dra_shim.status.reasons import EventSpec
from dra_shim.status.text import seconds_of, stamp_of
from dranet_nri.model import DRIVER_NAME

MAX_NAME: Final = 253  # bytes of an object's name
_HEX: Final = 16  # digits of the name's last part


def event_name(occurrence: EventSpec) -> str:
    """Return the name of the event."""
    digest = sha256("\0".join(occurrence.key).encode()).hexdigest()[:_HEX]
    return f"{occurrence.subject.name[: MAX_NAME - _HEX - 1].rstrip('-.')}.{digest}"


def new_event(occurrence: EventSpec, count: int, api_version: str, node: str) -> Object:
    """Return the event in its first form.

    Args:
        occurrence: what happened.
        count: how often.
        api_version: of its subject's kind.
        node: where.
    """
    subject, stamp = occurrence.subject, stamp_of(occurrence.at)
    return {
        "metadata": {"name": event_name(occurrence), "namespace": subject.namespace},
        "involvedObject": {
            "apiVersion": api_version,
            "kind": occurrence.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "reason": occurrence.reason,
        "message": occurrence.message,
        "type": "Warning" if occurrence.warning else "Normal",
        "source": {"component": DRIVER_NAME, "host": node},
        "reportingComponent": DRIVER_NAME,
        "reportingInstance": node,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": count,
    }


def counted(event: Document, occurrence: EventSpec, count: int) -> Object | None:
    """Return the event with so many more occurrences, None if its count has them already.

    Args:
        event: as the server has it.
        occurrence: the last.
        count: how many there were since.
    """
    last = seconds_of(event.get("lastTimestamp"))
    if occurrence.once or (last is not None and last >= occurrence.at):
        return None
    before = event.get("count")
    total = (before if isinstance(before, int) else 1) + count
    return {**event, "lastTimestamp": stamp_of(occurrence.at), "count": total}
