"""Responses as values or API errors."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.kubeapi import requests
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
from dra_shim.kubeapi.requests import SLICE, ObjectPath
from dra_shim.kubeapi.responses import (
    ApiResponse,
    WatchEvent,
    WatchEventType,
    name_of,
    read_event,
    read_listing,
    read_object,
    read_versions,
    uid_of,
    version_of,
)

REQUEST = requests.replacing(ObjectPath(SLICE, "v1", name="s-0"), {})
GROUP = "resource.k8s.io"
ENDING = {"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": "ml is being"}
DISCOVERY = requests.discovery(GROUP)


def reply(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> ApiResponse:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ApiResponse(status, text, headers or {})


def status_document(
    code: int, reason: str = "", message: str = "no", **details: Any
) -> dict[str, Any]:
    return {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def test_object_keeps_every_field() -> None:
    document = {"metadata": {"name": "a"}, "ofANewerServer": [1, {"x": None}]}

    assert read_object(REQUEST, reply(document, 201)) == document


def test_list_has_items_and_a_resource_version() -> None:
    listing = read_listing(
        REQUEST, reply({"metadata": {"resourceVersion": "9"}, "items": [{"a": 1}, 7]})
    )

    assert (listing.items, listing.version, listing.continue_token) == (({"a": 1},), "9", "")


def test_page_has_a_continue_token() -> None:
    metadata = {"resourceVersion": "9", "continue": "x"}

    assert read_listing(REQUEST, reply({"metadata": metadata, "items": []})).continue_token == "x"


def test_an_empty_list_may_be_null() -> None:
    assert not read_listing(
        REQUEST, reply({"metadata": {"resourceVersion": "9"}, "items": None})
    ).items


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", b"", b"[" * 100_000, b"\xff", {"items": []}, {"metadata": 3},
     {"metadata": {"resourceVersion": "1"}, "items": {"a": 1}}],
    ids=["a page", "an array", "nothing", "deep", "not text", "no state", "metadata", "items"],
)  # fmt: skip
def test_invalid_list_is_a_retryable_error(body: object) -> None:
    with pytest.raises(UnavailableError, match="update ResourceSlice s-0: the answer is not Kube"):
        read_listing(REQUEST, reply(body))


@pytest.mark.parametrize(
    ("status", "document", "kind"),
    [
        (401, status_document(401), RejectedError),
        (403, status_document(403), RejectedError),
        (403, status_document(403, "Forbidden", causes=[ENDING]), NotFoundError),
        (
            403,
            status_document(403, "Forbidden", causes=[{"reason": "FieldValueInvalid"}, 7]),
            RejectedError,
        ),
        (404, status_document(404, "NotFound", name="s-0"), NotFoundError),
        (404, b"404 page not found\n", NotServedError),
        (404, status_document(404, "NotFound"), NotServedError),
        (409, status_document(409, "AlreadyExists"), ConflictError),
        (410, status_document(410, "Expired"), ExpiredError),
        (422, status_document(422, "Invalid"), InvalidError),
        (422, status_document(422, "Invalid", causes=[{"field": "metadata.uid"}]), ConflictError),
        (400, status_document(400, "BadRequest"), InvalidError),
        (302, b"", UnavailableError),
        (408, b"timeout", UnavailableError),
        (413, b"too large", InvalidError),
        (429, status_document(429), UnavailableError),
        (500, status_document(500), UnavailableError),
        (503, b"", UnavailableError),
    ],
)
def test_http_status_is_mapped_to_its_error(
    status: int, document: object, kind: type[ApiError]
) -> None:
    with pytest.raises(ApiError) as caught:
        read_object(REQUEST, reply(document, status))

    assert type(caught.value) is kind
    assert caught.value.subject == "update ResourceSlice s-0"


def test_error_is_one_line_with_subject_reason_and_remedy() -> None:
    with pytest.raises(RejectedError) as caught:
        read_object(REQUEST, reply(status_document(403, "Forbidden", "not yours"), 403))

    assert str(caught.value) == (
        "update ResourceSlice s-0: not yours; a policy, webhook or quota refused it; if none did,"
        " grant update on resourceslices to the service account"
    )
    assert (caught.value.reason, caught.value.remedy[:8]) == ("not yours", "a policy")


def test_missing_right_is_distinguished_from_a_policy() -> None:
    missing = 'User "sa" cannot update resource "resourceslices" in API group "resource.k8s.io"'
    with pytest.raises(RejectedError) as caught:
        read_object(REQUEST, reply(status_document(403, "Forbidden", missing), 403))

    assert caught.value.remedy == "grant update on resourceslices to the service account"


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"upstream\n is away\n", "upstream is away"), (b"", "HTTP status 503"), (b"[1]", "[1]")],
)
def test_body_that_is_no_status_is_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        read_object(REQUEST, reply(body, 503))

    assert caught.value.reason == reason


def test_long_message_is_truncated() -> None:
    with pytest.raises(UnavailableError) as caught:
        read_object(REQUEST, reply(status_document(500, message="x" * 5000), 500))

    assert caught.value.reason == "x" * 300


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"retry-after": "7"}, {}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({"retry-after": "7"}, {"retryAfterSeconds": 3}, 7.0),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:00 GMT"}, {}, 0.0),
        ({"retry-after": "-5"}, {}, 0.0),
        ({"retry-after": "nan"}, {}, 0.0),
        ({"retry-after": "1e9"}, {}, 600.0),
        ({}, {}, 0.0),
    ],
)
def test_retry_delay_is_read_from_the_header_or_the_status(
    headers: dict[str, str], details: dict[str, Any], seconds: float
) -> None:
    with pytest.raises(UnavailableError) as caught:
        read_object(REQUEST, reply(status_document(429, **details), 429, headers))

    assert caught.value.after_s == seconds


def test_invalid_fields_are_the_causes_of_the_error() -> None:
    causes = [{"field": "spec.devices[3].name", "message": "bad", "reason": "x"}, 7, {}]

    with pytest.raises(InvalidError) as caught:
        read_object(REQUEST, reply(status_document(422, "Invalid", causes=causes), 422))

    assert caught.value.causes == (Cause("spec.devices[3].name", "bad"), Cause("", ""))


@pytest.mark.parametrize("details", [None, [], {"causes": "odd"}, {"causes": None}])
def test_malformed_details_give_no_causes(details: object) -> None:
    document = {**status_document(422, "Invalid"), "details": details}

    with pytest.raises(InvalidError) as caught:
        read_object(REQUEST, reply(document, 422))

    assert caught.value.causes == ()


# --------------------------------------------------------------------------- versions


@pytest.mark.parametrize(
    ("served", "best"),
    [
        (["v1", "v1beta2"], "v1"),
        (["v1beta1", "v1beta2"], "v1beta2"),
        (["v1alpha3", "v1beta1"], "v1beta1"),
    ],
)
def test_newest_known_version_is_chosen(served: list[str], best: str) -> None:
    entries: list[object] = [{"version": version} for version in served]

    assert read_versions(DISCOVERY, reply({"versions": [*entries, "odd"]}), GROUP) == best


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (reply(b"404 page not found", 404), "none of its versions"),
        (reply(status_document(404, "NotFound", name="x"), 404), "none of its versions"),
        (reply({"versions": [{"version": "v1alpha3"}, {"version": "v3"}]}), "only v1alpha3, v3"),
        (reply({}), "only nothing"),
    ],
    ids=["no group", "no such object", "others", "an empty group"],
)
def test_missing_api_group_is_reported_with_the_remedy(answer: ApiResponse, found: str) -> None:
    with pytest.raises(NotServedError, match=f"{found}.*enable DynamicResourceAllocation"):
        read_versions(DISCOVERY, answer, GROUP)


def test_failed_discovery_is_a_retryable_error() -> None:
    with pytest.raises(UnavailableError):
        read_versions(DISCOVERY, reply(b"", 503), GROUP)


# --------------------------------------------------------------------------- events


@pytest.mark.parametrize("change", list(WatchEventType))
def test_event_has_a_change_and_an_object(change: WatchEventType) -> None:
    line = json.dumps({"type": change, "object": {"metadata": {"name": "a"}}}).encode()

    assert read_event(REQUEST, line) == WatchEvent(change, {"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    ("inner", "kind"),
    [
        (status_document(410, "Expired"), ExpiredError),
        (status_document(429), UnavailableError),
        ({"message": "cannot decode"}, UnavailableError),
    ],
)
def test_error_event_is_mapped_to_its_error(inner: dict[str, Any], kind: type[ApiError]) -> None:
    with pytest.raises(kind):
        read_event(REQUEST, json.dumps({"type": "ERROR", "object": inner}).encode())


@pytest.mark.parametrize(
    "line",
    [b'{"type": "ADDED"', b'{"type": "ADDED", "object": 7}', b'{"type": "SHRUNK", "object": {}}'],
    ids=["half", "no object", "an unknown change"],
)
def test_malformed_event_is_a_retryable_error(line: bytes) -> None:
    with pytest.raises(UnavailableError):
        read_event(REQUEST, line)


@given(st.binary(), st.integers(100, 599))
def test_any_bytes_raise_only_api_errors(body: bytes, status: int) -> None:
    for read in (read_object, read_listing):
        with suppress(ApiError):
            read(REQUEST, ApiResponse(status, body, {"retry-after": body.decode(errors="replace")}))
    with suppress(ApiError):
        read_event(REQUEST, body)
    with suppress(ApiError):
        read_versions(DISCOVERY, ApiResponse(status, body, {}), GROUP)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
WORDS = st.sampled_from(
    ["kind", "code", "reason", "message", "details", "causes", "metadata", "items", "type",
     "object", "name", "versions", "retryAfterSeconds", "field", "resourceVersion", "ERROR"]
)  # fmt: skip


@given(
    st.dictionaries(WORDS, st.dictionaries(WORDS, JSON, max_size=6) | WORDS | JSON, max_size=6),
    st.integers(100, 599),
)
def test_any_document_is_a_value_or_raises_an_api_error(
    document: dict[str, Any], status: int
) -> None:
    answer = reply(document, status)
    for read in (read_object, read_listing):
        with suppress(ApiError):
            read(REQUEST, answer)
    with suppress(ApiError):
        read_versions(DISCOVERY, answer, GROUP)
    with suppress(ApiError):
        read_event(REQUEST, answer.body)
    assert isinstance(name_of(document) + uid_of(document) + version_of(document), str)
