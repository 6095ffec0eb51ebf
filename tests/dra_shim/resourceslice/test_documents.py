"""Slices as documents: written in each version, read back, compared by what they say."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dra_shim.resourceapi import Capacity, CounterValue, Policy, SliceDevice, Taint
from dra_shim.resourceslice.documents import (
    SlicePool,
    changed_document,
    first_device,
    new_document,
    normalized,
    quantity,
    read_published,
    spec_of,
)
from dra_shim.resourceslice.layout import SliceContent
from dranet_nri.model import Version
from tests.dra_shim.resourceslice.pools import NODE, POOL, parsed

MILLION = Fraction(10**6)
RICH = SliceDevice(
    "dra.net",
    NODE,
    "nic-0",
    (
        ("dra.net/alias", ""),
        ("dra.net/firmware", Version("22.39.1002")),
        ("dra.net/mtu", 9000),
        ("dra.net/rdma", False),
    ),
    (
        Capacity(
            "dra.net/bandwidth",
            100_000 * MILLION,
            Policy(Fraction(), (), Fraction(), None, MILLION),
        ),
        Capacity("dra.net/queues", Fraction(63)),
    ),
    (CounterValue("pf", "functions", Fraction(1)),),
    (Taint("dra.net/unhealthy", "NoCarrier"), Taint("dra.net/other", "", "None")),
    shared=True,
)
PLAIN = SliceDevice("dra.net", NODE, "nic-1")
VERSIONS = ("v1", "v1beta2", "v1beta1")


def in_version(version: str) -> SlicePool:
    return replace(POOL, version=version)


def on_server(pool: SlicePool, document: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a document as a server shows it."""
    shown = {**document["metadata"], "uid": "u1", "resourceVersion": "7", **metadata}
    return {**document, "apiVersion": f"resource.k8s.io/{pool.version}", "metadata": shown}


@pytest.mark.parametrize("version", VERSIONS)
def test_written_slice_is_read_back_equal(version: str) -> None:
    pool = in_version(version)
    content = SliceContent("s-0", (RICH, PLAIN))

    document = on_server(pool, new_document(pool, content, spec_of(pool, content, 3, 2)))

    found = parsed(document)
    assert found.devices == content.devices
    assert (found.driver, found.pool, found.node) == ("dra.net", NODE, NODE)
    assert (found.name, found.generation, found.count) == ("s-0", 3, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_counters_are_written_by_set(version: str) -> None:
    pool = in_version(version)
    counters = (
        CounterValue("pf-a", "functions", Fraction(8)),
        CounterValue("pf-a", "queues", Fraction(2000)),
        CounterValue("pf-b", "functions", Fraction(1)),
    )
    content = SliceContent("s-0", counters=counters)

    spec = spec_of(pool, content, 1, 1)

    assert "devices" not in spec
    assert parsed(on_server(pool, new_document(pool, content, spec))).counters == counters


def test_empty_pool_has_a_slice_without_devices() -> None:
    spec = spec_of(POOL, SliceContent("s-0"), 1, 1)

    assert spec["devices"] == []


def test_slice_has_its_node_as_owner() -> None:
    document = new_document(POOL, SliceContent("s-0"), {})

    assert document["metadata"] == {
        "name": "s-0",
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "n1", "controller": True}
        ],
    }


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (7, "7"),
        (1000, "1k"),
        (1500, "1500"),
        (10**6, "1M"),
        (1500 * 10**6, "1500M"),
        (10**11, "100G"),
        (400 * 10**9, "400G"),
        (10**12, "1T"),
        (2 * 10**18, "2E"),
    ],
)
def test_quantities_have_the_canonical_form(amount: int, text: str) -> None:
    assert quantity(Fraction(amount)) == text


@pytest.mark.parametrize("version", VERSIONS)
def test_relevant_fields_of_a_published_slice_are_read(version: str) -> None:
    pool = in_version(version)
    content = SliceContent("s-0", (RICH, PLAIN))
    spec = spec_of(pool, content, 3, 2)

    found = read_published(on_server(pool, new_document(pool, content, spec)))

    assert (found.name, found.uid, found.version) == ("s-0", "u1", "7")
    assert (found.pool, found.generation, found.owners) == (NODE, 3, ("n1",))
    assert found.devices == ("nic-0", "nic-1")
    assert found.spec == normalized(spec)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"metadata": 7, "spec": 7},
        {"metadata": {"ownerReferences": 7}, "spec": {"devices": 7, "pool": 7}},
        {
            "metadata": {"ownerReferences": [7]},
            "spec": {"devices": [7], "pool": {"generation": "7"}},
        },
    ],
)
def test_malformed_fields_of_a_published_slice_are_empty(document: dict[str, Any]) -> None:
    found = read_published(document)

    assert (found.name, found.generation, found.owners, found.devices) == ("", 0, (), ())
    assert first_device(document) == {}


def test_times_and_empty_fields_are_ignored() -> None:
    sent = {"devices": [{"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}]}]}
    stored: dict[str, Any] = {
        "devices": [
            {
                "name": "a",
                "attributes": {},
                "capacity": None,
                "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "2026"}],
            }
        ],
        "sharedCounters": [],
    }

    assert normalized(sent) == normalized(stored) == sent


def test_false_zero_and_empty_strings_are_compared() -> None:
    spec = {"a": False, "b": 0, "c": ""}

    assert normalized(spec) == spec


@pytest.mark.parametrize("version", VERSIONS)
def test_unchanged_taint_keeps_its_time(version: str) -> None:
    pool = in_version(version)
    content = SliceContent("s-0", (RICH, PLAIN))
    spec = spec_of(pool, content, 1, 1)
    written = on_server(pool, new_document(pool, content, spec))
    for taint in first_device(written)["taints"]:
        taint["timeAdded"] = "2026-11-20T12:00:00Z"
    other = replace(RICH, taints=(*RICH.taints[:1], Taint("dra.net/other", "new", "None")))
    next_spec = spec_of(
        pool, SliceContent("s-0", (other, replace(PLAIN, taints=RICH.taints))), 1, 1
    )

    document = changed_document(pool, read_published(written), next_spec)

    times = [taint.get("timeAdded") for taint in first_device(document)["taints"]]
    assert times == ["2026-11-20T12:00:00Z", None]
    assert "timeAdded" not in str(document["spec"]["devices"][1])  # type: ignore[index]
    assert normalized(document["spec"]) == normalized(next_spec)  # type: ignore[arg-type]


def test_foreign_metadata_is_kept() -> None:
    content = SliceContent("s-0", (PLAIN,))
    rack = {"kind": "Rack", "uid": "r1"}
    owners = [rack, {"kind": "Node", "uid": "old"}]
    labels = {"a": "b"}
    written = on_server(
        POOL,
        new_document(POOL, content, spec_of(POOL, content, 1, 1)),
        ownerReferences=owners,
        labels=labels,
    )

    document = changed_document(POOL, read_published(written), {"sharedCounters": []})

    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["labels"], metadata["resourceVersion"]) == (labels, "7")
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["r1", "n1"]
    assert document["spec"] == {"sharedCounters": []}
