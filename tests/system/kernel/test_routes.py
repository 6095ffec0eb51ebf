"""Routes that an address implies."""

import pytest

from dranet_nri.kernel.ip.routes import without_implied
from dranet_nri.model import Address, NextHop, Route

KERNEL, STATIC = 2, 4
NOPREFIXROUTE = 0x200
V4 = Address("10.0.0.5/24")
V6 = Address("2001:db8::5/64")


@pytest.mark.parametrize(
    ("address", "route"),
    [
        pytest.param(V4, Route("10.0.0.0/24", protocol=KERNEL, scope=253), id="v4"),
        pytest.param(
            Address("10.0.0.5/24", metric=50),
            Route("10.0.0.0/24", protocol=KERNEL, scope=253, metric=50),
            id="v4 with a metric",
        ),
        pytest.param(
            Address("10.0.0.5/32", peer="10.9.9.9"),
            Route("10.9.9.9/32", protocol=KERNEL, scope=253),
            id="v4 peer",
        ),
        pytest.param(V6, Route("2001:db8::/64", protocol=KERNEL, metric=256), id="v6"),
        pytest.param(
            Address("2001:db8::5/128"),
            Route("2001:db8::5/128", protocol=KERNEL, metric=256),
            id="v6 host",
        ),
        pytest.param(V6, Route("fe80::/64", protocol=KERNEL, metric=256), id="link-local"),
        pytest.param(V6, Route("ff00::/8", protocol=KERNEL, metric=256), id="multicast"),
        pytest.param(V6, Route("ff00::/8", metric=256), id="multicast of an old kernel"),
    ],
)
def test_route_implied_by_an_address_is_omitted(address: Address, route: Route) -> None:
    assert without_implied((route,), (address,)) == ()


@pytest.mark.parametrize(
    ("address", "route"),
    [
        pytest.param(V4, Route("10.0.0.0/24", protocol=STATIC, scope=253), id="static"),
        pytest.param(
            V4, Route("10.0.0.0/24", protocol=KERNEL, scope=253, metric=100), id="other metric"
        ),
        pytest.param(
            Address("10.0.0.5/24", flags=NOPREFIXROUTE),
            Route("10.0.0.0/24", protocol=KERNEL, scope=253),
            id="no prefix route",
        ),
        pytest.param(
            V4, Route("10.0.0.0/24", gateway="10.0.0.1", protocol=KERNEL), id="through a gateway"
        ),
        pytest.param(
            V4,
            Route("10.0.0.0/24", protocol=KERNEL, nexthops=(NextHop("10.0.0.1"),)),
            id="multipath",
        ),
        pytest.param(V4, Route("10.7.0.0/16", protocol=KERNEL, scope=253), id="other network"),
        pytest.param(
            Address("2001:db8::5/128", peer="2001:db8::6"),
            Route("2001:db8::6/128", protocol=KERNEL, metric=256),
            id="v6 peer",
        ),
        pytest.param(V6, Route("fe80::/64", table=55, metric=1024), id="link-local"),
        pytest.param(V6, Route("ff00::/8", table=55, metric=1024), id="multicast"),
        pytest.param(V4, Route("0.0.0.0/0", gateway="10.0.0.1"), id="default"),
        pytest.param(V6, Route("::/0", gateway="fe80::1", protocol=9), id="advertised"),
    ],
)
def test_route_not_implied_by_an_address_is_kept(address: Address, route: Route) -> None:
    assert without_implied((route,), (address,)) == (route,)
