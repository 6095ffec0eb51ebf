"""NUMA nodes as lists: what is offered, laid out, written; what a server without lists gets."""

import pytest

from dra_shim.kubeapi import Cause, InvalidError
from dra_shim.pool import Feature, driver_resources, near_of, without
from dra_shim.pool.build import MAX_VALUES
from dra_shim.resourceslice.documents import first_device, new_document, spec_of
from dra_shim.resourceslice.feature_probe import probe_document, rejected_features
from dra_shim.resourceslice.layout import MAX_ADVANCED, SliceContent, laid_out
from dranet_nri.inventory import NUMA_NODE, HostFacts
from dranet_nri.model import AttributeValue, Device, DeviceKey, Version
from tests.dra_shim.resourceslice.pools import NODE, POOL, many, on_node, parsed

NEAR = {6: (6, 4, 5, 7)}


def test_near_numa_nodes_are_read_from_the_host() -> None:
    assert near_of(HostFacts(numa_near=((0, 1), (1, 0)))) == {0: (0, 1), 1: (1, 0)}


@pytest.mark.parametrize(
    ("number", "published"), [(6, (6, 4, 5, 7)), (9, (9,))], ids=["known", "nobody knows"]
)
def test_numa_node_is_published_with_near_nodes(number: int, published: object) -> None:
    resources = driver_resources(NODE, [on_node(number)], near=NEAR)

    assert resources.devices[0].attribute(NUMA_NODE) == published
    assert resources.features == {Feature.LISTS}


def test_numa_node_without_lists_is_a_single_value() -> None:
    (slice_device,) = driver_resources(NODE, [on_node(6)]).devices

    assert (slice_device.attribute(NUMA_NODE), slice_device.lists) == (6, False)


def test_device_without_a_numa_node_has_no_list() -> None:
    plain = Device("a", DeviceKey("", "", "a"), (("dra.net/mtu", 1500),))

    assert not driver_resources(NODE, [plain], near=NEAR).features


def test_list_is_limited_by_the_free_values() -> None:
    (slice_device,) = driver_resources(
        NODE, [on_node(0, others=31)], near={0: tuple(range(64))}
    ).devices

    values = [
        value if isinstance(value, tuple) else (value,) for _, value in slice_device.attributes
    ]
    assert sum(map(len, values)) == MAX_VALUES
    assert slice_device.attribute(NUMA_NODE) == tuple(range(17))


def test_server_without_lists_gets_a_single_value() -> None:
    resources = driver_resources(NODE, [on_node(6, others=1)], near=NEAR)

    assert without(resources, frozenset({Feature.LISTS})) == driver_resources(
        NODE, [on_node(6, others=1)]
    )


def test_slices_with_lists_are_smaller() -> None:
    resources = driver_resources(NODE, [on_node(6, name) for name in many(100)], near=NEAR)

    assert [len(content.devices) for content in laid_out(NODE, resources, {})] == [MAX_ADVANCED, 36]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ((6, 4), {"ints": [6, 4]}),
        ((True,), {"bools": [True]}),
        (("a", "b"), {"strings": ["a", "b"]}),
        ((Version("1.2.3"),), {"versions": ["1.2.3"]}),
    ],
)
def test_lists_are_written_as_they_are_read(
    value: tuple[AttributeValue, ...], written: object
) -> None:
    (slice_device,) = driver_resources(NODE, [on_node(0)], near={}).devices
    content = SliceContent(
        "slice", (type(slice_device)(*slice_device.id, attributes=((NUMA_NODE, value),)),)
    )
    document = new_document(POOL, content, spec_of(POOL, content, 1, 1))

    assert first_device(document)["attributes"] == {NUMA_NODE: written}
    read = parsed({**document, "apiVersion": "resource.k8s.io/v1"})
    assert read.devices == content.devices


@pytest.mark.parametrize(
    "field", ["spec.devices[0].attributes[a/b]", "spec.devices[0].basic.attributes[a/b]"]
)
def test_refusal_of_a_dropped_list_marks_lists_missing(field: str) -> None:
    error = InvalidError("probe", "no", causes=[Cause(field, "exactly one value")])

    assert rejected_features(error) == {Feature.LISTS}


def test_probe_of_lists_uses_no_other_feature() -> None:
    device = first_device(probe_document(POOL, {Feature.LISTS}))

    assert device == {"name": "probe", "attributes": {NUMA_NODE: {"ints": [0, 1]}}}
