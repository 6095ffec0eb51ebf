"""Heuristics for links in use: overlays and policy routing, and their override by --include."""

from dataclasses import replace

import pytest

from dranet_nri.inventory import inventory_from_facts, parent_hazards
from dranet_nri.inventory.host_facts import HostFacts, NetDevice
from dranet_nri.model import Address, DefaultRoute, PolicyRoute
from tests.dranet_nri.inventory.parts import VF, function, nic, virtual


def excluded_by(device: NetDevice, *rules: PolicyRoute, include: tuple[str, ...] = ()) -> str:
    """Return why the device is not published, "" if it is."""
    functions = (function(VF),) if device.pci else ()
    facts = HostFacts(functions, (device,), policy_routes=rules)
    return "".join(cause for _, cause in inventory_from_facts(facts, include=include).excluded)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("wg7", "wireguard", "a wireguard tunnel, which is the node's; --include wg7 offers it"),
        ("gre7", "gre", "a gre tunnel, which is the node's; --include gre7 offers it"),
        ("tun7", "ipip", "an ipip tunnel, which is the node's; --include tun7 offers it"),
        ("sit7", "sit", "a sit tunnel, which is the node's; --include sit7 offers it"),
        ("vti7", "vti", "a vti tunnel, which is the node's; --include vti7 offers it"),
        ("gnv7", "geneve", "a geneve tunnel, which is the node's; --include gnv7 offers it"),
        ("cni0", "dummy", "belongs to the bridge CNI plugin"),
        ("dummy7", "dummy", ""),
    ],
)
def test_overlay_is_excluded_unless_it_is_included(name: str, kind: str, message: str) -> None:
    assert excluded_by(virtual(name, 7, kind)) == message
    assert excluded_by(virtual(name, 7, kind), include=("eth*", name)) == ""


OWN = Address("10.5.0.7/24")


@pytest.mark.parametrize(
    ("rule", "is_reported"),
    [
        pytest.param(PolicyRoute(2, frozenset({3}), "10.5.0.77/32"), True, id="a pod's address"),
        pytest.param(PolicyRoute(2, frozenset({3})), True, id="everybody, or a mark"),
        pytest.param(PolicyRoute(2, frozenset({3}), names=("cali1",)), True, id="from a wire"),
        pytest.param(
            PolicyRoute(2, frozenset({3}), "10.5.0.0/24", invert=True), True, id="all but its own"
        ),
        pytest.param(PolicyRoute(2, frozenset({3}), "10.5.0.7/32"), False, id="its own address"),
        pytest.param(PolicyRoute(2, frozenset({3}), "10.5.0.0/24"), False, id="its own network"),
        pytest.param(PolicyRoute(2, frozenset({3}), names=("eth1",)), False, id="by its name"),
        pytest.param(
            PolicyRoute(2, frozenset({3}), only_destination=True), False, id="by destination"
        ),
        pytest.param(PolicyRoute(2, frozenset({4}), "10.5.0.77/32"), False, id="another NIC's"),
    ],
)
def test_nic_used_by_policy_routing_for_forwarding_is_excluded(
    *, rule: PolicyRoute, is_reported: bool
) -> None:
    device = replace(nic("eth1", 3, VF), addresses=(OWN,))

    reported = excluded_by(device, rule)

    message = (
        "eth1: policy routing sends others' packets through it (table 2); --include eth1 offers"
    )
    assert reported.startswith(message) if is_reported else reported == ""
    assert excluded_by(device, rule, include=(VF,)) == ""


@pytest.mark.parametrize(
    ("pci", "parent"), [pytest.param(VF, "", id="function"), pytest.param("", VF, id="parent")]
)
def test_include_matches_a_nic_by_its_function_or_its_parent(pci: str, parent: str) -> None:
    device = nic("eth1", 3, VF)
    device = replace(device, pci=pci, link=replace(device.link, parent=parent))
    rule = PolicyRoute(2, frozenset({3}), "10.7.0.1/32")

    assert excluded_by(device, rule) != ""
    assert excluded_by(device, rule, include=(VF,)) == ""


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (("10.5.0.7", 0), "from its address 10.5.0.7; --include eth1 offers it"),
        (("10.5.0.8", 3), "through it; --include eth1 offers it"),
        (("", 3), "through it; --include eth1 offers it"),
        (("10.5.0.8", 2), ""),
        (("", 0), ""),
    ],
)
def test_nic_through_which_a_tunnel_sends_is_excluded(ends: tuple[str, int], reason: str) -> None:
    device = replace(nic("eth1", 3, VF), addresses=(Address("fe80::1/64"), OWN))
    tunnel = replace(virtual("vx7", 7, "vxlan"), tunnel_ends=ends)
    reason = reason and f"eth1: the tunnel vx7 sends {reason}"
    facts = HostFacts((function(VF),), (device, tunnel))

    for include, expected in (((), reason), (("*",), "")):
        excluded = dict(inventory_from_facts(facts, include=include).excluded)
        assert excluded.get("pci-0000-8a-00-1", "") == expected


@pytest.mark.parametrize("kind", ["IPsec", "WireGuard"])
def test_nic_through_which_encrypted_packets_are_sent_is_excluded(kind: str) -> None:
    device = replace(nic("eth1", 3, VF), underlay_of=(kind,))

    reason = f"eth1: {kind} of the node sends through it; --include eth1 offers it"
    assert excluded_by(device) == reason
    assert excluded_by(device, include=("eth1",)) == ""
    assert parent_hazards(HostFacts(netdevs=(device,))) == {}


def test_nic_with_routes_of_a_routing_daemon_is_excluded() -> None:
    device, functions = nic("eth1", 3, VF), (function(VF),)
    routes = ((2, "bird"), (3, "bgp"), (3, "zebra"))
    facts = HostFacts(functions, (device,), daemon_routes=routes)

    reason = (
        "eth1: a routing daemon of the node has routes through it (protocol bgp, zebra);"
        " --include eth1 offers it"
    )
    assert inventory_from_facts(facts).excluded == (("pci-0000-8a-00-1", reason),)
    assert inventory_from_facts(facts, include=("eth*",)).excluded == ()
    assert inventory_from_facts(replace(facts, daemon_routes=routes[:1])).excluded == ()
    assert parent_hazards(facts) == {}


@pytest.mark.parametrize(
    ("source", "links", "is_lost"),
    [
        pytest.param("10.5.0.7", (2,), True, id="another link"),
        pytest.param("10.5.0.7", (2, 4), True, id="multipath over other links"),
        pytest.param("10.5.0.7", (3, 2), False, id="multipath, also over the NIC"),
        pytest.param("10.5.0.7", (4,), True, id="a VLAN of the NIC"),
        pytest.param("10.5.0.7", (3,), False, id="the NIC"),
        pytest.param("10.5.0.7", (), False, id="no link"),
        pytest.param("10.5.0.8", (2,), False, id="an address that another link has too"),
        pytest.param("10.5.0.9", (2,), False, id="an address of no link"),
    ],
)
def test_nic_whose_address_is_the_source_of_another_links_route_is_excluded(
    *, source: str, links: tuple[int, ...], is_lost: bool
) -> None:
    shared = Address("10.5.0.8/32")
    device = replace(nic("eth1", 3, VF), addresses=(OWN, Address("10.5.0.7/16"), shared))
    others = (
        replace(virtual("eth0", 2, ""), addresses=(shared,)),
        virtual("eth1.5", 4, "vlan", lower=3),
    )
    route = ("10.66.0.0/16", source, links)
    facts = HostFacts((function(VF),), (device, *others), sourced_routes=(route,))

    reason = (
        "eth1: its address 10.5.0.7 is the source of the route 10.66.0.0/16 over another link,"
        " which the kernel would delete: change that source; --include eth1 offers it"
    )
    for include, expected in (((), reason if is_lost else ""), (("*",), "")):
        excluded = dict(inventory_from_facts(facts, include=include).excluded)
        assert excluded.get("pci-0000-8a-00-1", "") == expected
    assert parent_hazards(facts) == {}


def test_include_does_not_override_a_definite_exclusion() -> None:
    port, bridge = nic("eth1", 3, VF), virtual("cni0", 4, "bridge")
    port = replace(port, link=replace(port.link, master=4))
    facts = HostFacts((function(VF),), (port, bridge), (), (DefaultRoute(4, 0, (4,)),))

    reported = inventory_from_facts(facts, include=("*",)).excluded

    assert reported == (
        ("cni0", "the node's default route goes through it"),
        ("pci-0000-8a-00-1", "eth1: carries the uplink cni0"),
    )
