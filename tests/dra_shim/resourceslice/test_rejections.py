"""Rejected and dropped fields, found by the field paths of a server's answer."""

import pytest

from dra_shim.kubeapi import Cause, InvalidError
from dra_shim.pool import Feature
from dra_shim.resourceapi import SliceDevice
from dra_shim.resourceslice.layout import SliceContent
from dra_shim.resourceslice.rejections import (
    Rejections,
    dropped_fields,
    features_of_dropped,
    rejections_of,
)
from tests.dra_shim.resourceslice.pools import slice_devices

PART = SliceContent("s-0", slice_devices("a", "b", "c"))


def found(*causes: tuple[str, str]) -> Rejections:
    return rejections_of(InvalidError("s", "no", causes=[Cause(*cause) for cause in causes]), PART)


def test_refused_device_is_found_by_its_index() -> None:
    faults = found(("spec.devices[1].attributes[dra.net/alias].string", "Too long"))

    assert faults == Rejections({"b": "attributes[dra.net/alias].string: Too long"})
    assert faults


def test_every_refused_device_has_its_rule() -> None:
    faults = found(
        *((f"spec.devices[0].x{index}", "no") for index in range(5)),
        ("spec.devices[2]", "too many"),
    )

    assert faults.devices == {"a": "x0: no; x1: no; x2: no", "c": "too many"}


@pytest.mark.parametrize(
    "field",
    [
        "spec.sharedCounters",
        "spec.sharedCounters[0].counters",
        "spec.devices[0].consumesCounters[0].counterSet",
        "spec.devices[0].basic.consumesCounters",
    ],
)
def test_refused_counters_are_one_fault(field: str) -> None:
    assert found((field, "no")) == Rejections(features=frozenset({Feature.COUNTERS}))


@pytest.mark.parametrize(
    ("field", "lists"),
    [
        ("spec.devices[3].attributes[x.y/nodes]", True),
        ("spec.devices[3].basic.attributes[x.y/nodes]", True),
        ("spec.devices[3].attributes[x.y/nodes].ints", True),
        ("spec.devices[3].attributes[x.y/node]", False),
        ("spec.devices[3].attributes[x.y/none]", False),
        ("spec.devices[3].attributes", False),
        ("spec.devices[2].attributes[x.y/nodes]", False),
    ],
)
def test_list_attribute_is_not_a_fault_of_its_device(field: str, lists: bool) -> None:  # noqa: FBT001
    listed = SliceDevice("dra.net", "node-1", "d", (("x.y/nodes", (0, 1)), ("x.y/node", 0)))
    content = SliceContent("s-0", (*PART.devices, listed))

    faults = rejections_of(InvalidError("s", "no", causes=[Cause(field, "no")]), content)

    assert faults.features == ({Feature.LISTS} if lists else frozenset())
    assert bool(faults.devices) is not lists


@pytest.mark.parametrize(
    "field", ["", "spec", "spec.devices", "spec.devices[3].name", "spec.nodeName", "metadata.name"]
)
def test_unknown_device_index_is_not_a_fault_of_a_device(field: str) -> None:
    assert not found((field, "no"))


def test_dropped_fields_are_named() -> None:
    sent = {
        "devices": [{"name": "a", "taints": [{"key": "k"}], "capacity": {"x": {"p": 1}}}],
        "n": 1,
    }
    stored = {"devices": [{"name": "a", "capacity": {"x": {}}, "ofTheServer": 1}], "n": 2}

    assert dropped_fields(sent, stored) == {"taints", "p"}
    assert dropped_fields(sent, sent) == frozenset()
    assert dropped_fields({"a": {"b": 1}, "l": [1]}, {"a": 7, "l": {}}) == {"b"}


def test_dropped_fields_of_a_feature_mark_it_missing() -> None:
    lost = {"taints", "sharedCounters", "consumesCounters", "requestPolicy", "dra.net/mtu"}

    assert features_of_dropped(lost) == {Feature.TAINTS, Feature.COUNTERS, Feature.SHARING}
    assert features_of_dropped({"allowMultipleAllocations"}) == {Feature.SHARING}
    assert features_of_dropped({"dra.net/mtu"}) == frozenset()
