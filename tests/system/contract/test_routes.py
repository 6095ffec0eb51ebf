"""Routes of one destination beside each other, and multipath routes, on both kernels."""

from dataclasses import replace
from errno import EEXIST

import pytest

from dranet_nri.model import Address, NetnsId, NextHop, Ns, Route
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import AddAddress, AddRoute, MoveLink, SetDown, SetUp
from dranet_nri.plan.routes.comparison import nexthops_of
from tests.system.contract.cases import (
    KEY,
    UP,
    V4,
    V6,
    apply,
    in_pod,
    index,
    move_in,
    on_host,
    refused,
)
from tests.system.contract.worlds import World


@pytest.fixture
def beside(world: World, session: Session) -> Session:
    """Return a session where a second link of the host is up as well."""
    world.add_link("eth2")
    apply(
        session,
        *UP,
        AddAddress(Ns.HOST, "eth2", Address("10.2.0.5/24")),
        AddAddress(Ns.HOST, "eth2", replace(V6, cidr="2001:db8:2::5/64")),
        SetUp(Ns.HOST, "eth2"),
    )
    return session


def nexthops(session: Session, name: str) -> list[set[tuple[str, str]]]:
    """Return gateway and other device of the next hops of each route through a link of the host."""
    routes = on_host(session, name).routes
    return [
        {(nexthop.gateway, nexthop.device) for nexthop in nexthops_of(route)} for route in routes
    ]


@pytest.mark.parametrize("tos", [0, 16])
@pytest.mark.parametrize("gateways", [("10.0.0.1", "10.2.0.1"), ("", "")], ids=["via", "direct"])
def test_host_route_coexists_with_an_equal_one_of_another_link(
    beside: Session, gateways: tuple[str, str], tos: int
) -> None:
    scope = 0 if gateways[0] else 253
    for name, gateway in zip(("eth1", "eth2"), gateways, strict=True):
        route = Route("10.1.0.0/16", gateway, scope=scope, metric=1024, tos=tos)
        apply(beside, *2 * (AddRoute(Ns.HOST, name, route),))

    assert nexthops(beside, "eth1") == [{(gateways[0], "")}]
    assert nexthops(beside, "eth2") == [{(gateways[1], "")}]


def test_host_routes_of_one_link_coexist(beside: Session) -> None:
    routes = [Route("10.1.0.0/16", gateway) for gateway in ("10.0.0.1", "10.0.0.2")]

    apply(beside, *(AddRoute(Ns.HOST, "eth1", route) for route in 2 * routes))

    assert nexthops(beside, "eth1") == [{("10.0.0.1", "")}, {("10.0.0.2", "")}]


def test_ipv6_routes_with_gateways_and_equal_metric_are_merged(beside: Session) -> None:
    first = Route("2001:db8:1::/48", "2001:db8::1", metric=7)
    second = Route("2001:db8:1::/48", "2001:db8:2::1", metric=7)

    for _ in range(2):
        apply(beside, AddRoute(Ns.HOST, "eth1", first), AddRoute(Ns.HOST, "eth2", second))

    assert nexthops(beside, "eth1") == [{("2001:db8::1", ""), ("2001:db8:2::1", "eth2")}]


def test_ipv6_routes_without_gateways_stay_separate(beside: Session) -> None:
    route = Route("2001:db8:1::/48", metric=7)

    for _ in range(2):
        apply(beside, AddRoute(Ns.HOST, "eth1", route), AddRoute(Ns.HOST, "eth2", route))

    assert nexthops(beside, "eth1") == nexthops(beside, "eth2") == [{("", "")}]


@pytest.mark.parametrize(("name", "gateway"), [("eth1", "10.0.0.1"), ("eth2", "10.2.0.1")])
def test_partial_ipv4_multipath_route_becomes_complete(
    beside: Session, name: str, gateway: str
) -> None:
    other = Route("10.1.0.0/16", "10.0.0.9")
    part = Route("10.1.0.0/16", gateway, protocol=4)
    whole = Route(
        "10.1.0.0/16", nexthops=(NextHop("10.0.0.1"), NextHop("10.2.0.1", 3, device="eth2"))
    )

    apply(beside, AddRoute(Ns.HOST, "eth1", other), AddRoute(Ns.HOST, name, part))
    apply(beside, *2 * (AddRoute(Ns.HOST, "eth1", whole),))

    assert nexthops(beside, "eth1") == [
        {("10.0.0.9", "")},
        {("10.0.0.1", ""), ("10.2.0.1", "eth2")},
    ]
    assert nexthops(beside, "eth2") == [{("10.0.0.1", "eth1"), ("10.2.0.1", "")}]


def test_slots_of_pod_routes_are_listed(world: World, pod: NetnsId, session: Session) -> None:
    world.add_link("eth0", pod)
    apply(
        session,
        AddAddress(Ns.POD, "eth0", V4),
        SetUp(Ns.POD, "eth0"),
        AddRoute(Ns.POD, "eth0", Route("0.0.0.0/0", "10.0.0.1")),
        AddRoute(Ns.POD, "eth0", Route("10.7.0.0/16", "10.0.0.1", metric=7, tos=16, table=1000)),
        AddRoute(Ns.POD, "eth0", Route("2001:db8:1::/48")),
    )
    own = session.observe(replace(KEY, name="away"), "eth0").pod
    assert own is not None
    move_in(session)
    apply(session, *(replace(op, ns=Ns.POD, name="net1") for op in UP))
    other = {("10.0.0.0/24", 254, 0, 0): "net1", ("2001:db8::/64", 254, 0, 256): "net1"}
    expected = {
        ("0.0.0.0/0", 254, 0, 0): "eth0",
        ("10.7.0.0/16", 1000, 16, 7): "eth0",
        ("2001:db8:1::/48", 254, 0, 1024): "eth0",
    }

    slots = session.pod_route_keys({own.link.index})
    assert {slot: name for slot, name in slots.items() if slot[0] != "ff00::/8"} == other
    slots = session.pod_route_keys({in_pod(session).link.index})
    assert {slot: name for slot, name in slots.items() if slot[0] != "ff00::/8"} == expected | {
        ("10.0.0.0/24", 254, 0, 0): "eth0"
    }


def test_other_route_in_an_occupied_slot_of_a_pod_is_refused(session: Session) -> None:
    move_in(session)
    apply(session, *(replace(op, ns=Ns.POD, name="net1") for op in UP))
    session.apply(AddRoute(Ns.POD, "net1", Route("10.1.0.0/16", gateway="10.0.0.1")))

    error = refused(session, AddRoute(Ns.POD, "net1", Route("10.1.0.0/16", gateway="10.0.0.2")))

    assert error.code == EEXIST


def test_multipath_route_survives_a_nexthop_that_is_down(world: World, session: Session) -> None:
    world.add_link("eth2")
    second = AddAddress(Ns.HOST, "eth2", Address("10.2.0.5/24"))
    apply(session, *UP, second, SetUp(Ns.HOST, "eth2"))
    nexthops = (NextHop("10.0.0.1"), NextHop("10.2.0.1", device="eth2"))
    session.apply(AddRoute(Ns.HOST, "eth1", Route("10.1.0.0/16", nexthops=nexthops)))

    session.apply(SetDown(Ns.HOST, index(session)))

    assert [route.nexthops for route in on_host(session).routes] == [nexthops]


def test_ipv4_multipath_route_is_deleted_with_a_nexthop(world: World, session: Session) -> None:
    world.add_link("eth2")
    second = AddAddress(Ns.HOST, "eth2", Address("10.2.0.5/24"))
    apply(session, *UP, second, SetUp(Ns.HOST, "eth2"))
    nexthops = (NextHop("10.0.0.1"), NextHop("10.2.0.1", device="eth2"))
    session.apply(AddRoute(Ns.HOST, "eth1", Route("10.1.0.0/16", nexthops=nexthops)))

    move_in(session)

    assert on_host(session, "eth2").routes == ()


def test_ipv6_multipath_route_gets_its_nexthop_back(world: World, session: Session) -> None:
    world.add_link("eth2")
    second = AddAddress(Ns.HOST, "eth2", replace(V6, cidr="2001:db8:2::5/64"))
    apply(session, *UP, second, SetUp(Ns.HOST, "eth2"))
    nexthops = (NextHop("2001:db8::1"), NextHop("2001:db8:2::1", device="eth2"))
    route = Route("2001:db8:1::/48", metric=7, nexthops=nexthops)
    session.apply(AddRoute(Ns.HOST, "eth1", route))
    move_in(session)
    assert [r.gateway for r in on_host(session, "eth2").routes] == ["2001:db8:2::1"]
    apply(session, MoveLink(Ns.POD, in_pod(session).link.index, Ns.HOST, "eth1"), *UP)

    session.apply(AddRoute(Ns.HOST, "eth1", route))

    assert [set(route.nexthops) for route in on_host(session).routes] == [set(nexthops)]
