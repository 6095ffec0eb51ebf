# ruff: noqa: E501  cases and messages in one line read as a table
"""The embedded allocator: chosen devices and their configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.pool import NodeInventory
from dra_shim.resourceapi import (
    Cel,
    ClaimRequest,
    ClaimSpec,
    Constraint,
    DeviceClass,
    DeviceRequest,
)
from dra_shim.scheduling.allocator import AllocationError, NamedClaim
from dra_shim.scheduling.allocator import allocate as allocate_with
from dranet_nri.config import ConfigEntry, ConfigSource
from dranet_nri.errors import ConfigError
from dranet_nri.model import (
    AllocatedDevice,
    AttributeValue,
    Consumed,
    Device,
    DeviceKey,
    InterfaceConfig,
    Version,
)
from tests.dra_shim.scheduling.inventory_shorthand import (
    CLASSES,
    NUMA,
    ROOT,
    allocate,
    names,
    nic,
    refused,
    request,
    wanted,
)

# --------------------------------------------------------------------------- who gets what


def test_devices_are_allocated_in_inventory_and_request_order() -> None:
    node_devices = NodeInventory((nic("a"), nic("b"), nic("c"), nic("d")))

    results = allocate([wanted(request("x", 2), request("y", 1))], CLASSES, node_devices, "node-1")

    assert names(results) == [[("x", "a"), ("x", "b"), ("y", "c")]]
    assert {result.pool for result in results[0]} == {"node-1"}


def test_claims_of_a_pod_do_not_share_a_device() -> None:
    node_devices = NodeInventory((nic("a"), nic("b")))

    results = allocate(
        [wanted(request()), wanted(request(), label="x/y")], CLASSES, node_devices, "n"
    )

    assert names(results) == [[("nic", "a")], [("nic", "b")]]


def test_selectors_of_class_and_request_must_all_match() -> None:
    classes = {
        "c": DeviceClass("c", (Cel('device.attributes["dra.net"].numaNode == 1'),)),
    }
    node_devices = NodeInventory((nic("a", {NUMA: 0}), nic("b", {NUMA: 1}), nic("c", {NUMA: 1})))
    claim = wanted(request("nic", 1, 'device.attributes["dra.net"].ifName != "b"', cls="c"))

    assert names(allocate([claim], classes, node_devices, "n")) == [[("nic", "c")]]


def test_device_in_use_is_skipped_without_evaluation() -> None:
    node_devices = NodeInventory((nic("a"), nic("b", {NUMA: 1})), {"a": "claim x/y"})
    claim = wanted(request("nic", 1, 'device.attributes["dra.net"].numaNode == 1'))

    assert names(allocate([claim], CLASSES, node_devices, "n")) == [[("nic", "b")]]


def test_search_backtracks_for_a_later_request() -> None:
    node_devices = NodeInventory((nic("a", {NUMA: 0}), nic("b", {NUMA: 1})))
    numa_0 = request("y", 1, 'device.attributes["dra.net"].numaNode == 0')

    assert names(allocate([wanted(request("x"), numa_0)], CLASSES, node_devices, "n")) == [
        [("x", "b"), ("y", "a")]
    ]


def test_matchattribute_holds_across_requests_and_within_one() -> None:
    node_devices = NodeInventory((
        nic("a", {ROOT: "r0"}), nic("b", {ROOT: "r1"}), nic("c", {ROOT: "r1"}), nic("d", {ROOT: "r1"}),
    ))  # fmt: skip
    claim = wanted(request("x", 2), request("y"), constraints=[Constraint(ROOT)])

    assert names(allocate([claim], CLASSES, node_devices, "n")) == [
        [("x", "b"), ("x", "c"), ("y", "d")]
    ]


def test_constraint_applies_only_to_its_requests() -> None:
    node_devices = NodeInventory((nic("a", {ROOT: "r0"}), nic("b", {ROOT: "r1"}), nic("c")))
    claim = wanted(request("x"), request("y"), constraints=[Constraint(ROOT, ("y",))])

    assert names(allocate([claim], CLASSES, node_devices, "n")) == [[("x", "a"), ("y", "b")]]


def test_constraint_applies_only_to_its_claim() -> None:
    node_devices = NodeInventory((nic("a", {ROOT: "r0"}), nic("b", {ROOT: "r1"})))
    claims = [wanted(request(), constraints=[Constraint(ROOT)], label=label) for label in "pq"]

    assert names(allocate(claims, CLASSES, node_devices, "n")) == [[("nic", "a")], [("nic", "b")]]


@pytest.mark.parametrize(
    ("first", "second"),
    [(True, 1), (1, "1"), ("1.0.0", Version("1.0.0"))],
    ids=["bool-int", "int-string", "string-version"],
)
def test_values_of_different_types_do_not_match(
    first: AttributeValue, second: AttributeValue
) -> None:
    node_devices = NodeInventory((nic("a", {"dra.net/x": first}), nic("b", {"dra.net/x": second})))

    lines = refused([wanted(request("x", 2), constraints=[Constraint("dra.net/x")])], node_devices)

    assert "1 of 2 can be allocated together" in lines[0]


def test_constraint_finds_an_attribute_without_a_domain() -> None:
    node_devices = NodeInventory((nic("a", {"rail": 1}), nic("b", {"dra.net/rail": 1})))
    claim = wanted(request("x", 2), constraints=[Constraint("dra.net/rail")])

    assert names(allocate([claim], CLASSES, node_devices, "n")) == [[("x", "a"), ("x", "b")]]


# --------------------------------------------------------------------------- configuration


def entry(source: ConfigSource, mtu: int, *requests: str) -> ConfigEntry:
    return ConfigEntry(source, "dra.net", {"interface": {"mtu": mtu}}, requests, "config[0]")


def test_each_request_gets_its_merged_configuration() -> None:
    classes = {
        "big": DeviceClass("big", (), (entry(ConfigSource.CLASS, 9000),)),
        "plain": DeviceClass("plain"),
    }
    claim = wanted(
        request("x", cls="big"), request("y", cls="plain"), request("z", cls="big"),
        configs=[entry(ConfigSource.CLAIM, 1400, "z")],
    )  # fmt: skip
    node_devices = NodeInventory((nic("a"), nic("b"), nic("c")))

    (result,) = allocate([claim], classes, node_devices, "n")
    (by_class,) = allocate([claim], classes, node_devices, "n", first_valid_config=True)

    assert [item.config.interface for item in result] == [
        InterfaceConfig(mtu=9000), InterfaceConfig(), InterfaceConfig(mtu=1400),
    ]  # fmt: skip
    assert [result.config.interface.mtu for result in by_class] == [9000, None, 9000]


def test_invalid_configuration_of_a_class_names_the_class() -> None:
    classes = {"c": DeviceClass("c", (), (entry(ConfigSource.CLASS, 1),))}

    with pytest.raises(ConfigError) as caught:
        allocate([wanted(request(cls="c"))], classes, NodeInventory((nic("a"),)), "n")

    assert caught.value.violations[0].startswith("class c config[0].interface.mtu: 1: must be")


def test_profile_needs_the_daemon() -> None:
    profile = ConfigEntry(ConfigSource.CLAIM, "dra.net", {"profile": "fast"}, (), "config[0]")

    with pytest.raises(ConfigError) as caught:
        allocate([wanted(request(), configs=[profile])], CLASSES, NodeInventory((nic("a"),)), "n")

    assert caught.value.violations[0].startswith(
        'claim default/nics: device a: profile: "fast": only dra-shim run uses the profile provider'
    )


def test_interface_configuration_needs_an_interface() -> None:
    rdma = Device("pci-x", DeviceKey("pci", "0000:01:00.0", ""), (), ("mlx5_0",))
    claim = wanted(request(), configs=[entry(ConfigSource.CLAIM, 9000)])

    with pytest.raises(ConfigError) as caught:
        allocate([claim], CLASSES, NodeInventory((rdma,)), "n")

    assert caught.value.violations == (
        "claim default/nics: device pci-x: interface.mtu: not possible on a device with RDMA but no "
        "network interface; remove it",
    )
    assert allocate([wanted(request())], CLASSES, NodeInventory((rdma,)), "n")


def test_device_without_its_interface_is_not_allocated() -> None:
    without_attributes = Device("pci-x", DeviceKey("pci", "0000:01:00.0", ""))

    with pytest.raises(ConfigError, match="device pci-x: has no network interface on the host"):
        allocate([wanted(request())], CLASSES, NodeInventory((without_attributes,)), "n")


def test_share_that_gives_a_pod_nothing_is_refused() -> None:
    node_devices = NodeInventory((nic("a"),), shared=frozenset({"a"}))

    with pytest.raises(ConfigError, match="device a: a share of it gives a pod nothing"):
        allocate_with([wanted(request())], CLASSES, node_devices, "n", new_uid=lambda: "5e0f")


def test_result_has_the_alternative_and_consumed_capacity() -> None:
    hca = replace(nic("a", {"dra.net/linkSpeed": 100_000}), rdma_devices=("mlx5_0",))  # Mbit/s
    node_devices = NodeInventory((hca,), shared=frozenset({"a"}))
    requested = (("dra.net/bandwidth", Fraction(30 * 10**9 - 1)),)  # rounded up to whole Mbit/s
    fast = DeviceRequest("nic/fast", "dranet", capacity=requested)
    none = DeviceRequest("nic/none", "dranet", (Cel("false"),))
    claim = NamedClaim("default/nics", ClaimSpec((ClaimRequest("nic", (none, fast)),)))

    ((device,),) = allocate_with([claim], CLASSES, node_devices, "n", new_uid=lambda: "5e0f")

    assert device == AllocatedDevice(
        "nic",
        "n",
        hca,
        share_id="5e0f",
        subrequest="fast",
        consumed=(Consumed("dra.net/bandwidth", 30 * 10**9),),
    )


# --------------------------------------------------------------------------- the law

attribute = st.sampled_from([None, 0, 1, "0"])
small_devices = st.lists(st.tuples(attribute, attribute, st.booleans()), max_size=5)
small_requests = st.lists(
    st.tuples(st.integers(1, 2), st.sampled_from([None, 0, 1])), min_size=1, max_size=3
)
small_constraints = st.lists(
    st.tuples(st.sampled_from(["dra.net/p", "dra.net/q"]), st.sets(st.integers(0, 2))), max_size=2
)


@given(small_devices, small_requests, small_constraints)
def test_result_is_the_first_valid_combination(
    raw_devices: list[tuple[AttributeValue | None, AttributeValue | None, bool]],
    raw_requests: list[tuple[int, int | None]],
    raw_constraints: list[tuple[str, set[int]]],
) -> None:
    devices = [
        nic(f"d{i}", {k: v for k, v in (("dra.net/p", p), ("dra.net/q", q)) if v is not None})
        for i, (p, q, _) in enumerate(raw_devices)
    ]
    busy = {f"d{i}": "someone" for i, (_, _, taken) in enumerate(raw_devices) if taken}
    requests = [
        request(f"r{i}", count, *([] if p is None else
                [f'device.attributes["dra.net"].?p.orValue(9) == {p}']))
        for i, (count, p) in enumerate(raw_requests)
    ]  # fmt: skip
    constraints = [
        Constraint(name, tuple(f"r{i}" for i in sorted(which) if i < len(requests)))
        for name, which in raw_constraints
    ]
    expected = brute_force(devices, busy, raw_requests, constraints)

    try:
        results = allocate(
            [wanted(*requests, constraints=constraints)],
            CLASSES,
            NodeInventory(tuple(devices), busy),
            "n",
        )
    except AllocationError:
        assert expected is None
    else:
        assert [name for _, name in names(results)[0]] == expected


def brute_force(
    devices: Sequence[Device],
    busy: Mapping[str, str],
    requests: Sequence[tuple[int, int | None]],
    constraints: Sequence[Constraint],
) -> list[str] | None:
    """Try every combination in order; the oracle knows nothing of the allocator's ways."""
    free = [device for device in devices if device.name not in busy]
    choices = [
        [
            combination
            for combination in combinations(free, count)
            if p is None
            or all(constraint.attribute("dra.net/p") == p for constraint in combination)
        ]
        for count, p in requests
    ]
    for picked in product(*choices):
        flat = [device.name for group in picked for device in group]
        if len(set(flat)) == len(flat) and all(
            agrees(constraint, picked) for constraint in constraints
        ):
            return flat
    return None


def agrees(constraint: Constraint, picked: Sequence[Sequence[Device]]) -> bool:
    bound = [
        device.attribute(constraint.attribute)
        for index, group in enumerate(picked)
        if not constraint.requests or f"r{index}" in constraint.requests
        for device in group
    ]
    return None not in bound and len({(type(value), value) for value in bound}) <= 1
