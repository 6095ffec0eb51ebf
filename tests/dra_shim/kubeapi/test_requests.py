"""Requests as values: where they go, what they ask, what they carry."""

import json

import pytest

from dra_shim.kubeapi import requests
from dra_shim.kubeapi.requests import CLAIM, NODE, SLICE, ObjectPath

SLICES = ObjectPath(SLICE, "v1")
ONE = ObjectPath(SLICE, "v1beta1", name="node-1-dra.net-0")
STATUS = ObjectPath(CLAIM, "v1", "ai", "fast", "status")


@pytest.mark.parametrize(
    ("place", "path", "title"),
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
def test_a_place_has_a_path_and_a_title(place: ObjectPath, path: str, title: str) -> None:
    assert (place.path, str(place)) == (path, title)


def test_discovery_asks_for_a_group() -> None:
    asked = requests.discovery("resource.k8s.io")

    assert (asked.method, asked.path) == ("GET", "apis/resource.k8s.io")
    assert str(asked) == "get API group resource.k8s.io"


def test_getting_asks_for_nothing_but_the_object() -> None:
    asked = requests.getting(ONE)

    assert (asked.method, asked.path, asked.query, asked.body) == ("GET", ONE.path, {}, None)
    assert (asked.verb, asked.resource) == ("get", "resourceslices")


def test_a_list_has_a_selector_and_may_be_of_any_state() -> None:
    fields = {"spec.nodeName": "node-1", "spec.driver": "dra.net"}

    assert requests.listing(SLICES, fields, "0").query == {
        "fieldSelector": "spec.nodeName=node-1,spec.driver=dra.net",
        "resourceVersion": "0",
    }
    assert requests.listing(SLICES, {}).query == {}


def test_a_page_is_of_the_newest_state_and_goes_on_where_the_last_one_ended() -> None:
    asked = requests.paging(SLICES, 100)

    assert (asked.verb, asked.method, asked.path) == ("list", "GET", SLICES.path)
    assert asked.query == {"limit": "100"}
    assert requests.paging(SLICES, 100, "x+/=").query == {"limit": "100", "continue": "x+/="}


def test_a_watch_asks_for_bookmarks_and_has_an_end() -> None:
    asked = requests.watching(SLICES, {"spec.driver": "dra.net"}, "7", 300)

    assert asked.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "fieldSelector": "spec.driver=dra.net",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
    }
    assert (asked.verb, asked.method) == ("watch", "GET")


def test_a_document_is_sent_under_its_kind_and_keeps_what_we_do_not_know() -> None:
    document = {"metadata": {"name": "s"}, "spec": {"ofANewerServer": 1}}

    asked = requests.creating(SLICES, document)

    assert json.loads(asked.body or b"") == {
        **document,
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
    }
    assert (asked.method, asked.query, asked.content_type) == ("POST", {}, "application/json")


def test_a_dry_run_says_so() -> None:
    assert requests.creating(SLICES, {}, dry_run=True).query == {"dryRun": "All"}


def test_replacing_puts_the_document_in_its_place() -> None:
    asked = requests.replacing(ONE, {"kind": "Wrong", "spec": {}})

    assert (asked.method, asked.path, asked.verb) == ("PUT", ONE.path, "update")
    assert json.loads(asked.body or b"")["kind"] == "ResourceSlice"


@pytest.mark.parametrize("version", ["", "41"], ids=["whatever its state", "in one state"])
def test_deleting_means_one_object(version: str) -> None:
    asked = requests.deleting(ONE, "u1", version)

    wanted = {"uid": "u1", "resourceVersion": "41"} if version else {"uid": "u1"}
    assert json.loads(asked.body or b"")["preconditions"] == wanted
    assert asked.method == "DELETE"


def test_applying_names_the_manager_and_the_part() -> None:
    asked = requests.applying(STATUS, {"status": {}}, "dra.net")

    assert asked.query == {"fieldManager": "dra.net", "force": "true"}
    assert asked.content_type == "application/apply-patch+yaml"
    assert (asked.method, asked.verb, asked.resource) == (
        "PATCH",
        "patch",
        "resourceclaims/status",
    )


def test_a_body_is_json_and_yaml_at_once() -> None:
    """An apply is read as YAML, which knows no pairs of escapes and no odd characters raw."""
    text = "\x7f\x85ä\u2028\ufeff\U0001f50c"

    asked = requests.applying(STATUS, {"status": text}, "dra.net")

    assert asked.body is not None
    assert json.loads(asked.body)["status"] == text
    assert rb'"\u007f\u0085\u00e4\u2028\ufeff' + "\U0001f50c".encode() + b'"' in asked.body
