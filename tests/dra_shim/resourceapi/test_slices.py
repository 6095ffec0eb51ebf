# ruff: noqa: E501  one broken rule per line reads as a table
"""ResourceSlices of all three API versions, the pools they make, and tolerations against taints."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dra_shim.pool import NodeInventory
from dra_shim.resourceapi import (
    Capacity,
    CounterValue,
    Policy,
    ResourceSlice,
    SliceDevice,
    Taint,
    Toleration,
    parse_document,
)
from dra_shim.scheduling.allocator import Pool, pool_set_of, pools_of
from dranet_nri.errors import ConfigError
from dranet_nri.model import Device, DeviceKey, Version

Json = dict[str, object]

FACTS: Json = {
    "attributes": {
        "index": {"int": 0},
        "dra.net/rdma": {"bool": True},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:10"},
        "dra.net/firmware": {"version": "22.39.1002"},
    },
    "capacity": {
        "memory": {"value": "80Gi"},
        "dra.net/bandwidth": {
            "value": "100G",
            "requestPolicy": {
                "default": "1G",
                "validRange": {"min": "1G", "max": "50G", "step": "1G"},
            },
        },
        "lanes": {"value": 4, "requestPolicy": {"default": "1", "validValues": ["4", "1", "2"]}},
    },
    "consumesCounters": [{"counterSet": "pf0", "counters": {"vfs": {"value": "1"}}}],
    "taints": [
        {
            "key": "dra.net/link",
            "value": "down",
            "effect": "NoSchedule",
            "timeAdded": "2026-01-01T00:00:00Z",
        }
    ],
    "allowMultipleAllocations": True,
}
OFFER = SliceDevice(
    "dra.net",
    "node-1",
    "nic-0",
    (
        ("index", 0),
        ("dra.net/rdma", True),
        ("resource.kubernetes.io/pcieRoot", "pci0000:10"),
        ("dra.net/firmware", Version("22.39.1002")),
    ),
    (
        Capacity("memory", Fraction(80 << 30)),
        Capacity(
            "dra.net/bandwidth",
            Fraction(10**11),
            Policy(Fraction(10**9), (), Fraction(10**9), Fraction(50 * 10**9), Fraction(10**9)),
        ),
        Capacity(
            "lanes", Fraction(4), Policy(Fraction(1), (Fraction(1), Fraction(2), Fraction(4)))
        ),
    ),
    (CounterValue("pf0", "vfs", Fraction(1)),),
    (Taint("dra.net/link", "down", "NoSchedule"),),
    shared=True,
)


def slice_document(version: str = "v1", **spec: object) -> Json:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "s", "generation": 1, "resourceVersion": "7"},
        "spec": {
            "driver": "dra.net",
            "pool": {"name": "node-1", "generation": 3, "resourceSliceCount": 1},
            "nodeName": "node-1",
            **spec,
        },
    }


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_slices_of_all_versions_have_the_same_devices(version: str) -> None:
    device: Json = {"name": "nic-0", **FACTS}
    if version == "v1beta1":
        device = {"name": "nic-0", "basic": FACTS}

    parsed = parse_document(slice_document(version, devices=[device]))

    assert parsed == ResourceSlice("s", "dra.net", "node-1", 3, 1, "node-1", (OFFER,))


def test_slice_with_counters_and_per_device_nodes_is_read() -> None:
    counters = slice_document(
        sharedCounters=[
            {"name": "pf0", "counters": {"vfs": {"value": 8}, "queues": {"value": "1k"}}}
        ]
    )
    devices = slice_document(
        nodeName=None, perDeviceNodeSelection=True, devices=[{"name": "a", "nodeName": "n"}]
    )  # fmt: skip

    first, second = parse_document(counters), parse_document(devices)

    assert isinstance(first, ResourceSlice)
    assert isinstance(second, ResourceSlice)
    assert first.counters == (
        CounterValue("pf0", "vfs", Fraction(8)),
        CounterValue("pf0", "queues", Fraction(1000)),
    )
    assert (second.node, second.devices) == ("", (SliceDevice("dra.net", "node-1", "a", node="n"),))


def with_device(**device: object) -> Json:
    return slice_document(devices=[{"name": "a", **device}])


def capacity(**entry: object) -> Json:
    return with_device(capacity={"x": {"value": "1", **entry}})


D = "spec.devices[0]"


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (slice_document() | {"spec": None}, "document: object with apiVersion, kind, metadata, spec: needs spec; add it"),
        (slice_document(driver=None), "needs driver; add it"),
        (slice_document(driver="A"), 'spec.driver: "A": must be a DNS subdomain'),
        (slice_document(pool=None), "needs pool; add it"),
        (slice_document(pool={}), "spec.pool: object with no fields: needs name; add it"),
        (slice_document(pool={"name": "a/B", "resourceSliceCount": 1}), 'spec.pool.name: "a/B": must be a DNS subdomain'),
        (slice_document(pool={"name": "a/b"}), "needs resourceSliceCount; add it"),
        (slice_document(pool={"name": "a", "resourceSliceCount": 0}), "spec.pool.resourceSliceCount: 0: must be 1 to"),
        (slice_document(pool={"name": "a", "resourceSliceCount": 1, "generation": -1}), "spec.pool.generation: -1: must be 0 to"),
        (slice_document(nodeName=None), "needs nodeName, nodeSelector, allNodes or perDeviceNodeSelection; add one"),
        (slice_document(nodeName=1), "spec.nodeName: 1: must be a string"),
        (slice_document(devices=[{}] * 129), "has 129 entries; at most 128 are allowed"),
        (slice_document(devices=[{}]), f"{D}: object with no fields: needs name; add it"),
        (with_device(allowMultipleAllocations="yes"), f'{D}.allowMultipleAllocations: "yes": must be true or false'),
        (with_device(attributes={"a-b": {"int": 1}}), f"{D}.attributes.a-b: object with int: its name must end in a C identifier"),
        (with_device(attributes={"A/b": {"int": 1}}), "its name must be a DNS subdomain"),
        (with_device(attributes={"a": {}}), f"{D}.attributes.a: object with no fields: needs one of int, bool, string, version"),
        (with_device(attributes={"a": {"int": True}}), f"{D}.attributes.a.int: true: must be a whole number"),
        (with_device(attributes={"a": {"bool": 1}}), f"{D}.attributes.a.bool: 1: must be true or false"),
        (with_device(attributes={"a": {"string": "x" * 65}}), "is longer than 64 bytes; shorten it"),
        (with_device(attributes={"a": {"version": "1.2"}}), f'{D}.attributes.a.version: "1.2": must be a semantic version'),
        (with_device(attributes={"a": {"strings": []}}), f"{D}.attributes.a.strings: list of 0: must have a value; leave the attribute out"),
        (with_device(attributes={"a": {"ints": [1, "2"]}}), f"{D}.attributes.a.ints[1]: \"2\": must be a whole number"),
        (with_device(capacity={"x": {}}), f"{D}.capacity.x: object with no fields: needs value; add it"),
        (with_device(capacity={"x": {"value": "ten"}}), f'{D}.capacity.x.value: "ten": must be a quantity'),
        (with_device(capacity={"x": {"value": "-1"}}), f'{D}.capacity.x.value: "-1": must not be negative'),
        (capacity(requestPolicy={"validValues": ["1"], "validRange": {"min": "1"}}), "has validValues and validRange; keep one"),
        (capacity(requestPolicy={"validValues": ["x"]}), f'{D}.capacity.x.requestPolicy.validValues[0]: "x": must be a quantity'),
        (capacity(requestPolicy={"validRange": {}}), "needs min; add it"),
        (capacity(requestPolicy={"validRange": {"min": "1", "step": "0"}}), f'{D}.capacity.x.requestPolicy.validRange.step: "0": must be more than 0'),
        (with_device(consumesCounters=[{}]), f"{D}.consumesCounters[0]: object with no fields: needs counterSet; add it"),
        (with_device(consumesCounters=[{"counterSet": "a", "counters": {"b": {}}}]), "needs value; add it"),
        (with_device(taints=[{"effect": "None"}]), f"{D}.taints[0]: object with effect: needs key; add it"),
        (with_device(taints=[{"key": "a b", "effect": "None"}]), f'{D}.taints[0].key: "a b": must be 1 to 63 letters'),
        (with_device(taints=[{"key": "A/b", "effect": "None"}]), f'{D}.taints[0].key: "A/b": must be a DNS subdomain'),
        (with_device(taints=[{"key": "a"}]), "needs effect; add it"),
        (with_device(taints=[{"key": "a", "effect": 1}]), f"{D}.taints[0].effect: 1: must be a string"),
        (slice_document(sharedCounters=[{"name": "a"}]), "needs counters; add it"),
    ],
)  # fmt: skip
def test_invalid_slice_is_reported_with_path_value_and_rule(document: Json, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_document(document)

    assert any(line in violation for violation in caught.value.violations), caught.value.violations


NEWER: Json = {
    "name": "nic-0",
    **FACTS,
    "attributes": {**FACTS["attributes"], "next": {"quantity": "1"}},  # type: ignore[dict-item]
    "linkBudget": {"lanes": 4},
}


@pytest.mark.parametrize(
    ("version", "metadata"),
    [("v1", {"name": "s"}), ("v2", {"name": "s"}), ("v1", {"name": "s", "future": 1})],
    ids=["field", "version", "metadata"],
)
def test_unknown_fields_of_a_slice_are_ignored(version: str, metadata: Json) -> None:
    pool = {"name": "node-1", "generation": 3, "resourceSliceCount": 1, "shape": "ring"}
    document = slice_document(version, pool=pool, devices=[NEWER], scope="rack")

    parsed = parse_document(document | {"metadata": metadata, "footer": {}})

    assert parsed == ResourceSlice("s", "dra.net", "node-1", 3, 1, "node-1", (OFFER,))


def test_taint_with_an_unknown_effect_has_no_effect() -> None:
    parsed = parse_document(with_device(taints=[{"key": "a", "effect": "NoStart"}]))

    assert isinstance(parsed, ResourceSlice)
    assert parsed.devices[0].taints == (Taint("a", "", "None"),)


# --------------------------------------------------------------------------- pools


def part(
    name: str, *devices: str, pool: str = "p", generation: int = 1, count: int = 1, node: str = ""
) -> ResourceSlice:
    slice_devices = tuple(SliceDevice("x.y", pool, device) for device in devices)
    return ResourceSlice(name, "x.y", pool, generation, count, node, slice_devices)


def test_pools_slices_and_devices_are_ordered() -> None:
    found = pools_of(
        [
            part("b", "d", "c", count=2),
            part("a", "z", count=2),
            part("q", "k", pool="o"),
            replace(part("r"), driver="a.b"),
        ],
        "n",
    )

    assert [(pool.driver, pool.name, pool.problem) for pool in found] == [
        ("a.b", "p", ""), ("x.y", "o", ""), ("x.y", "p", ""),
    ]  # fmt: skip
    assert [slice_device.name for slice_device in found[2].devices] == ["z", "d", "c"]


def test_only_the_highest_generation_of_a_pool_is_used() -> None:
    (pool,) = pools_of([part("a", "old", generation=1), part("b", "new", generation=2)], "n")

    assert [slice_device.name for slice_device in pool.devices] == ["new"]
    assert pool.problem == ""


def test_repeated_slice_counts_once() -> None:
    (pool,) = pools_of([part("a", "x"), part("a", "x")], "n")

    assert (len(pool.devices), pool.problem) == (1, "")


def test_slices_of_other_nodes_count_only_for_completeness() -> None:
    here = part("a", "x", node="n", count=2)
    there = part("b", "y", node="m", count=2)
    chosen = replace(
        part("c", pool="q"),
        devices=(
            SliceDevice("x.y", "q", "mine", node="n"),
            SliceDevice("x.y", "q", "other", node="m"),
        ),
    )

    first, second = pools_of([here, there, chosen, part("d", pool="r", node="m")], "n")

    assert ([slice_device.name for slice_device in first.devices], first.problem) == (["x"], "")
    assert [slice_device.name for slice_device in second.devices] == ["mine"]


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        ([part("a", "x", count=2, generation=3)], "pool x.y/p is incomplete: 1 of 2 slices of generation 3 exist; wait for its driver, or give the missing ones"),
        ([part("a", "x", count=2), part("b", "y", count=3)], "pool x.y/p is incomplete: 2 of 2 or 3 slices"),
        ([part("a", "x", count=2), part("b", "x", count=2)], "pool x.y/p is invalid: device x is listed twice; correct its driver"),
        ([replace(part("a"), devices=(SliceDevice("x.y", "p", "d", counters=(CounterValue("s", "c", Fraction(1)),)),))], "pool x.y/p is invalid: device d consumes counter s/c, which no slice of it has"),
    ],
    ids=["incomplete", "counts-differ", "duplicate", "counter"],
)  # fmt: skip
def test_unusable_pool_has_a_reason(slices: list[ResourceSlice], problem: str) -> None:
    (pool,) = pools_of(slices, "n")

    assert pool.problem.startswith(problem)


def test_device_can_consume_counters_of_another_slice() -> None:
    counters = replace(part("a", count=2), counters=(CounterValue("s", "c", Fraction(4)),))
    uses = SliceDevice("x.y", "p", "d", counters=(CounterValue("s", "c", Fraction(1)),))

    (pool,) = pools_of([counters, replace(part("b", count=2), devices=(uses,))], "n")

    assert (pool.devices, pool.counters, pool.problem) == ((uses,), counters.counters, "")


def test_devices_of_a_node_are_one_pool() -> None:
    device = Device("eth1", DeviceKey("", "", "eth1"), (("dra.net/ifName", "eth1"),))

    pool_set = pool_set_of(
        NodeInventory((device,), {"eth1": "someone"}, (("lo", "loopback"),)), "n"
    )

    assert pool_set.pools == (
        Pool("dra.net", "n", (SliceDevice("dra.net", "n", "eth1", device.attributes),)),
    )
    assert pool_set.in_use == {("dra.net", "n", "eth1"): "someone"}
    assert pool_set.excluded == (("lo", "loopback"),)


# --------------------------------------------------------------------------- tolerations


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration(exists=True), True),
        (Toleration("k", exists=True), True),
        (Toleration("other", exists=True), False),
        (Toleration("k", "v"), True),
        (Toleration("k", "w"), False),
        (Toleration("k"), False),
        (Toleration("k", "v", effect="NoSchedule"), True),
        (Toleration("k", "v", effect="NoExecute"), False),
    ],
)  # fmt: skip
def test_toleration_matches_taints_as_for_nodes(
    toleration: Toleration,
    covers: bool,  # noqa: FBT001 a column of the table
) -> None:
    assert toleration.tolerates(Taint("k", "v", "NoSchedule")) is covers


def test_taint_is_printed_as_by_kubectl() -> None:
    assert [str(Taint("k", "v", "NoExecute")), str(Taint("k"))] == ["k=v:NoExecute", "k:NoSchedule"]
