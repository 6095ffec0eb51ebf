"""Source-based routing of a child: table, routes and rules from its addresses."""

import pytest

from dranet_nri.model import Address, Route, table_of
from dranet_nri.plan.routes.source import source_based

V4_DEFAULT = Route("0.0.0.0/0", "10.5.0.1", metric=100)
V6_DEFAULT = Route("::/0", "fd00::1")


@pytest.mark.parametrize(("name", "table"), [("test-vrf", 1890), ("vrf0", 1343), ("blue", 1541)])
def test_source_routing_table_number_is_that_of_dranet(name: str, table: int) -> None:
    assert table_of(name) == table


def shown(routes: tuple[Route, ...]) -> list[str]:
    assert {(route.table, route.protocol) for route in routes} <= {(1891, 4)}
    assert all(route.scope == (253 if is_direct_v4(route) else 0) for route in routes)
    return [f"{route.destination} {route.gateway}".strip() for route in routes]


def is_direct_v4(route: Route) -> bool:
    return not route.gateway and ":" not in route.destination


@pytest.mark.parametrize(
    ("address", "parent", "gateways", "routes"),
    [
        pytest.param(
            "10.5.0.20/24",
            (V4_DEFAULT,),
            True,
            ["10.5.0.0/24", "0.0.0.0/0 10.5.0.1"],
            id="gateway in its network",
        ),
        pytest.param(
            "10.5.0.20/32",
            (V4_DEFAULT,),
            True,
            ["10.5.0.1/32", "0.0.0.0/0 10.5.0.1"],
            id="an address alone",
        ),
        pytest.param("10.7.0.20/24", (V4_DEFAULT,), True, ["10.7.0.0/24"], id="another network"),
        pytest.param("10.5.0.20/24", (), True, ["10.5.0.0/24"], id="no default route"),
        pytest.param(
            "10.5.0.20/24",
            (Route("0.0.0.0/0", "10.5.0.9", metric=200, table=7), V4_DEFAULT),
            True,
            ["10.5.0.0/24", "0.0.0.0/0 10.5.0.1"],
            id="the best of two",
        ),
        pytest.param(
            "10.5.0.20/24", (V4_DEFAULT,), False, ["10.5.0.0/24", "0.0.0.0/0"], id="mode L3"
        ),
        pytest.param("fd00::20/64", (V6_DEFAULT,), True, ["fd00::/64", "::/0 fd00::1"], id="IPv6"),
        pytest.param("fe80::20/64", (V6_DEFAULT,), True, [], id="link-local"),
    ],
)
def test_source_routes_are_the_network_of_the_address_and_the_parent_gateway(
    address: str,
    parent: tuple[Route, ...],
    gateways: bool,  # noqa: FBT001
    routes: list[str],
) -> None:
    found, rules = source_based("net1", (Address(address),), parent, gateways=gateways)

    assert shown(found) == routes
    assert [(rule.source, rule.table, rule.priority) for rule in rules] == (
        [(f"{address.partition('/')[0]}/{128 if ':' in address else 32}", 1891, 32000)]
        if routes
        else []
    )


def test_two_addresses_of_a_network_have_its_routes_once_and_a_rule_each() -> None:
    addresses = (Address("10.5.0.20/24"), Address("10.5.0.21/24"))

    routes, rules = source_based("net1", addresses, (V4_DEFAULT,), gateways=True)

    assert len(routes) == 2
    assert [rule.source for rule in rules] == ["10.5.0.20/32", "10.5.0.21/32"]
