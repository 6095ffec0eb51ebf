"""Network of a device in its pod: claimed and inherited configuration."""

from dataclasses import replace

import pytest

from dranet_nri.model import (
    Address,
    InterfaceConfig,
    Neighbour,
    NeighbourConfig,
    NetworkConfig,
    NextHop,
    OffloadSizes,
    Route,
    RouteConfig,
    Rule,
    RuleConfig,
    Sysctl,
)
from dranet_nri.plan.ops import LinkSettings
from dranet_nri.plan.pod_network import PodNetwork, pod_network
from tests.dranet_nri.plan.examples import FULL, PLAIN, RENAMED, with_addresses, with_routes

NODAD = 0x02  # IFA_F_NODAD, linux/if_addr.h
MANAGED, NOPREFIXROUTE = 0x100, 0x200  # IFA_F_MANAGETEMPADDR, …
TEMPORARY = 0x01  # IFA_F_TEMPORARY for IPv6, IFA_F_SECONDARY for IPv4
NOTHING = NetworkConfig()


def test_empty_claim_inherits_the_host_configuration() -> None:
    network = pod_network(NOTHING, FULL)

    assert network == PodNetwork(
        name="eth1",
        addresses=(Address("10.1.0.5/24"), Address("2001:db8::5/64", flags=NODAD)),
        routes=FULL.routes,
        rules=FULL.rules,
        neighbours=FULL.neighbours,
        inherited=frozenset((*network.addresses, *FULL.routes, *FULL.rules, *FULL.neighbours)),
    )


def test_settings_and_sysctls_are_those_of_the_claim() -> None:
    interface = InterfaceConfig(
        name="net1",
        mtu=9000,
        hardware_addr="02:00:00:00:00:99",
        gso_max_size=1,
        gro_max_size=2,
        gso_ipv4_max_size=3,
        gro_ipv4_max_size=4,
        arp_ignore=0,
        arp_announce=2,
        forwarding=True,
    )

    network = pod_network(NetworkConfig(interface), FULL)

    assert network.name == "net1"
    assert network.settings == LinkSettings(
        mtu=9000, mac="02:00:00:00:00:99", sizes=OffloadSizes(gso=1, gro=2, gso_ipv4=3, gro_ipv4=4)
    )
    assert network.sysctls == (
        Sysctl("ipv4", "arp_ignore", "0"),
        Sysctl("ipv4", "arp_announce", "2"),
        Sysctl("ipv4", "forwarding", "1"),
        Sysctl("ipv6", "forwarding", "1"),
    )


def test_forwarding_can_be_disabled() -> None:
    network = pod_network(NetworkConfig(InterfaceConfig(forwarding=False)), FULL)

    assert network.sysctls == (
        Sysctl("ipv4", "forwarding", "0"),
        Sysctl("ipv6", "forwarding", "0"),
    )


# --------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("host", "inherited"),
    [
        pytest.param(Address("10.1.0.5/24"), Address("10.1.0.5/24"), id="permanent"),
        pytest.param(
            Address("10.1.0.5/24", valid_s=60, preferred_s=30),
            Address("10.1.0.5/24"),
            id="a lease becomes permanent",
        ),
        pytest.param(
            Address("10.1.0.5/32", peer="10.1.0.1", metric=50, label="eth1:1", broadcast="1.2.3.4"),
            Address("10.1.0.5/32", peer="10.1.0.1", metric=50),
            id="peer and metric stay, label and broadcast don't",
        ),
        pytest.param(
            Address("10.1.0.6/24", flags=TEMPORARY),
            Address("10.1.0.6/24"),
            id="an IPv4 secondary address",
        ),
        pytest.param(
            Address("2001:db8::5/64", flags=MANAGED | NOPREFIXROUTE),
            Address("2001:db8::5/64", flags=NODAD | NOPREFIXROUTE),
            id="IPv6 skips duplicate address detection, and keeps noprefixroute",
        ),
        pytest.param(
            Address("10.1.0.5/24", flags=NOPREFIXROUTE, valid_s=900, preferred_s=800),
            Address("10.1.0.5/24", flags=NOPREFIXROUTE),
            id="a leased address becomes permanent",
        ),
        pytest.param(
            Address("2001:db8::5/128", peer="2001:db8::6", valid_s=900, preferred_s=800),
            Address("2001:db8::5/128", peer="2001:db8::6", flags=NODAD),
            id="IPv6 peer",
        ),
        pytest.param(Address("fe80::7/64", scope=253), None, id="link-local"),
        pytest.param(Address("169.254.7.7/16", scope=253), None, id="IPv4 of link scope"),
    ],
)
def test_host_addresses_are_inherited(host: Address, inherited: Address | None) -> None:
    network = pod_network(NOTHING, replace(PLAIN, addresses=(host,)))

    assert network.addresses == ((inherited,) if inherited else ())
    assert network.warnings == ()


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        pytest.param(Address("2001:db8::7/64", flags=TEMPORARY), "temporary", id="temporary"),
        pytest.param(Address("2001:db8::7/64", proto=2), "router", id="marked by the kernel"),
        pytest.param(
            Address("2001:db8::7/64", flags=MANAGED, valid_s=900, preferred_s=800),
            "router",
            id="managed for a while",
        ),
        pytest.param(Address("2001:db8::7/64", preferred_s=0), "deprecated", id="deprecated"),
        pytest.param(Address("10.1.0.7/24", preferred_s=0), "deprecated", id="deprecated IPv4"),
    ],
)
def test_temporary_addresses_are_omitted_with_a_warning(host: Address, reason: str) -> None:
    network = pod_network(NOTHING, replace(PLAIN, addresses=(host, *PLAIN.addresses)))

    assert network.addresses == PLAIN.addresses
    (warnings,) = network.warnings
    assert f"address {host.cidr} of the host" in warnings
    assert reason in warnings


@pytest.mark.parametrize(
    "address",
    [
        pytest.param(Address("10.3.0.5/32", peer="10.3.0.6"), id="IPv4"),
        pytest.param(Address("2001:db8:3::5/128", peer="2001:db8:3::6"), id="IPv6"),
    ],
)
def test_gateway_may_be_the_peer_of_an_address(address: Address) -> None:
    routes = [Route("10.9.0.0/16" if "." in address.cidr else "2001:db8:9::/48", address.peer)]
    if ":" in address.cidr:
        routes.insert(0, Route(f"{address.peer}/128", metric=256, protocol=2))
    host = replace(PLAIN, addresses=(address,), routes=tuple(routes))

    assert pod_network(NOTHING, host).routes == tuple(routes)


def test_address_without_a_prefix_route_reaches_no_gateway() -> None:
    address = Address("10.3.0.5/24", flags=NOPREFIXROUTE)
    route, direct = Route("10.9.0.0/16", "10.3.0.1"), Route("10.3.0.0/24", scope=253)
    host = replace(PLAIN, addresses=(address,))

    assert pod_network(NOTHING, replace(host, routes=(route,))).routes == ()
    assert pod_network(NOTHING, replace(host, routes=(route, direct))).routes == (direct, route)


@pytest.mark.parametrize(
    ("route", "reason"),
    [
        pytest.param(
            Route("10.9.0.0/16", nexthops=(NextHop("10.1.0.1"), NextHop(device="eth2"))),
            "it goes over eth2 too",
            id="multipath",
        ),
        pytest.param(Route("10.9.0.0/16", scope=253, encap="06"), "it is a tunnel", id="tunnel"),
    ],
)
def test_omitted_route_is_reported(route: Route, reason: str) -> None:
    network = pod_network(NOTHING, with_routes(route))

    assert network.routes == ()
    (warnings,) = network.warnings
    assert warnings.startswith(f"left out, because {reason}: route 10.9.0.0/16 of the host")


@pytest.mark.parametrize(
    "config",
    [
        NetworkConfig(InterfaceConfig(addresses=("2001:db8:1::5/64",))),
        NetworkConfig(routes=(RouteConfig("2001:db8:1::/48", "fe80::1"),)),
        NetworkConfig(neighbors=(NeighbourConfig("2001:db8::9", "02:00:00:00:00:09"),)),
        NetworkConfig(InterfaceConfig(accept_ra=2)),
    ],
    ids=["address", "route", "neighbour", "router advertisements"],
)
def test_claimed_ipv6_is_enabled(config: NetworkConfig) -> None:
    on = Sysctl("ipv6", "disable_ipv6", "0")

    assert on in pod_network(config, FULL).sysctls
    assert on not in pod_network(NOTHING, FULL).sysctls


def test_rule_both_claimed_and_inherited_counts_as_claimed() -> None:
    rule = Rule(4, 1000, source="10.1.0.5/32", table=100, protocol=4)
    config = NetworkConfig(rules=(RuleConfig(1000, "10.1.0.5/32", "", 100),))

    network = pod_network(config, replace(FULL, rules=(rule,)))

    assert rule in network.rules
    assert rule not in network.inherited


def test_claimed_addresses_replace_all_inherited_ones() -> None:
    config = with_addresses("192.168.1.5/24", "2001:db8:1::5/64", "192.168.1.5/24")

    network = pod_network(config, FULL)

    assert network.addresses == (
        Address("192.168.1.5/24"),
        Address("2001:db8:1::5/64", flags=NODAD),
    )


# --------------------------------------------------------------------------- rules

IN_TABLE_100 = with_routes(Route("0.0.0.0/0", gateway="10.1.0.1", table=100))


@pytest.mark.parametrize(
    ("host", "inherited"),
    [
        pytest.param(
            Rule(4, 1000, source="10.1.0.5/32", table=100),
            Rule(4, 1000, source="10.1.0.5/32", table=100),
            id="by source",
        ),
        pytest.param(
            Rule(4, 1000, iif="eth1", table=100), Rule(4, 1000, iif="net1", table=100), id="iif"
        ),
        pytest.param(
            Rule(4, 1000, oif="eth1", table=100), Rule(4, 1000, oif="net1", table=100), id="oif"
        ),
        pytest.param(Rule(4, 1000, iif="eth0", table=100), None, id="iif of another link"),
        pytest.param(
            Rule(4, 1000, iif="eth1", oif="eth0", table=100), None, id="oif of another link"
        ),
        pytest.param(Rule(4, 1000, iif="eth1", table=300), None, id="a table that stays behind"),
    ],
)
def test_rules_are_inherited_with_the_routes_of_their_tables(
    host: Rule, inherited: Rule | None
) -> None:
    network = pod_network(RENAMED, replace(IN_TABLE_100, rules=(host,)))

    assert network.rules == ((inherited,) if inherited else ())


@pytest.mark.parametrize(
    ("config", "rules"),
    [
        pytest.param(
            RuleConfig(priority=100, source="192.168.1.5/24", table=200),
            (Rule(4, 100, source="192.168.1.0/24", table=200, protocol=4),),
            id="IPv4 by source",
        ),
        pytest.param(
            RuleConfig(priority=100, destination="2001:db8::7/64", table=200),
            (Rule(6, 100, destination="2001:db8::/64", table=200, protocol=4),),
            id="IPv6 by destination",
        ),
        pytest.param(
            RuleConfig(table=200),
            (Rule(4, 32765, table=200, protocol=4), Rule(6, 32765, table=200, protocol=4)),
            id="without a prefix in both families, without a priority always the same one",
        ),
        pytest.param(
            RuleConfig(priority=1),
            (Rule(4, 1, table=254, protocol=4), Rule(6, 1, table=254, protocol=4)),
            id="table main",
        ),
    ],
)
def test_configured_rules_are_added(config: RuleConfig, rules: tuple[Rule, ...]) -> None:
    network = pod_network(NetworkConfig(rules=(config,)), PLAIN)

    assert network.rules == rules


# --------------------------------------------------------------------------- neighbours


def test_configured_neighbour_replaces_the_inherited_one() -> None:
    config = NetworkConfig(neighbors=(NeighbourConfig("10.1.0.1", "02:00:00:00:00:aa"),))
    host = replace(
        PLAIN,
        neighbours=(
            Neighbour("10.1.0.1", "02:00:00:00:00:fe"),
            Neighbour("10.1.0.2", "02:00:00:00:00:fd"),
        ),
    )

    network = pod_network(config, host)

    assert network.neighbours == (
        Neighbour("10.1.0.1", "02:00:00:00:00:aa"),
        Neighbour("10.1.0.2", "02:00:00:00:00:fd"),
    )
