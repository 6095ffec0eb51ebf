"""API responses: objects, lists, events, and Status documents that describe an error.

Rule: any bytes become a value or an error of this package.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dra_shim.kubeapi.errors import (
    ApiError,
    Cause,
    ConflictError,
    ExpiredError,
    InvalidError,
    NotFoundError,
    NotServedError,
    RejectedError,
    UnavailableError,
)
from dra_shim.kubeapi.requests import VERSIONS, ApiRequest

MAX_RETRY_AFTER_S: Final = 600.0  # upper limit of Retry-After, in seconds
MAX_QUOTE: Final = 300  # characters of a server's message
_UNAUTHORIZED: Final = "the server refused the token; check the service account or --kubeconfig"

Object = dict[str, object]


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A response; the header names are lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ObjectList:
    """Objects of a kind, and the state of the list.

    Attributes:
        continue_token: "" for the last page.
    """

    items: tuple[Object, ...]
    version: str
    continue_token: str = ""


class WatchEventType(StrEnum):
    """Type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"  # bookmark: no change up to the object's resourceVersion


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change, with the object after it, or its last state."""

    change: WatchEventType
    object: Object


def read_object(request: ApiRequest, reply: ApiResponse) -> Object:
    """Return the object of a response.

    Raises:
        ApiError: the server reports an error, or the response is not valid.
    """
    if not 200 <= reply.status < 300:
        raise failure(request, reply)
    return _decoded(request, reply.body)


def read_listing(request: ApiRequest, reply: ApiResponse) -> ObjectList:
    """Return the objects of a response.

    Raises:
        ApiError: see read_object.
    """
    document = read_object(request, reply)
    items = document.get("items") or []
    version = version_of(document)
    if not isinstance(items, list) or not version:
        raise _not_kubernetes(request, reply.body)
    continue_token = str(object_at(document, "metadata").get("continue") or "")
    objects = tuple(item for item in items if isinstance(item, dict))
    return ObjectList(objects, version, continue_token)


def read_versions(request: ApiRequest, reply: ApiResponse, group: str) -> str:
    """Return the preferred version of a group that both server and shim support.

    Raises:
        NotServedError: there is none.
        ApiError: see read_object.
    """
    try:
        document = read_object(request, reply)
    except (NotServedError, NotFoundError) as error:
        raise _not_served(request, group, "none of its versions") from error
    found = [str(entry.get("version")) for entry in objects_at(document, "versions")]
    for version in VERSIONS[group]:
        if version in found:
            return version
    raise _not_served(request, group, f"only {', '.join(sorted(found)) or 'nothing'}")


def read_event(request: ApiRequest, line: bytes) -> WatchEvent:
    """Return the event in one line of a watch.

    Raises:
        ExpiredError: the watch cannot continue; list again.
        ApiError: the server reports an error, or the line is not valid.
    """
    document = _decoded(request, line)
    inner = document.get("object")
    if not isinstance(inner, dict):
        raise _not_kubernetes(request, line)
    kind = document.get("type")
    if kind == "ERROR":
        code = inner.get("code")
        raise _failure(request, code if isinstance(code, int) else 500, inner, {})
    try:
        return WatchEvent(WatchEventType(str(kind)), inner)
    except ValueError:
        raise _not_kubernetes(request, line) from None


def failure(request: ApiRequest, reply: ApiResponse) -> ApiError:
    """Return the error of a response."""
    try:
        status = _decoded(request, reply.body)
    except ApiError:
        status = {"message": reply.body[:MAX_QUOTE].decode(errors="replace")}
    return _failure(request, reply.status, status, reply.headers)


def name_of(document: Mapping[str, object]) -> str:
    """Return metadata.name, "" if there is none."""
    return str(object_at(document, "metadata").get("name") or "")


def uid_of(document: Mapping[str, object]) -> str:
    """Return metadata.uid, "" if there is none."""
    return str(object_at(document, "metadata").get("uid") or "")


def version_of(document: Mapping[str, object]) -> str:
    """Return metadata.resourceVersion, "" if there is none."""
    return str(object_at(document, "metadata").get("resourceVersion") or "")


def object_at(value: object, *path: str) -> Mapping[str, object]:
    """Return the object at a path of fields in a document, {} if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def objects_at(value: object, *path: str) -> list[Mapping[str, object]]:
    """Return the objects in the list at a path of fields in a document, [] if there is none."""
    *outer, last = path
    entries = object_at(value, *outer).get(last)
    return (
        [entry for entry in entries if isinstance(entry, Mapping)]
        if isinstance(entries, list)
        else []
    )


def _decoded(request: ApiRequest, body: bytes) -> Object:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _not_kubernetes(request, body)
    return document


def _not_kubernetes(request: ApiRequest, body: bytes) -> UnavailableError:
    """Return the error for a response that is not from an API server, but from a proxy, say."""
    shown = body[:40].decode(errors="replace")
    return UnavailableError(
        str(request), f"the answer is not Kubernetes' ({shown!r})", "check the server's address"
    )


def _not_served(request: ApiRequest, group: str, found: str) -> NotServedError:
    supported = ", ".join(VERSIONS[group])
    return NotServedError(
        str(request),
        f"the server has {found}, this version supports {supported}",
        "Kubernetes 1.34 serves v1; before it enable DynamicResourceAllocation and a beta version",
    )


def _failure(
    request: ApiRequest, code: int, status: Mapping[str, object], headers: Mapping[str, str]
) -> ApiError:
    """Return the error of an HTTP status and a Status document (k8s.io/apimachinery meta/v1)."""
    subject = str(request)
    message = " ".join(str(status.get("message") or "").split())
    text = message[:MAX_QUOTE] or f"HTTP status {code}"
    details = object_at(status, "details")
    match code:
        case 401:
            return RejectedError(subject, text, _UNAUTHORIZED)
        case 403 if _is_terminating(details):
            return NotFoundError(subject, text)
        case 403:
            return RejectedError(subject, text, _permission(request, message))
        case 404 if status.get("reason") == "NotFound" and details.get("name"):
            return NotFoundError(subject, text)
        case 404:
            return NotServedError(subject, text)
        case 409:
            return ConflictError(subject, text)
        case 410:
            return ExpiredError(subject, text)
        case _ if code in (408, 429) or not 400 <= code < 500:  # a proxy redirects, no API server
            return UnavailableError(subject, text, after_s=_retry_after_s(headers, details))
    causes = _causes(details)
    if any(cause.field == "metadata.uid" for cause in causes):
        return ConflictError(subject, text)  # error of an apply to an object with another UID
    return InvalidError(subject, text, causes=causes)


def _permission(request: ApiRequest, message: str) -> str:
    """Return the remedy of a 403: a missing permission, or a policy.

    The text of a missing permission is that of apiserver's endpoints/handlers/responsewriters.
    """
    grant = f"grant {request.verb} on {request.resource} to the service account"
    if f" cannot {request.verb} " in message:
        return grant
    return f"a policy, webhook or quota refused it; if none did, {grant}"


def _causes(details: Mapping[str, object]) -> tuple[Cause, ...]:
    return tuple(
        Cause(str(entry.get("field") or ""), str(entry.get("message") or ""))
        for entry in objects_at(details, "causes")
    )


def _is_terminating(details: Mapping[str, object]) -> bool:
    """Return whether a namespace accepts no objects because it is being deleted (api/core/v1)."""
    causes = objects_at(details, "causes")
    return any(entry.get("reason") == "NamespaceTerminating" for entry in causes)


def _retry_after_s(headers: Mapping[str, str], details: Mapping[str, object]) -> float:
    """Return the seconds of Retry-After, 0.0 if there is none."""
    retry_after = headers.get("retry-after") or details.get("retryAfterSeconds") or 0
    try:
        seconds = float(str(retry_after))
    except ValueError:
        seconds = 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if seconds == seconds else 0.0
