"""Routes of a device in its pod: claimed routes, and valid routes of the host."""

from dataclasses import replace

import pytest

from dranet_nri.model import (
    NetworkConfig,
    NextHop,
    Route,
    RouteConfig,
)
from dranet_nri.plan.pod_network import pod_network
from dranet_nri.plan.routes.comparison import direct_first
from tests.dranet_nri.plan.examples import GKE, PLAIN, RENAMED, with_addresses, with_routes

NOTHING = NetworkConfig()


DIRECT_V4 = Route("10.128.0.1/32", scope=253)
DIRECT_V6 = Route("2001:db8:ffff::1/128", metric=1024)
VIA_V6 = Route("2001:db8:9::/48", gateway="2001:db8:ffff::1", metric=1024)
MULTIPATH = Route("10.9.0.0/16", nexthops=(NextHop("10.1.0.1"), NextHop("10.1.0.2", weight=3)))
HALF_ONLINK = Route(
    "10.9.0.0/16", nexthops=(NextHop("172.16.0.1", onlink=True), NextHop("10.1.0.2"))
)


@pytest.mark.parametrize(
    "route",
    [
        pytest.param(Route("10.9.0.0/16", gateway="10.1.0.1", metric=77), id="metric"),
        pytest.param(Route("10.9.0.0/16", gateway="10.1.0.1", mtu=1400), id="mtu"),
        pytest.param(Route("10.9.0.0/16", gateway="172.16.0.1", onlink=True), id="onlink"),
        pytest.param(Route("10.9.0.0/16", source="10.1.0.5", scope=253), id="source kept"),
        pytest.param(Route("10.9.0.0/16", gateway="10.1.0.1", protocol=16), id="DHCP's"),
        pytest.param(Route("0.0.0.0/0", gateway="10.1.0.1", table=100), id="default of table 100"),
        pytest.param(Route("10.9.0.0/16", gateway="fe80::1"), id="IPv4 via IPv6 link-local"),
        pytest.param(Route("2001:db8:9::/48", gateway="fe80::1"), id="IPv6 link-local gateway"),
        pytest.param(MULTIPATH, id="multipath"),
        pytest.param(HALF_ONLINK, id="multipath, one leg onlink"),
    ],
)
def test_routes_valid_in_the_pod_are_inherited_unchanged(route: Route) -> None:
    network = pod_network(NOTHING, with_routes(route))

    assert network.routes == (route,)


@pytest.mark.parametrize(
    "route",
    [
        pytest.param(Route("0.0.0.0/0", gateway="10.1.0.1"), id="IPv4 default of main"),
        pytest.param(Route("::/0", gateway="fe80::1"), id="IPv6 default of main"),
        pytest.param(Route("10.9.0.0/16", source="10.1.0.99", scope=253), id="foreign source"),
        pytest.param(Route("10.9.0.0/16", gateway="172.16.0.1"), id="gateway out of reach"),
        pytest.param(
            Route("10.9.0.0/16", gateway="169.254.1.1"), id="IPv4 link-local is not everywhere"
        ),
        pytest.param(
            Route("10.9.0.0/16", nexthops=(NextHop("10.1.0.1"), NextHop("172.16.0.1"))),
            id="multipath with a leg out of reach",
        ),
        pytest.param(
            Route(
                "10.9.0.0/16", nexthops=(NextHop("10.1.0.1"), NextHop("10.1.0.2", device="eth2"))
            ),
            id="multipath over another device",
        ),
        pytest.param(VIA_V6, id="IPv6 gateway out of reach"),
    ],
)
def test_routes_invalid_in_the_pod_are_not_inherited(route: Route) -> None:
    network = pod_network(NOTHING, with_routes(route))

    assert network.routes == ()


def test_expiring_route_is_inherited_without_its_expiry() -> None:
    route = Route("2001:db8:9::/48", gateway="fe80::1", expires_s=600, protocol=9)

    network = pod_network(NOTHING, with_routes(route))

    assert network.routes == (replace(route, expires_s=0),)


def test_inherited_routes_follow_the_claimed_addresses() -> None:
    usable = Route("172.20.0.0/16", gateway="192.168.1.1")
    lost = Route("10.9.0.0/16", gateway="10.1.0.1")

    network = pod_network(with_addresses("192.168.1.5/24"), with_routes(lost, usable))

    assert network.routes == (usable,)


@pytest.mark.parametrize(
    ("direct", "via"),
    [
        pytest.param(DIRECT_V4, Route("10.9.0.0/16", gateway="10.128.0.1"), id="IPv4"),
        # The kernel gives every IPv6 route scope 0, so the scope can't order them.
        pytest.param(DIRECT_V6, VIA_V6, id="IPv6"),
    ],
)
def test_gateway_may_be_reachable_through_a_host_route(direct: Route, via: Route) -> None:
    network = pod_network(NOTHING, with_routes(via, direct))

    assert network.routes == (direct, via)


def test_host_routes_of_gke_are_inherited_in_a_valid_order() -> None:
    network = pod_network(RENAMED, GKE)

    assert [route.destination for route in network.routes] == ["10.128.0.1/32", "10.128.0.0/20"]


def test_configured_host_route_makes_an_inherited_gateway_reachable() -> None:
    config = NetworkConfig(routes=(RouteConfig("172.16.0.1/32", scope=253),))
    via = Route("10.9.0.0/16", gateway="172.16.0.1")

    network = pod_network(config, with_routes(via))

    assert [route.destination for route in network.routes] == ["172.16.0.1/32", "10.9.0.0/16"]


def test_configured_routes_are_static_in_table_main_without_host_bits() -> None:
    config = NetworkConfig(
        routes=(
            RouteConfig("192.168.7.9/16", gateway="10.1.0.1", source="10.1.0.5"),
            RouteConfig("0.0.0.0/0", gateway="10.1.0.1", table=200),
            RouteConfig("10.5.0.0/16", scope=253),
        )
    )

    network = pod_network(config, PLAIN)

    assert network.routes == (
        Route("10.5.0.0/16", scope=253, protocol=4),
        Route("192.168.0.0/16", gateway="10.1.0.1", source="10.1.0.5", protocol=4),
        Route("0.0.0.0/0", gateway="10.1.0.1", table=200, protocol=4),
    )


def test_configured_route_replaces_the_host_route_to_the_same_destination() -> None:
    config = NetworkConfig(routes=(RouteConfig("10.9.0.0/16", gateway="10.1.0.254"),))
    same = Route("10.9.0.0/16", gateway="10.1.0.1", metric=5)
    other_table = replace(same, table=100)

    network = pod_network(config, with_routes(same, other_table))

    assert network.routes == (
        Route("10.9.0.0/16", gateway="10.1.0.254", protocol=4),
        other_table,
    )


def test_routes_without_a_gateway_are_added_first_by_scope() -> None:
    multipath = Route("10.4.0.0/16", nexthops=(NextHop("10.1.0.1"), NextHop("10.1.0.2")))
    via = Route("10.3.0.0/16", gateway="10.1.0.1")
    universe = Route("2001:db8::/64")
    link = Route("10.1.0.1/32", scope=253)

    assert direct_first((multipath, via, universe, link)) == (link, universe, multipath, via)
