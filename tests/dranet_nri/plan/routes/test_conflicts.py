"""Equal routes of several devices of one pod: different metrics."""

from dataclasses import replace

import pytest

from dranet_nri.model import Address, Route
from dranet_nri.plan.pod_network import PodNetwork
from dranet_nri.plan.routes.comparison import IFA_F_NOPREFIXROUTE as NOPREFIXROUTE
from dranet_nri.plan.routes.comparison import route_key
from dranet_nri.plan.routes.conflicts import separate_routes

V4, V6 = "10.200.0.0/16", "2001:db8:9::/48"


def pod(
    *devices: tuple[Route, ...], now: tuple[tuple[Route, ...], ...] = ()
) -> tuple[tuple[Route, ...], ...]:
    """Return the routes that the devices get."""
    networks = [PodNetwork(f"net{number}", routes=device) for number, device in enumerate(devices)]
    return tuple(network.routes for network in separate_routes(networks, now, {}))


@pytest.mark.parametrize(
    ("route", "later"),
    [
        pytest.param(Route(V4), Route(V4, metric=1), id="ipv4-without-a-metric"),
        pytest.param(Route(V4, metric=7), Route(V4, metric=8), id="ipv4-with-a-metric"),
        pytest.param(Route(V6), Route(V6, metric=1025), id="ipv6-after-the-kernels-own"),
    ],
)
def test_later_device_gets_the_next_metric(route: Route, later: Route) -> None:
    assert pod((route,), (route,)) == ((route,), (later,))


def test_metric_of_another_route_is_skipped() -> None:
    first, second, third = pod((Route(V4), Route(V4, metric=1)), (Route(V4),), (Route(V4),))

    assert first == (Route(V4), Route(V4, metric=1))
    assert (second, third) == ((Route(V4, metric=2),), (Route(V4, metric=3),))


def test_routes_to_other_destinations_and_tables_are_unchanged() -> None:
    devices = ((Route(V4),), (Route(V4, table=100),), (Route(V6),), (Route("10.201.0.0/16"),))

    assert pod(*devices) == devices


def test_device_keeps_its_metric_while_another_has_the_first() -> None:
    now = ((), (Route(V4, metric=1),), (Route(V4), Route(V6, metric=1024)))
    desired = (Route(V4), Route(V6))

    first, second = pod(desired, desired, now=now)

    assert first == (Route(V4, metric=2), Route(V6, metric=1025))
    assert second == (Route(V4, metric=1), Route(V6, metric=1026))


def test_devices_in_the_pod_keep_their_metrics_in_any_order() -> None:
    now = ((Route(V4, metric=1),), (Route(V4),))

    assert pod((Route(V4),), (Route(V4),), (Route(V4),), now=now) == (
        (Route(V4, metric=1),),
        (Route(V4),),
        (Route(V4, metric=2),),
    )


def test_device_gets_no_two_routes_with_one_metric() -> None:
    twice = (Route(V4, gateway="10.0.0.1"), Route(V4, gateway="10.0.0.2"))

    assert pod(twice, now=(twice[:1],)) == ((twice[0], Route(V4, "10.0.0.2", metric=1)),)


# --------------------------------------------------------------------------- beside the pod's own


def alone(
    *routes: Route,
    taken: dict[Route, str] | None = None,
    addresses: tuple[Address, ...] = (),
    inherited: tuple[Route, ...] = (),
) -> PodNetwork:
    """Return the routes of a device whose pod has the taken routes."""
    network = PodNetwork(
        "net1",
        routes=(*routes, *inherited),
        addresses=addresses,
        inherited=frozenset(inherited),
    )
    slots = {route_key(route): device for route, device in (taken or {}).items()}
    (placed,) = separate_routes([network], (), slots)
    return placed


@pytest.mark.parametrize(
    ("route", "taken", "metric"),
    [
        pytest.param(Route("0.0.0.0/0", "10.1.0.1"), Route("0.0.0.0/0"), 1, id="v4"),
        pytest.param(Route("::/0", "fe80::1"), Route("::/0", metric=1024), 1025, id="v6"),
        pytest.param(Route(V4, metric=7), Route(V4, metric=7), 8, id="a metric of the claim"),
    ],
)
def test_claimed_route_gets_a_higher_metric_than_that_of_the_pod(
    route: Route, taken: Route, metric: int
) -> None:
    placed = alone(route, taken={taken: "eth0"})

    assert placed.routes == (replace(route, metric=metric),)
    (warnings,) = placed.warnings
    assert warnings.startswith(
        f"route {route.destination} is a backup with metric {metric}, because eth0 has"
    )
    assert "set routes[].metric" in warnings


def test_route_without_a_link_occupies_its_metric() -> None:
    (warnings,) = alone(Route(V4), taken={Route(V4): ""}).warnings

    assert "because a route of the pod has" in warnings


def test_inherited_route_is_omitted_if_the_pod_has_one() -> None:
    other = Route(V6)

    placed = alone(inherited=(Route(V4), other), taken={Route(V4): "eth0"})

    assert placed.routes == (other,)
    assert placed.warnings == (f"left out, because eth0 has it: route {V4} of the host",)


def test_inherited_route_with_another_metric_stays_inherited() -> None:
    later = Route(V4, "10.0.0.2")

    placed = alone(Route(V4, "10.0.0.1"), inherited=(later,))

    assert placed.routes == (Route(V4, "10.0.0.1"), replace(later, metric=1))
    assert replace(later, metric=1) in placed.inherited
    assert placed.warnings == ()


ADDRESS = Address("10.200.0.7/16")


@pytest.mark.parametrize(
    "route",
    [
        pytest.param(Route(V4, scope=253), id="as the kernel makes it"),
        pytest.param(Route(V4, scope=253, source="10.200.0.7"), id="with its source"),
    ],
)
def test_route_implied_by_an_own_address_is_omitted(route: Route) -> None:
    assert alone(route, addresses=(ADDRESS,)).routes == ()
    inherited = alone(inherited=(route,), addresses=(ADDRESS,))
    assert (inherited.routes, inherited.warnings) == ((), ())


def test_implied_route_has_the_metric_of_its_address() -> None:
    address, route = replace(ADDRESS, metric=50), Route(V4, scope=253, metric=50)

    assert alone(route, addresses=(address,)).routes == ()
    assert alone(replace(route, metric=0), addresses=(address,)).routes == (Route(V4, scope=253),)


@pytest.mark.parametrize(
    "route",
    [
        pytest.param(Route(V4, "10.200.0.1"), id="through a gateway"),
        pytest.param(Route(V4, scope=253, source="10.9.9.9"), id="of another source"),
        pytest.param(Route(V4, scope=253, mtu=1400), id="with an mtu"),
    ],
)
def test_other_route_to_the_network_of_an_address_gets_a_higher_metric(route: Route) -> None:
    placed = alone(route, addresses=(ADDRESS,))

    assert placed.routes == (replace(route, metric=1),)
    assert "because an address of the pod's NICs has" in placed.warnings[0]


def test_address_without_a_prefix_route_occupies_no_metric() -> None:
    route = Route(V4, scope=253)

    assert alone(route, addresses=(replace(ADDRESS, flags=NOPREFIXROUTE),)).routes == (route,)
