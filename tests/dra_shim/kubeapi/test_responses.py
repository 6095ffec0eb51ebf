"""Replies become values or our errors, whatever they are."""

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

ASKED = requests.replacing(ObjectPath(SLICE, "v1", name="s-0"), {})
GROUP = "resource.k8s.io"
ENDING = {"reason": "NamespaceTerminating", "field": "metadata.namespace", "message": "ml is being"}
DISCOVERY = requests.discovery(GROUP)


def reply(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> ApiResponse:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ApiResponse(status, text, headers or {})


def said(code: int, reason: str = "", message: str = "no", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def test_an_object_keeps_every_field() -> None:
    document = {"metadata": {"name": "a"}, "ofANewerServer": [1, {"x": None}]}

    assert read_object(ASKED, reply(document, 201)) == document


def test_a_list_has_items_and_a_state() -> None:
    listing = read_listing(
        ASKED, reply({"metadata": {"resourceVersion": "9"}, "items": [{"a": 1}, 7]})
    )

    assert (listing.items, listing.version, listing.rest) == (({"a": 1},), "9", "")


def test_a_page_says_where_to_go_on() -> None:
    metadata = {"resourceVersion": "9", "continue": "x"}

    assert read_listing(ASKED, reply({"metadata": metadata, "items": []})).rest == "x"


def test_an_empty_list_may_be_null() -> None:
    assert not read_listing(
        ASKED, reply({"metadata": {"resourceVersion": "9"}, "items": None})
    ).items


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", b"", b"[" * 100_000, b"\xff", {"items": []}, {"metadata": 3},
     {"metadata": {"resourceVersion": "1"}, "items": {"a": 1}}],
    ids=["a page", "an array", "nothing", "deep", "not text", "no state", "metadata", "items"],
)  # fmt: skip
def test_what_is_no_list_may_be_one_later(body: object) -> None:
    with pytest.raises(UnavailableError, match="update ResourceSlice s-0: the answer is not Kube"):
        read_listing(ASKED, reply(body))


@pytest.mark.parametrize(
    ("status", "document", "kind"),
    [
        (401, said(401), RejectedError),
        (403, said(403), RejectedError),
        (403, said(403, "Forbidden", causes=[ENDING]), NotFoundError),
        (403, said(403, "Forbidden", causes=[{"reason": "FieldValueInvalid"}, 7]), RejectedError),
        (404, said(404, "NotFound", name="s-0"), NotFoundError),
        (404, b"404 page not found\n", NotServedError),
        (404, said(404, "NotFound"), NotServedError),
        (409, said(409, "AlreadyExists"), ConflictError),
        (410, said(410, "Expired"), ExpiredError),
        (422, said(422, "Invalid"), InvalidError),
        (422, said(422, "Invalid", causes=[{"field": "metadata.uid"}]), ConflictError),
        (400, said(400, "BadRequest"), InvalidError),
        (302, b"", InvalidError),
        (408, b"timeout", UnavailableError),
        (413, b"too large", InvalidError),
        (429, said(429), UnavailableError),
        (500, said(500), UnavailableError),
        (503, b"", UnavailableError),
    ],
)
def test_a_status_has_its_error(status: int, document: object, kind: type[ApiError]) -> None:
    with pytest.raises(ApiError) as caught:
        read_object(ASKED, reply(document, status))

    assert type(caught.value) is kind
    assert caught.value.subject == "update ResourceSlice s-0"


def test_an_error_is_one_line_of_subject_reason_and_remedy() -> None:
    with pytest.raises(RejectedError) as caught:
        read_object(ASKED, reply(said(403, "Forbidden", "not yours"), 403))

    assert str(caught.value) == (
        "update ResourceSlice s-0: not yours; a policy, webhook or quota refused it; if none did,"
        " grant update on resourceslices to the service account"
    )
    assert (caught.value.reason, caught.value.remedy[:8]) == ("not yours", "a policy")


def test_a_missing_right_is_told_from_a_policy() -> None:
    missing = 'User "sa" cannot update resource "resourceslices" in API group "resource.k8s.io"'
    with pytest.raises(RejectedError) as caught:
        read_object(ASKED, reply(said(403, "Forbidden", missing), 403))

    assert caught.value.remedy == "grant update on resourceslices to the service account"


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"upstream\n is away\n", "upstream is away"), (b"", "HTTP status 503"), (b"[1]", "[1]")],
)
def test_words_that_are_no_status_are_told_as_they_are(body: bytes, reason: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        read_object(ASKED, reply(body, 503))

    assert caught.value.reason == reason


def test_a_page_of_words_is_cut() -> None:
    with pytest.raises(UnavailableError) as caught:
        read_object(ASKED, reply(said(500, message="x" * 5000), 500))

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
def test_how_long_to_wait_is_taken_from_where_it_is_said(
    headers: dict[str, str], details: dict[str, Any], seconds: float
) -> None:
    with pytest.raises(UnavailableError) as caught:
        read_object(ASKED, reply(said(429, **details), 429, headers))

    assert caught.value.after_s == seconds


def test_fields_that_are_not_taken_are_named() -> None:
    causes = [{"field": "spec.devices[3].name", "message": "bad", "reason": "x"}, 7, {}]

    with pytest.raises(InvalidError) as caught:
        read_object(ASKED, reply(said(422, "Invalid", causes=causes), 422))

    assert caught.value.causes == (Cause("spec.devices[3].name", "bad"), Cause("", ""))


@pytest.mark.parametrize("details", [None, [], {"causes": "odd"}, {"causes": None}])
def test_details_that_are_odd_are_none(details: object) -> None:
    document = {**said(422, "Invalid"), "details": details}

    with pytest.raises(InvalidError) as caught:
        read_object(ASKED, reply(document, 422))

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
def test_the_best_version_is_chosen(served: list[str], best: str) -> None:
    entries: list[object] = [{"version": version} for version in served]

    assert read_versions(DISCOVERY, reply({"versions": [*entries, "odd"]}), GROUP) == best


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (reply(b"404 page not found", 404), "none of its versions"),
        (reply(said(404, "NotFound", name="x"), 404), "none of its versions"),
        (reply({"versions": [{"version": "v1alpha3"}, {"version": "v3"}]}), "only v1alpha3, v3"),
        (reply({}), "only nothing"),
    ],
    ids=["no group", "no such object", "others", "an empty group"],
)
def test_a_server_without_the_group_is_told_what_to_do(answer: ApiResponse, found: str) -> None:
    with pytest.raises(NotServedError, match=f"{found}.*enable DynamicResourceAllocation"):
        read_versions(DISCOVERY, answer, GROUP)


def test_a_server_that_cannot_say_is_asked_again() -> None:
    with pytest.raises(UnavailableError):
        read_versions(DISCOVERY, reply(b"", 503), GROUP)


# --------------------------------------------------------------------------- events


@pytest.mark.parametrize("change", list(WatchEventType))
def test_an_event_is_a_change_and_an_object(change: WatchEventType) -> None:
    line = json.dumps({"type": change, "object": {"metadata": {"name": "a"}}}).encode()

    assert read_event(ASKED, line) == WatchEvent(change, {"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    ("inner", "kind"),
    [
        (said(410, "Expired"), ExpiredError),
        (said(429), UnavailableError),
        ({"message": "cannot decode"}, UnavailableError),
    ],
)
def test_an_event_may_be_an_error(inner: dict[str, Any], kind: type[ApiError]) -> None:
    with pytest.raises(kind):
        read_event(ASKED, json.dumps({"type": "ERROR", "object": inner}).encode())


@pytest.mark.parametrize(
    "line",
    [b'{"type": "ADDED"', b'{"type": "ADDED", "object": 7}', b'{"type": "SHRUNK", "object": {}}'],
    ids=["half", "no object", "an unknown change"],
)
def test_what_is_no_event_ends_the_watch(line: bytes) -> None:
    with pytest.raises(UnavailableError):
        read_event(ASKED, line)


@given(st.binary(), st.integers(100, 599))
def test_garbage_is_an_error_of_ours(body: bytes, status: int) -> None:
    for read in (read_object, read_listing):
        with suppress(ApiError):
            read(ASKED, ApiResponse(status, body, {"retry-after": body.decode(errors="replace")}))
    with suppress(ApiError):
        read_event(ASKED, body)
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
def test_odd_documents_are_values_or_errors_of_ours(document: dict[str, Any], status: int) -> None:
    answer = reply(document, status)
    for read in (read_object, read_listing):
        with suppress(ApiError):
            read(ASKED, answer)
    with suppress(ApiError):
        read_versions(DISCOVERY, answer, GROUP)
    with suppress(ApiError):
        read_event(ASKED, answer.body)
    assert isinstance(name_of(document) + uid_of(document) + version_of(document), str)
