"""Requests as values: path, query and body."""

import json

import pytest

from dra_shim.kubeapi import requests
from dra_shim.kubeapi.requests import CLAIM, NODE, SLICE, ObjectPath

SLICES = ObjectPath(SLICE, "v1")
ONE = ObjectPath(SLICE, "v1beta1", name="node-1-dra.net-0")
STATUS = ObjectPath(CLAIM, "v1", "ai", "fast", "status")


@pytest.mark.parametrize(
    ("object_path", "path", "title"),
    [
        (SLICES, "apis/resource.k8s.io/v1/resourceslices", "ResourceSlice"),
        (
            ONE,
            "apis/resource.k8s.io/v1beta1/resourceslices/node-1-dra.net-0",
            "ResourceSlice node-1-dra.net-0",
        ),
        (
            STATUS,
            "apis/resource.k8s.io/v1/namespaces/ai/resourceclaims/fast/status",
            "ResourceClaim ai/fast status",
        ),
        (ObjectPath(NODE, "v1", name="node-1"), "api/v1/nodes/node-1", "Node node-1"),
        (ObjectPath(NODE, "v1", name="../x?y"), "api/v1/nodes/..%2Fx%3Fy", "Node ../x?y"),
    ],
    ids=["a kind", "an object", "a part of an object", "the core group", "a hostile name"],
)
def test_object_path_has_an_url_path_and_a_title(
    object_path: ObjectPath, path: str, title: str
) -> None:
    assert (object_path.path, str(object_path)) == (path, title)


def test_discovery_requests_the_api_group() -> None:
    request = requests.discovery("resource.k8s.io")

    assert (request.method, request.path) == ("GET", "apis/resource.k8s.io")
    assert str(request) == "get API group resource.k8s.io"


def test_get_request_has_no_query_and_no_body() -> None:
    request = requests.getting(ONE)

    assert (request.method, request.path, request.query, request.body) == (
        "GET",
        ONE.path,
        {},
        None,
    )
    assert (request.verb, request.resource) == ("get", "resourceslices")


def test_list_request_has_a_field_selector_and_a_resource_version() -> None:
    fields = {"spec.nodeName": "node-1", "spec.driver": "dra.net"}

    assert requests.listing(SLICES, fields, "0").query == {
        "fieldSelector": "spec.nodeName=node-1,spec.driver=dra.net",
        "resourceVersion": "0",
    }
    assert requests.listing(SLICES, {}).query == {}


def test_page_request_has_a_limit_and_a_continue_token() -> None:
    request = requests.paging(SLICES, 100)

    assert (request.verb, request.method, request.path) == ("list", "GET", SLICES.path)
    assert request.query == {"limit": "100"}
    assert requests.paging(SLICES, 100, "x+/=").query == {"limit": "100", "continue": "x+/="}


def test_watch_request_has_bookmarks_and_a_timeout() -> None:
    request = requests.watching(SLICES, {"spec.driver": "dra.net"}, "7", 300)

    assert request.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "fieldSelector": "spec.driver=dra.net",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
    }
    assert (request.verb, request.method) == ("watch", "GET")


def test_create_request_sets_the_kind_and_keeps_unknown_fields() -> None:
    document = {"metadata": {"name": "s"}, "spec": {"ofANewerServer": 1}}

    request = requests.creating(SLICES, document)

    assert json.loads(request.body or b"") == {
        **document,
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
    }
    assert (request.method, request.query, request.content_type) == ("POST", {}, "application/json")


def test_dry_run_request_has_the_dry_run_parameter() -> None:
    assert requests.creating(SLICES, {}, dry_run=True).query == {"dryRun": "All"}


def test_replace_request_puts_the_document_at_its_path() -> None:
    request = requests.replacing(ONE, {"kind": "Wrong", "spec": {}})

    assert (request.method, request.path, request.verb) == ("PUT", ONE.path, "update")
    assert json.loads(request.body or b"")["kind"] == "ResourceSlice"


@pytest.mark.parametrize("version", ["", "41"], ids=["any state", "one state"])
def test_delete_request_has_the_uid_as_a_precondition(version: str) -> None:
    request = requests.deleting(ONE, "u1", version)

    preconditions = {"uid": "u1", "resourceVersion": "41"} if version else {"uid": "u1"}
    assert json.loads(request.body or b"")["preconditions"] == preconditions
    assert request.method == "DELETE"


def test_apply_request_has_the_field_manager_and_the_subresource() -> None:
    request = requests.applying(STATUS, {"status": {}}, "dra.net")

    assert request.query == {"fieldManager": "dra.net", "force": "true"}
    assert request.content_type == "application/apply-patch+yaml"
    assert (request.method, request.verb, request.resource) == (
        "PATCH",
        "patch",
        "resourceclaims/status",
    )


def test_apply_body_is_valid_json_and_valid_yaml() -> None:
    """An apply is read as YAML, which knows no pairs of escapes and no odd characters raw."""
    text = "\x7f\x85ä\u2028\ufeff\U0001f50c"

    request = requests.applying(STATUS, {"status": text}, "dra.net")

    assert request.body is not None
    assert json.loads(request.body)["status"] == text
    assert rb'"\u007f\u0085\u00e4\u2028\ufeff' + "\U0001f50c".encode() + b'"' in request.body
