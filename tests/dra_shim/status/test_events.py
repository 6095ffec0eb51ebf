"""Occurrences as Events, and Events that count."""

import re
from dataclasses import replace
from typing import Any

import pytest

from dra_shim.status.events import MAX_NAME, event_name, new_event, with_count
from dra_shim.status.reasons import EventSpec
from dranet_nri.model import ObjectRef
from tests.dra_shim.status.records import NOW, POD, STAMP

FAILED = EventSpec("Pod", POD, "NetworkDeviceAttachFailed", "eth0: EBUSY", int(NOW))
LATER = "2026-09-21T14:14:20Z"  # a minute
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def test_event_has_the_format_of_dranet() -> None:
    assert new_event(FAILED, 2, "v1", "node-1") == {
        "metadata": {"name": "train.90b63b8964c40a24", "namespace": "ai"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ai",
            "name": "train",
            "uid": "pod-1",
        },
        "reason": "NetworkDeviceAttachFailed",
        "message": "eth0: EBUSY",
        "type": "Warning",
        "source": {"component": "dra.net", "host": "node-1"},
        "reportingComponent": "dra.net",
        "reportingInstance": "node-1",
        "firstTimestamp": STAMP,
        "lastTimestamp": STAMP,
        "count": 2,
    }


def test_success_event_is_normal() -> None:
    assert new_event(replace(FAILED, warning=False), 1, "v1", "n")["type"] == "Normal"


@pytest.mark.parametrize(
    "other",
    [
        replace(FAILED, subject=replace(POD, uid="pod-2")),
        replace(FAILED, reason="NetworkDeviceDetachFailed"),
        replace(FAILED, message="eth0: EIO"),
    ],
)
def test_event_names_are_distinct(other: EventSpec) -> None:
    assert event_name(other) != event_name(FAILED)
    assert event_name(replace(FAILED, at=7)) == event_name(FAILED)


@pytest.mark.parametrize("name", ["a" * 253, "a" * 235 + ".b", "a" * 234 + "-." + "b" * 17])
def test_long_event_name_is_truncated_to_a_valid_name(name: str) -> None:
    called = event_name(replace(FAILED, subject=ObjectRef("ai", name, "u")))

    assert len(called) <= MAX_NAME
    assert SUBDOMAIN.fullmatch(called)


@pytest.mark.parametrize(("before", "count"), [(3, 5), (None, 3), ("many", 3)])
def test_repeated_event_increases_the_count(before: object, count: int) -> None:
    event = {**new_event(FAILED, 1, "v1", "n"), "count": before, "metadata": {"uid": "e"}}

    again: Any = with_count(event, replace(FAILED, at=FAILED.at + 60), 2)

    assert again == {**event, "count": count, "lastTimestamp": LATER}


@pytest.mark.parametrize("last", [STAMP, LATER])
def test_posted_occurrence_is_not_counted_again(last: str) -> None:
    assert with_count({"lastTimestamp": last, "count": 1}, FAILED, 1) is None


def test_one_time_event_is_not_counted() -> None:
    assert with_count({"count": 1}, replace(FAILED, once=True), 1) is None


def test_event_without_a_time_is_counted() -> None:
    assert with_count({"count": 1}, FAILED, 1) == {"count": 2, "lastTimestamp": STAMP}
