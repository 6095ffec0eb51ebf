"""Event documents: v1 of the core group, as in dranet, so that kubectl describe shows the count.

events.k8s.io/v1 would forbid a count and make the message immutable; the server stores both
versions as the same object.

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


def event_name(spec: EventSpec) -> str:
    """Return the name of the Event object; see rule 1."""
    digest = sha256("\0".join(spec.key).encode()).hexdigest()[:_HEX]
    return f"{spec.subject.name[: MAX_NAME - _HEX - 1].rstrip('-.')}.{digest}"


def new_event(spec: EventSpec, count: int, api_version: str, node: str) -> Object:
    """Return the document of an event that is not on the server yet.

    Args:
        spec: content of the event.
        count: number of occurrences.
        api_version: API version of the kind of its subject.
        node: name of the node.
    """
    subject, stamp = spec.subject, stamp_of(spec.at)
    return {
        "metadata": {"name": event_name(spec), "namespace": subject.namespace},
        "involvedObject": {
            "apiVersion": api_version,
            "kind": spec.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "reason": spec.reason,
        "message": spec.message,
        "type": "Warning" if spec.warning else "Normal",
        "source": {"component": DRIVER_NAME, "host": node},
        "reportingComponent": DRIVER_NAME,
        "reportingInstance": node,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": count,
    }


def with_count(event: Document, spec: EventSpec, count: int) -> Object | None:
    """Return the event with a higher count, None if the server's event contains it already.

    Args:
        event: the server's event.
        spec: content of the event, with the time of its last occurrence.
        count: number of further occurrences.
    """
    last = seconds_of(event.get("lastTimestamp"))
    if spec.once or (last is not None and last >= spec.at):
        return None
    previous = event.get("count")
    total = (previous if isinstance(previous, int) else 1) + count
    return {**event, "lastTimestamp": stamp_of(spec.at), "count": total}
