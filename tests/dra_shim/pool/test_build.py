"""Devices of a node's pool: taints, shares with their capacity, and PFs that exclude their VFs."""

from fractions import Fraction

import pytest

from dra_shim.cloud.provider import DeviceFacts, enriched
from dra_shim.pool import (
    DriverResources,
    Feature,
    conflicts_of,
    driver_resources,
    physical_functions,
    without,
)
from dra_shim.resourceapi import Capacity, CounterValue, Policy, SliceDevice, Taint
from dra_shim.scheduling.allocator import NamedClaim, PoolSet
from dra_shim.scheduling.allocator import Pool as Stand
from dra_shim.scheduling.allocator.capacity import share_of
from dranet_nri.component.replace import replace
from dranet_nri.inventory import MAX_ATTRIBUTES, HostFacts, within_budget
from dranet_nri.inventory.attributes import DROP_ORDER
from dranet_nri.model import Device
from tests.dra_shim.resourceslice.pools import NODE, PF, device, function
from tests.dra_shim.scheduling.shorthand import claim, exactly, given, refused

VF0, VF1 = "0000:8a:00.1", "0000:8a:00.2"
PHYSICAL = {VF0: PF, VF1: PF}
CARD = [
    device("pf", PF, "eth0", n="pf"),
    device("vf-0", VF0, n="vf-0"),
    device("vf-1", VF1, "eth2", n="vf-1"),
]


def offered(resources: DriverResources, name: str) -> SliceDevice:
    return next(ref for ref in resources.devices if ref.name == name)


def consumed(resources: DriverResources) -> dict[str, list[tuple[str, int]]]:
    return {
        ref.name: [(one.set, int(one.value)) for one in ref.counters] for ref in resources.devices
    }


def test_devices_are_published_with_their_names() -> None:
    resources = driver_resources(NODE, [device("b", mtu=9000), device("a")])

    assert resources == DriverResources(
        (
            SliceDevice("dra.net", NODE, "a"),
            SliceDevice("dra.net", NODE, "b", (("dra.net/mtu", 9000),)),
        )
    )
    assert not resources.features


def test_unhealthy_device_has_a_noschedule_taint() -> None:
    resources = driver_resources(NODE, [device("a"), device("b")], unhealthy={"b": "NoCarrier"})

    assert [entry.taints for entry in resources.devices] == [
        (),
        (Taint("dra.net/unhealthy", "NoCarrier", "NoSchedule"),),
    ]
    assert resources.features == {Feature.TAINTS}


@pytest.mark.parametrize(
    ("ill", "offered_without"),
    [
        ("NoInterface", ["a"]),
        ("NoDriver", ["a"]),
        ("Vanished", ["a"]),
        ("NoCarrier", ["a", "b"]),
        ("PortDown", ["a", "b"]),
        ("NoRDMADevice", ["a", "b"]),
    ],
)
def test_unattachable_device_is_not_published_without_taints(
    ill: str, offered_without: list[str]
) -> None:
    resources = driver_resources(NODE, [device("a"), device("b")], unhealthy={"b": ill})

    devices = without(resources, frozenset({Feature.TAINTS})).devices

    assert [ref.name for ref in devices] == offered_without
    assert not any(entry.taints for entry in devices)


def test_shared_device_has_its_speed_as_bandwidth() -> None:
    resources = driver_resources(NODE, [device("a", linkSpeed=100_000)], frozenset({"a"}))

    (slice_device,) = resources.devices
    policy = Policy(Fraction(), (), Fraction(), None, Fraction(10**6))
    assert slice_device.shared
    assert slice_device.capacity == (Capacity("dra.net/bandwidth", Fraction(10**11), policy),)
    assert resources.features == {Feature.SHARING}


@pytest.mark.parametrize(
    ("requested", "amount"),
    [({}, 0), ({"dra.net/bandwidth": 25 * 10**9}, 25 * 10**9), ({"dra.net/bandwidth": 1}, 10**6)],
    ids=["nothing", "some", "less than is counted"],
)
def test_share_consumes_the_requested_bandwidth(requested: dict[str, int], amount: int) -> None:
    (slice_device,) = driver_resources(
        NODE, [device("a", linkSpeed=100_000)], frozenset({"a"})
    ).devices
    shares = tuple((name, Fraction(number)) for name, number in requested.items())

    assert share_of(slice_device, shares).amounts == (("dra.net/bandwidth", Fraction(amount)),)


@pytest.mark.parametrize("speed", [{}, {"linkSpeed": "fast"}], ids=["unknown", "odd"])
def test_shared_device_without_a_speed_has_no_capacity(speed: dict[str, str]) -> None:
    (slice_device,) = driver_resources(NODE, [device("a", **speed)], frozenset({"a"})).devices

    assert (slice_device.shared, slice_device.capacity) == (True, ())


def test_capacity_counts_against_the_attribute_limit() -> None:
    omitted_first = dict.fromkeys(DROP_ORDER, "x") | {"dra.net/linkSpeed": 1000}
    others = {f"x.y/a{index}": 1 for index in range(32 - len(omitted_first))}
    full = Device("a", device("a").key, tuple(sorted((omitted_first | others).items())))

    (alone,) = driver_resources(NODE, [full]).devices
    (shared,) = driver_resources(NODE, [full], frozenset({"a"})).devices

    assert len(alone.attributes) == 32
    assert (len(shared.attributes), len(shared.capacity)) == (31, 1)


@pytest.mark.parametrize("count", [0, 7, 40])
def test_shared_device_has_its_bandwidth_with_any_number_of_attributes(count: int) -> None:
    own = {f"dra.net/x{index:02}": index for index in range(26)} | dict.fromkeys(DROP_ORDER, "x")
    full = device("a", linkSpeed=100_000)
    full = replace(full, attributes=within_budget(own | dict(full.attributes)))
    facts = DeviceFacts(tuple((f"x.io/b{index:02}", index) for index in range(count)))

    (shared,) = driver_resources(NODE, [enriched(full, facts)], frozenset({"a"})).devices

    assert [amount.name for amount in shared.capacity] == ["dra.net/bandwidth"]
    assert len(shared.attributes) == MAX_ATTRIBUTES - 1


def test_pf_consumes_the_counters_of_all_its_vfs() -> None:
    resources = driver_resources(NODE, CARD, physical=PHYSICAL)

    name = "pci-0000-8a-00-0"
    assert resources.counters == (CounterValue(name, "functions", Fraction(2)),)
    assert consumed(resources) == {"pf": [(name, 2)], "vf-0": [(name, 1)], "vf-1": [(name, 1)]}
    assert resources.features == {Feature.COUNTERS}


def test_pf_and_vfs_are_allocated_exclusively() -> None:
    resources = driver_resources(NODE, CARD, physical=PHYSICAL)
    pool_set = PoolSet((Stand("dra.net", NODE, resources.devices, resources.counters),))

    def requested(*names: str) -> NamedClaim:
        return claim(
            *(exactly(name, 1, f'device.attributes["dra.net"].n == "{name}"') for name in names)
        )

    assert given(pool_set, requested("vf-0", "vf-1")) == [("vf-0", "vf-0"), ("vf-1", "vf-1")]
    assert given(pool_set, requested("pf")) == [("pf", "pf")]
    assert refused(pool_set, requested("pf", "vf-1"))
    assert refused(pool_set, requested("vf-1", "pf"))


def test_pf_and_vfs_exclude_each_other_without_counters() -> None:
    other = [device("pf2", "0000:8b:00.0", "eth5", n="pf2"), device("veth", "", "veth0", n="veth")]

    found = conflicts_of([*CARD, *other], frozenset(), PHYSICAL)

    assert found == {
        "pf": frozenset({"vf-0", "vf-1"}),
        "vf-0": frozenset({"pf"}),
        "vf-1": frozenset({"pf"}),
    }
    assert conflicts_of(CARD[:2], frozenset(), PHYSICAL)["vf-0"] == {"pf"}
    assert conflicts_of(CARD, frozenset({"pf"}), PHYSICAL) == {}


def test_card_without_vfs_has_no_counters() -> None:
    resources = driver_resources(NODE, [device("pf", PF)], physical={})

    assert (resources.counters, resources.devices[0].counters) == ((), ())


def test_vfs_of_an_unpublished_pf_have_no_counters() -> None:
    resources = driver_resources(NODE, CARD[1:], physical=PHYSICAL)

    assert (resources.counters, consumed(resources)) == ((), {"vf-0": [], "vf-1": []})


def test_subfunction_belongs_to_its_pf() -> None:
    sub = device("sf", PF, "eth5", bus="auxiliary")

    resources = driver_resources(NODE, [device("pf", PF, "eth0"), sub])

    assert consumed(resources) == {"pf": [("pci-0000-8a-00-0", 1)], "sf": [("pci-0000-8a-00-0", 1)]}


def test_pf_that_stays_on_the_host_excludes_no_vf() -> None:
    resources = driver_resources(NODE, CARD, frozenset({"pf"}), physical=PHYSICAL)

    assert (resources.counters, consumed(resources)) == ((), {"pf": [], "vf-0": [], "vf-1": []})


def test_vf_that_stays_on_the_host_excludes_its_pf() -> None:
    resources = driver_resources(NODE, CARD, frozenset({"vf-0"}), physical=PHYSICAL)

    assert consumed(resources)["vf-0"] == [("pci-0000-8a-00-0", 1)]


def test_ports_of_a_pf_exclude_all_its_vfs() -> None:
    resources = driver_resources(NODE, [*CARD, device("pf-p1", PF, "eth1")], physical=PHYSICAL)

    name = "pci-0000-8a-00-0"
    assert consumed(resources)["pf"] == consumed(resources)["pf-p1"] == [(name, 2)]


def test_port_that_stays_on_the_host_excludes_no_vf() -> None:
    devices = [*CARD, device("pf-p1", PF, "eth1")]

    resources = driver_resources(NODE, devices, frozenset({"pf-p1"}), physical=PHYSICAL)

    assert (consumed(resources)["pf"], consumed(resources)["pf-p1"]) == (
        [("pci-0000-8a-00-0", 2)],
        [],
    )


def test_counters_are_separate_for_each_card() -> None:
    other = "0000:8b:00.0"
    devices = [*CARD, device("pf2", other, "eth8"), device("vf2", "0000:8b:00.1"), device("dummy0")]

    resources = driver_resources(NODE, devices, physical={**PHYSICAL, "0000:8b:00.1": other})

    assert [(counter.set, int(counter.value)) for counter in resources.counters] == [
        ("pci-0000-8a-00-0", 2),
        ("pci-0000-8b-00-0", 1),
    ]
    assert consumed(resources)["dummy0"] == []


def test_pf_of_a_vf_is_read_from_the_host() -> None:
    facts = HostFacts((function(), function(VF0, PF)))

    assert physical_functions(facts) == {VF0: PF}


def test_slices_for_a_server_without_features_omit_them() -> None:
    full = driver_resources(
        NODE, CARD, frozenset({"vf-1"}), unhealthy={"vf-0": "NoCarrier"}, physical=PHYSICAL
    )  # fmt: skip

    assert without(full, frozenset()) == full
    assert not without(full, frozenset(Feature)).features
    assert [ref.name for ref in without(full, frozenset({Feature.SHARING})).devices] == [
        "pf",
        "vf-0",
    ]
    assert offered(without(full, frozenset({Feature.TAINTS})), "vf-0").counters
    assert without(full, frozenset({Feature.COUNTERS})).counters == ()
