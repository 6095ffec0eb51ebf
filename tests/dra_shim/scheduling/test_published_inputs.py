"""Offline allocation with the rules of published slices: health, PFs, shares."""

from dataclasses import replace

from dra_shim.pool import DeviceUsage, near_in, node_inventory
from dra_shim.resourceapi import Constraint, Toleration
from dra_shim.scheduling.allocator import PoolSet, pool_set_of
from dra_shim.settings.feature_gates import parse_gates
from dranet_nri.inventory import NUMA_NODE, HostFacts, Inventory
from dranet_nri.model import Device, DeviceKey
from tests.dra_shim.resourceslice.pools import PF, device, function, nic
from tests.dra_shim.scheduling.shorthand import capacity_request, claim, exactly, given, refused

VF_1, VF_2 = (f"{PF[:-1]}{number}" for number in (1, 2))
PHYSICAL = device("pf", PF, "eth0")
PARTS = (device("vf-1", VF_1, "eth1"), device("vf-2", VF_2, "eth2"))
FUNCTIONS = (function(), function(VF_1, PF), function(VF_2, PF))


def node(
    *devices: Device, uses: DeviceUsage | None = None, shared: str = "", carrier: bool = True
) -> PoolSet:
    """Return what there is on a node whose PF has two VFs."""
    facts = HostFacts(FUNCTIONS, (nic("eth0", carrier=carrier),))
    node_devices = node_inventory(
        Inventory(tuple(devices)), [], uses or DeviceUsage(), "", shared, facts
    )
    return pool_set_of(node_devices, "node-1")


def test_allocated_pf_excludes_its_vfs() -> None:
    of_pf = node(PHYSICAL, *PARTS, uses=DeviceUsage({"pf": "claim a/b"}))
    of_vf = node(PHYSICAL, *PARTS, uses=DeviceUsage({"vf-1": "claim a/b"}))

    assert given(node(PHYSICAL, *PARTS), claim(exactly())) == [("r", "pf")]
    assert "counter" in " ".join(refused(of_pf, claim(exactly())))
    assert given(of_vf, claim(exactly())) == [("r", "vf-2")]
    assert refused(of_vf, claim(exactly(number=2)))


def test_share_of_a_vf_excludes_the_pf() -> None:
    named = replace(PARTS[0], attributes=(("dra.net/ifName", "eth1"),))
    uses = DeviceUsage(shares={"vf-1": "claim a/b"})

    there = node(PHYSICAL, named, uses=uses, shared='"dra.net/ifName" in attributes')

    assert given(there, claim(exactly())) == [("r", "vf-1")]
    assert refused(there, claim(exactly(number=2)))


def test_unhealthy_device_needs_a_toleration() -> None:
    ill = node(PHYSICAL, carrier=False)
    patient = exactly(tolerations=(Toleration("dra.net/unhealthy", "NoCarrier"),))

    assert "tainted dra.net/unhealthy=NoCarrier" in " ".join(refused(ill, claim(exactly())))
    assert given(ill, claim(patient)) == [("r", "pf")]


def test_share_is_limited_by_the_link_speed() -> None:
    fast = replace(PHYSICAL, attributes=(("dra.net/linkSpeed", 100_000),))  # Mbit/s
    there = node(fast, shared="true")
    some = exactly("some", 1, **capacity_request(60 * 10**9, "dra.net/bandwidth"))
    more = exactly("more", 1, **capacity_request(101 * 10**9, "dra.net/bandwidth"))

    assert given(there, claim(some)) == [("some", "pf")]
    assert "not together" in refused(there, claim(some, replace(some, name="other")))[0]
    assert "the device allows at most 100G" in " ".join(refused(there, claim(more)))


def test_share_is_limited_by_other_shares() -> None:
    fast = replace(PHYSICAL, attributes=(("dra.net/linkSpeed", 100_000),))  # Mbit/s
    uses = DeviceUsage(
        shares={"pf": "claim a/b"}, consumed={"pf": {"dra.net/bandwidth": 60 * 10**9}}
    )
    there = node(fast, uses=uses, shared="true")
    left = exactly("left", 1, **capacity_request(40 * 10**9, "dra.net/bandwidth"))
    more = exactly("more", 1, **capacity_request(41 * 10**9, "dra.net/bandwidth"))

    assert given(there, claim(left)) == [("left", "pf")]
    assert "capacity dra.net/bandwidth: needs 41G, 40G is left" in refused(there, claim(more))[1]


def test_device_without_facts_is_healthy_and_independent() -> None:
    node_devices = node_inventory(Inventory((PHYSICAL, *PARTS)), [], DeviceUsage(), "")

    (pool,) = pool_set_of(node_devices, "node-1").pools

    assert pool.counters == ()
    assert [(entry.taints, entry.counters) for entry in pool.devices] == [((), ())] * 3


def test_numa_list_equals_the_published_one() -> None:
    facts = HostFacts(numa_near=((0, 1), (1, 0)))
    far, near = (Device(name, DeviceKey("", "", name), ((NUMA_NODE, number),))
                 for name, number in (("a", 0), ("b", 1)))  # fmt: skip
    two = claim(exactly(number=2), constraints=(Constraint(NUMA_NODE),))

    def stocked(text: str, facts: HostFacts | None) -> PoolSet:
        lists = near_in(facts, parse_gates(text))
        node_devices = node_inventory(Inventory((far, near)), [], DeviceUsage(), "", near=lists)
        return pool_set_of(node_devices, "node-1")

    gate = "DRAListTypeAttributes=true"
    assert given(stocked(gate, facts), two) == [("r", "a"), ("r", "b")]
    assert refused(stocked("", facts), two)
    assert refused(stocked(gate, None), two)
