"""Uplinks of the node: by default route, by node address, and kept for a while without both."""

from dataclasses import replace

import pytest

from dranet_nri.inventory import HostFacts, NetDevice, Uplinks, inventory_from_facts, uplinks_of
from dranet_nri.model import Address, DefaultRoute, Link
from tests.dranet_nri.inventory.parts import VF, function, names, nic, virtual

ROUTED = "the node's default route goes through it"
WAS_ROUTED = "the node's last default route went through it, and there is none now"
WAS_REACHED = "it had an address of the Node, and no link has one now"


def facts(*routes: DefaultRoute, links: int = 6) -> HostFacts:
    netdevs = tuple(NetDevice(Link(index, f"eth{index}")) for index in range(2, links))
    return HostFacts(netdevs=netdevs, default_routes=routes)


def found(uplinks: Uplinks, now: HostFacts) -> dict[str, str]:
    """Return the name of each uplink and why it is one."""
    by_index = {netdev.link.index: netdev.link.name for netdev in now.netdevs}
    reasons = uplinks.among([netdev.link for netdev in now.netdevs])
    return {by_index[index]: reason for index, reason in reasons.items()}


def with_address(host: HostFacts, name: str, *cidrs: str) -> HostFacts:
    """Return the host with these addresses on a link, and on no other."""
    addresses = tuple(map(Address, cidrs))
    return replace(
        host,
        netdevs=tuple(
            replace(netdev, addresses=addresses if netdev.link.name == name else ())
            for netdev in host.netdevs
        ),
    )


# --------------------------------------------------------------------------- default routes


def test_lowest_metric_of_each_family_determines_the_uplink() -> None:
    now = facts(
        DefaultRoute(4, 100, (2,)),
        DefaultRoute(4, 50, (3,)),
        DefaultRoute(6, 1024, (4,)),
        DefaultRoute(6, 2048, (2,)),
    )

    assert found(uplinks_of(now), now).keys() == {"eth3", "eth4"}


def test_equal_metrics_and_all_nexthops_of_a_multipath_route_are_uplinks() -> None:
    now = facts(DefaultRoute(4, 0, (2, 3)), DefaultRoute(4, 0, (4,)), DefaultRoute(4, 1, (5,)))

    assert found(uplinks_of(now), now).keys() == {"eth2", "eth3", "eth4"}


def test_partial_default_routes_add_uplinks() -> None:
    now = facts(
        DefaultRoute(4, 0, (2,)),
        DefaultRoute(4, 7, (3,), partial=True),
        DefaultRoute(6, 7, (4,), partial=True),
        DefaultRoute(4, 7, (5,)),
    )

    assert found(uplinks_of(now), now).keys() == {"eth2", "eth3", "eth4"}


def test_node_without_facts_has_no_uplinks() -> None:
    assert found(uplinks_of(facts()), facts()) == {}


def test_uplink_removed_between_two_dumps_is_ignored() -> None:
    now = facts(DefaultRoute(4, 0, (9,)))

    assert found(uplinks_of(now), now) == {}


# --------------------------------------------------------------------------- the Node's addresses


@pytest.mark.parametrize("address", ["10.0.0.5", "fd00::5"])
def test_link_with_the_node_address_is_an_uplink(address: str) -> None:
    now = with_address(facts(DefaultRoute(4, 0, (2,))), "eth3", "10.0.0.5/24", "fd00::5/64")

    uplinks = uplinks_of(now, {address, "203.0.113.7"})

    assert found(uplinks, now) == {"eth2": ROUTED, "eth3": f"it has the Node's address {address}"}


def test_link_with_both_properties_is_reported_by_the_default_route() -> None:
    now = with_address(facts(DefaultRoute(4, 0, (2,))), "eth2", "10.0.0.5/24")

    assert found(uplinks_of(now, {"10.0.0.5"}), now) == {"eth2": ROUTED}


def test_address_with_the_same_prefix_text_is_not_the_node_address() -> None:
    now = with_address(facts(), "eth3", "10.0.0.50/24")

    assert found(uplinks_of(now, {"10.0.0.5"}), now) == {}


def test_link_below_the_node_address_is_excluded() -> None:
    host = HostFacts(
        (function(), function(VF)),
        (nic("eth0", 2), nic("eth1", 3, VF), virtual("vlan7", 4, "vlan", lower=2)),
    )
    host = with_address(host, "vlan7", "10.0.0.5/24")

    inventory = inventory_from_facts(host, uplinks_of(host, {"10.0.0.5"}))

    assert names(inventory) == ["pci-0000-8a-00-1"]
    assert inventory.excluded == (
        ("pci-0000-8a-00-0", "eth0: carries the uplink vlan7"),
        ("vlan7", "it has the Node's address 10.0.0.5"),
    )


# --------------------------------------------------------------------------- lost for a moment


def test_uplink_is_kept_while_there_is_no_default_route() -> None:
    before = facts(DefaultRoute(4, 0, (2,)), DefaultRoute(6, 0, (3,)))
    first = uplinks_of(before)

    second = uplinks_of(facts(), before=first)
    third = uplinks_of(facts(), before=second)

    assert found(third, facts()) == {"eth2": WAS_ROUTED, "eth3": WAS_ROUTED}


def test_next_default_route_replaces_the_kept_uplink() -> None:
    lost = uplinks_of(facts(), before=uplinks_of(facts(DefaultRoute(4, 0, (2,)))))

    now = facts(DefaultRoute(6, 0, (3,)))

    assert found(uplinks_of(now, before=lost), now) == {"eth3": ROUTED}


def test_uplink_by_node_address_is_kept_until_another_link_has_the_address() -> None:
    host = facts(DefaultRoute(4, 0, (2,)))
    first = uplinks_of(with_address(host, "eth3", "10.0.0.5/24"), {"10.0.0.5"})

    lost = uplinks_of(host, {"10.0.0.5"}, first)
    moved = with_address(host, "eth4", "10.0.0.5/24")

    assert found(lost, host) == {"eth2": ROUTED, "eth3": WAS_REACHED}
    assert found(uplinks_of(moved, {"10.0.0.5"}, lost), moved).keys() == {"eth2", "eth4"}


@pytest.mark.parametrize(
    ("recreated", "is_uplink"),
    [
        (nic("eth0", 7), True),
        (nic("ens1", 7), True),
        (nic("eth0", 7, VF), True),
        (nic("ens1", 7, VF), False),
        (virtual("eth0", 7), True),
        (virtual("dummy0", 7), False),
    ],
    ids=["the same", "renamed", "on another slot", "another one", "a namesake", "a virtual one"],
)
def test_uplink_of_a_reloaded_driver_is_identified_by_name_or_device(
    recreated: NetDevice, is_uplink: bool  # noqa: FBT001 cases
) -> None:  # fmt: skip
    before = HostFacts((function(),), (nic("eth0", 2),), default_routes=(DefaultRoute(4, 0, (2,)),))
    now = HostFacts((function(),), (recreated,))

    assert bool(found(uplinks_of(now, before=uplinks_of(before)), now)) is is_uplink


def test_other_link_is_no_uplink_while_the_uplink_exists() -> None:
    before = HostFacts(
        (function(),),
        (nic("eth0", 2), nic("eth0np1", 3, dev_port=1)),
        default_routes=(DefaultRoute(4, 0, (2,)),),
    )
    now = replace(before, default_routes=())

    assert found(uplinks_of(now, before=uplinks_of(before)), now) == {"eth0": WAS_ROUTED}


def test_virtual_uplink_is_identified_by_its_name() -> None:
    before = HostFacts(netdevs=(virtual("br0", 2),), default_routes=(DefaultRoute(4, 0, (2,)),))
    now = HostFacts(netdevs=(virtual("br0", 8), virtual("br1", 9)))

    assert found(uplinks_of(now, before=uplinks_of(before)), now) == {"br0": WAS_ROUTED}


RAIL = DefaultRoute(6, 1024, (3,), advertised=True)


@pytest.mark.parametrize(
    ("routes", "named", "names"),
    [
        pytest.param((RAIL,), (), {"eth3"}, id="it is the only one"),
        pytest.param((RAIL, DefaultRoute(4, 0, (2,))), (), {"eth2"}, id="IPv4 has another"),
        pytest.param((RAIL, DefaultRoute(6, 2048, (2,))), (), {"eth2"}, id="a worse one"),
        pytest.param(
            (RAIL, DefaultRoute(6, 1024, (2,), advertised=True)), (), {"eth2", "eth3"}, id="two"
        ),
        pytest.param((RAIL,), ("eth2",), {"eth2"}, id="another is named"),
        pytest.param((DefaultRoute(4, 0, (2,)),), ("eth3", "x*"), {"eth3"}, id="named beside one"),
    ],
)
def test_advertised_default_route_counts_only_without_other_evidence(
    routes: tuple[DefaultRoute, ...], named: tuple[str, ...], names: set[str]
) -> None:
    now = facts(*routes)

    assert found(uplinks_of(now, named=named), now).keys() == names


def test_advertised_default_route_is_ignored_beside_the_node_address() -> None:
    now = with_address(facts(RAIL), "eth2", "192.0.2.5/24")

    assert found(uplinks_of(now, ("192.0.2.5",)), now).keys() == {"eth2"}
    named = uplinks_of(now, ("192.0.2.5",), named=("eth3",))
    assert found(named, now).keys() == {"eth2", "eth3"}


def test_reason_of_one_uplink_of_several_names_the_flag() -> None:
    now = facts(DefaultRoute(4, 0, (2,)), DefaultRoute(6, 1024, (3,)))

    reason = f"{ROUTED}, as through other links; --uplink-interfaces says which links are uplinks"
    assert found(uplinks_of(now), now) == {"eth2": reason, "eth3": reason}


def test_reason_of_an_advertised_uplink_names_the_flag() -> None:
    now = facts(RAIL)

    assert "--uplink-interfaces says which" in found(uplinks_of(now), now)["eth3"]
    named = found(uplinks_of(now, named=("eth3",)), now)
    assert named == {"eth3": "--uplink-interfaces names it"}
