"""Equality of routes, and the routes that the host lacks."""

import pytest

from dranet_nri.model import NextHop, Route
from dranet_nri.plan.routes.comparison import absent_nexthops, lost_routes, missing_routes

V4, V6 = "10.9.0.0/16", "2001:db8:9::/48"
OWN, SECOND = NextHop("10.1.0.1"), NextHop("10.1.0.2", 3)
OVER_ETH2, OVER_ETH3 = NextHop("10.2.0.1", device="eth2"), NextHop("10.3.0.1", device="eth3")


@pytest.mark.parametrize(
    ("desired", "now"),
    [
        pytest.param(
            Route(V4, nexthops=(OWN, OVER_ETH2)), Route(V4, nexthops=(OVER_ETH2, OWN)), id="order"
        ),
        pytest.param(
            Route(V4, nexthops=(SECOND,)), Route(V4, gateway="10.1.0.2"), id="one nexthop"
        ),
        pytest.param(Route(V4, protocol=4), Route(V4, protocol=16), id="protocol"),
        pytest.param(Route(V6, expires_s=5), Route(V6, metric=1024), id="lifetime and metric"),
        pytest.param(Route("::ffff:1.2.3.0/120"), Route("::ffff:102:300/120"), id="spelling"),
    ],
)
def test_existing_route_is_not_missing(desired: Route, now: Route) -> None:
    assert missing_routes((desired,), (now,)) == ()
    assert lost_routes((desired,), (now,), {"eth2"}) == ()


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(Route(V4, gateway="10.1.0.2"), id="gateway"),
        pytest.param(Route(V4, gateway="10.1.0.1", metric=1), id="metric"),
        pytest.param(Route(V4, gateway="10.1.0.1", table=100), id="table"),
        pytest.param(Route(V4, gateway="10.1.0.1", tos=16), id="tos"),
        pytest.param(Route(V4, gateway="10.1.0.1", source="10.1.0.5"), id="source"),
        pytest.param(Route(V4, gateway="10.1.0.1", type=7), id="type"),
        pytest.param(Route(V4, gateway="10.1.0.1", encap="06"), id="tunnel"),
        pytest.param(Route(V4, nexthops=(OWN, SECOND)), id="nexthops"),
    ],
)
def test_similar_route_does_not_count_as_the_wanted_one(now: Route) -> None:
    desired = Route(V4, gateway="10.1.0.1")

    assert missing_routes((desired,), (now,)) == (desired,)
    assert lost_routes((desired,), (now,), ()) == (desired,)


def test_device_restores_its_own_nexthops_of_an_ipv6_route() -> None:
    own, weighted = NextHop("fe80::1"), NextHop("fe80::2", 3)
    other = NextHop("fe80::3", device="eth2")
    before = Route(V6, nexthops=(own, weighted, other))
    left = Route(V6, nexthops=(other, own))

    assert lost_routes((before,), (), {"eth2"}) == (
        Route(V6, gateway="fe80::1"),
        Route(V6, nexthops=(weighted,)),
    )
    assert lost_routes((before,), (left,), {"eth2"}) == (Route(V6, nexthops=(weighted,)),)


@pytest.mark.parametrize(
    ("devices", "restored"),
    [
        pytest.param({"eth2", "eth3"}, Route(V4, nexthops=(OWN, OVER_ETH2, OVER_ETH3)), id="all"),
        pytest.param({"eth2"}, Route(V4, nexthops=(OWN, OVER_ETH2)), id="without one"),
        pytest.param(set[str](), Route(V4, gateway="10.1.0.1"), id="its own alone"),
    ],
)
def test_ipv4_route_is_restored_over_the_nexthops_of_available_devices(
    devices: set[str], restored: Route
) -> None:
    before = Route(V4, nexthops=(OWN, OVER_ETH2, OVER_ETH3))

    assert lost_routes((before,), (), devices) == (restored,)
    assert lost_routes((before,), (restored,), devices) == ()


def test_missing_nexthops_of_an_ipv4_route_are_reported() -> None:
    routes = (
        Route(V4, nexthops=(OWN, OVER_ETH2, OVER_ETH3)),
        Route(V6, nexthops=(OWN, OVER_ETH3)),
        Route(V4),
    )

    assert absent_nexthops(routes, {"eth2"}) == (f"{V4} without its nexthop over eth3",)
