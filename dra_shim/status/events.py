"""Events as documents: v1 of the core group, as in dranet, so that kubectl describe shows the
count.

events.k8s.io/v1 would forbid a count and make the text immutable; the server stores both in one
place.

Rules:
1. The name of an event is derived from its reason and subject, so that a restart finds it again.
2. A repeated event increases the count of the existing one.
"""

from hashlib import sha256
from typing import Final

from dra_shim.kubeapi import Document, Object
from dra_shim.status.reasons import EventSpec
from dra_shim.status.text import seconds_of, stamp_of
from dranet_nri.model import DRIVER_NAME

MAX_NAME: Final = 253  # bytes of an object name
_HEX: Final = 16  # digits of the last part of the name


def event_name(occurrence: EventSpec) -> str:
    """Return the name of the event."""
    digest = sha256("\0".join(occurrence.key).encode()).hexdigest()[:_HEX]
    return f"{occurrence.subject.name[: MAX_NAME - _HEX - 1].rstrip('-.')}.{digest}"


def new_event(occurrence: EventSpec, count: int, api_version: str, node: str) -> Object:
    """Return the document of a first event.

    Args:
        occurrence: the event.
        count: number of occurrences.
        api_version: API version of the kind of its subject.
        node: name of the node.
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
    """Return the event with a higher count, None if the server's event contains it already.

    Args:
        event: the server's event.
        occurrence: the last occurrence.
        count: number of occurrences since.
    """
    last = seconds_of(event.get("lastTimestamp"))
    if occurrence.once or (last is not None and last >= occurrence.at):
        return None
    before = event.get("count")
    total = (before if isinstance(before, int) else 1) + count
    return {**event, "lastTimestamp": stamp_of(occurrence.at), "count": total}
