"""The contract of the Kernel protocol, tested on the kernel in memory and on the real kernel.

Both kernels run the same tests. What only hardware shows (IFLA_PARENT_DEV_NAME, the return of a
physical link whose namespace died) is tested in the node in a box.
"""

from dataclasses import replace
from errno import (
    EADDRNOTAVAIL,
    EEXIST,
    EHOSTUNREACH,
    EINVAL,
    ENETDOWN,
    ENETUNREACH,
    ENODEV,
    ENOENT,
)

import pytest

from dranet_nri.model import (
    Address,
    Neighbour,
    NetnsId,
    NextHop,
    Ns,
    OffloadSizes,
    Route,
    Rule,
    Sysctl,
)
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddNeighbour,
    AddRoute,
    AddRule,
    DelAltname,
    LinkSettings,
    MoveLink,
    Op,
    RenameLink,
    SetDown,
    SetLink,
    SetMaster,
    SetSysctl,
    SetUp,
)
from tests.fakes.world import SET_BY_CLAIMS
from tests.system.contract.cases import (
    CASES,
    KEY,
    MAC,
    NOARP,
    PROMISC,
    UP,
    V4,
    V6,
    Case,
    apply,
    in_pod,
    index,
    move_in,
    on_host,
    refused,
)
from tests.system.contract.worlds import World

# --------------------------------------------------------------------------- twice is once


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_operations_are_idempotent(world: World, session: Session, case: Case) -> None:
    world.add_bridge("br0")
    apply(session, *case.before)
    op = case.op if isinstance(case.op, Op) else case.op(index(session))

    session.apply(op)
    once = on_host(session)
    session.apply(op)

    assert case.holds(once)
    assert on_host(session) == once


def test_rename_is_idempotent(session: Session) -> None:
    rename = RenameLink(Ns.HOST, index(session), "rail0")

    apply(session, rename, rename)

    assert on_host(session, "rail0").link.name == "rail0"
    assert session.observe(KEY, "").host is None


def test_move_is_idempotent(session: Session) -> None:
    move = MoveLink(Ns.HOST, index(session), Ns.POD, "net1", LinkSettings(mtu=1400))

    apply(session, move, move)

    assert in_pod(session).link.mtu == 1400


# --------------------------------------------------------------------------- moves


def test_move_renames_configures_and_leaves_the_link_down(session: Session) -> None:
    apply(session, *UP)
    sizes = OffloadSizes(40000, 30000, 20000, 10000)
    settings = LinkSettings(1400, MAC, 77, "rail 1", sizes, flags=PROMISC | NOARP, group=7)

    move_in(session, settings)

    observed = session.observe(KEY, "net1")
    link = in_pod(session).link
    assert observed.host is None
    assert (link.name, link.up, link.mtu, link.mac) == ("net1", False, 1400, MAC)
    assert (link.txqlen, link.alias, link.sizes) == (77, "rail 1", sizes)
    assert (link.flags, link.group) == (PROMISC | NOARP, 7)


def test_move_keeps_only_altnames_and_settings(session: Session) -> None:
    apply(
        session,
        *UP,
        SetLink(Ns.HOST, "eth1", LinkSettings(mtu=1400, mac=MAC, alias="rail 1")),
        AddAltname(Ns.HOST, "eth1", "enp7s0"),
        AddRoute(Ns.HOST, "eth1", Route("0.0.0.0/0", gateway="10.0.0.1")),
        AddNeighbour(Ns.HOST, "eth1", Neighbour("10.0.0.9", MAC)),
        SetSysctl(Ns.HOST, "eth1", Sysctl("ipv4", "arp_ignore", "1")),
    )

    move_in(session)

    state = in_pod(session)
    assert (state.link.mtu, state.link.mac, state.link.alias) == (1400, MAC, "rail 1")
    assert state.link.altnames == ("enp7s0",)
    assert (state.addresses, state.routes, state.neighbours) == ((), (), ())
    defaults = session.default_sysctls()
    assert set(state.sysctls) == {Sysctl(*key, defaults[key]) for key in SET_BY_CLAIMS}


def test_returned_link_can_be_restored_completely(session: Session) -> None:
    apply(
        session,
        AddAddress(Ns.HOST, "eth1", V4),
        AddAddress(Ns.HOST, "eth1", Address("10.0.0.6/24")),
        AddAddress(Ns.HOST, "eth1", V6),
        AddAddress(Ns.HOST, "eth1", replace(V6, cidr="2001:db8::6/64")),
        SetUp(Ns.HOST, "eth1"),
        AddRoute(Ns.HOST, "eth1", Route("0.0.0.0/0", gateway="10.0.0.1", metric=100)),
        AddRoute(Ns.HOST, "eth1", Route("10.1.0.0/16", scope=253, table=1000)),
        AddRule(Ns.HOST, Rule(4, priority=100, source="10.0.0.0/24", table=1000)),
        AddNeighbour(Ns.HOST, "eth1", Neighbour("10.0.0.9", MAC)),
        SetSysctl(Ns.HOST, "eth1", Sysctl("ipv4", "arp_ignore", "1")),
    )
    before = on_host(session)
    move_in(session, LinkSettings(mtu=1400))
    there = in_pod(session).link.index

    apply(
        session,
        RenameLink(Ns.POD, there, "eth1"),
        MoveLink(Ns.POD, there, Ns.HOST, "eth1", LinkSettings(mtu=1500)),
        *(AddAddress(Ns.HOST, "eth1", address) for address in before.addresses),
        SetUp(Ns.HOST, "eth1"),
        *(AddRoute(Ns.HOST, "eth1", route) for route in before.routes),
        *(AddRule(Ns.HOST, rule) for rule in before.rules),
        *(AddNeighbour(Ns.HOST, "eth1", neighbour) for neighbour in before.neighbours),
        *(SetSysctl(Ns.HOST, "eth1", sysctl) for sysctl in before.sysctls),
    )

    after = on_host(session)
    assert len(before.addresses) == 4
    assert replace(after, link=replace(after.link, index=before.link.index)) == before


@pytest.mark.parametrize("taken", ["net1", "enp7s0"])
def test_move_to_an_occupied_name_is_refused(
    world: World, session: Session, pod: NetnsId, taken: str
) -> None:
    world.add_link("net1", pod)
    session.apply(AddAltname(Ns.POD, "net1", "enp7s0"))

    error = refused(session, MoveLink(Ns.HOST, index(session), Ns.POD, taken))

    assert error.code == EEXIST
    assert taken in error.detail
    assert on_host(session).link.name == "eth1"


def test_failed_move_leaves_the_link_in_its_namespace(session: Session) -> None:
    session.apply(AddAddress(Ns.HOST, "eth1", V4))
    too_much = LinkSettings(mtu=10_000_000)

    error = refused(session, MoveLink(Ns.HOST, index(session), Ns.POD, "net1", too_much))

    assert error.code == EINVAL
    assert on_host(session).link.name == "eth1"
    assert on_host(session).addresses == ()  # It went and came back.
    assert session.observe(KEY, "eth1").pod is None


def test_refused_mac_fails_the_move(
    session: Session,
) -> None:
    multicast = LinkSettings(mac="01:00:5e:00:00:01")

    error = refused(session, MoveLink(Ns.HOST, index(session), Ns.POD, "net1", multicast))

    assert error.code == EADDRNOTAVAIL
    assert on_host(session).link.name == "eth1"


def test_move_of_a_missing_link_is_an_error(session: Session) -> None:
    assert refused(session, MoveLink(Ns.HOST, 4711, Ns.POD, "net1")).code == ENODEV


def test_link_with_an_occupied_index_can_be_moved(
    world: World, session: Session, pod: NetnsId
) -> None:
    for number in range(3):
        world.add_link(f"other{number}", pod)

    move_in(session)

    assert in_pod(session).link.name == "net1"


# --------------------------------------------------------------------------- what links lose


def test_link_that_is_set_down_keeps_only_ipv4_addresses(session: Session) -> None:
    apply(
        session,
        *UP,
        AddRoute(Ns.HOST, "eth1", Route("0.0.0.0/0", gateway="10.0.0.1")),
        AddRoute(Ns.HOST, "eth1", Route("2001:db8:1::/48", gateway="2001:db8::1")),
        AddNeighbour(Ns.HOST, "eth1", Neighbour("10.0.0.9", MAC)),
    )

    session.apply(SetDown(Ns.HOST, index(session)))

    state = on_host(session)
    assert (state.addresses, state.routes, state.neighbours) == ((V4,), (), ())


# --------------------------------------------------------------------------- what is refused


def test_ipv6_address_with_another_length_is_refused(session: Session) -> None:
    session.apply(AddAddress(Ns.HOST, "eth1", V6))

    error = refused(session, AddAddress(Ns.HOST, "eth1", Address("2001:db8::5/128")))

    assert error.code == EEXIST


@pytest.mark.parametrize(
    ("route", "code"),
    [
        pytest.param(Route("10.1.0.0/16", gateway="172.31.0.1"), ENETUNREACH, id="v4"),
        pytest.param(Route("2001:db8:1::/48", gateway="2001:db8:9::1"), EHOSTUNREACH, id="v6"),
        pytest.param(Route("10.1.0.0/16", source="172.31.0.1"), EINVAL, id="source"),
    ],
)
def test_unreachable_route_is_refused(session: Session, route: Route, code: int) -> None:
    apply(session, MoveLink(Ns.HOST, index(session), Ns.POD, "net1", LinkSettings()))
    apply(session, *(replace(op, ns=Ns.POD, name="net1") for op in UP))

    assert refused(session, AddRoute(Ns.POD, "net1", route)).code == code


@pytest.mark.parametrize(
    "route",
    [
        Route("10.1.0.0/16", gateway="172.31.0.1"),
        Route("10.1.0.0/16", table=77, nexthops=(NextHop("172.31.0.1"), NextHop("10.0.0.1"))),
        Route("2001:db8:1::/48", gateway="2001:db8:9::1", metric=1024),
    ],
    ids=str,
)
def test_host_route_with_an_unreachable_gateway_is_restored(session: Session, route: Route) -> None:
    apply(session, *UP, AddRoute(Ns.HOST, "eth1", route))

    assert on_host(session).routes == (route,)


def test_route_through_a_link_that_is_down_is_refused(session: Session) -> None:
    error = refused(session, AddRoute(Ns.HOST, "eth1", Route("10.1.0.0/16", scope=253)))

    assert error.code == ENETDOWN
    assert error.detail


@pytest.mark.parametrize(
    "op",
    [
        SetUp(Ns.HOST, "gone"),
        AddAddress(Ns.POD, "gone", V4),
        SetMaster(Ns.HOST, "eth1", "gone"),
        SetDown(Ns.HOST, 4711),
        DelAltname(Ns.HOST, 4711, "enp7s0"),
        RenameLink(Ns.POD, 4711, "eth9"),
    ],
    ids=str,
)
def test_operation_on_a_missing_link_reports_it_gone(session: Session, op: Op) -> None:
    assert refused(session, op).already_gone


@pytest.mark.parametrize("taken", ["eth2", "enp8s0"])
def test_altname_of_another_link_is_refused(world: World, session: Session, taken: str) -> None:
    world.add_link("eth2")
    session.apply(AddAltname(Ns.HOST, "eth2", "enp8s0"))

    assert refused(session, AddAltname(Ns.HOST, "eth1", taken)).code == EEXIST


def test_alias_and_label_that_are_not_utf8_are_set_and_read(session: Session) -> None:
    labelled = replace(V4, label="rack\udcff")
    alias = LinkSettings(alias="port\udcff \x1b[2J")

    apply(session, SetLink(Ns.HOST, "eth1", alias), AddAddress(Ns.HOST, "eth1", labelled))

    state = on_host(session)
    assert state.link.alias == "port\udcff \x1b[2J"
    assert labelled in state.addresses


def test_altname_that_is_not_utf8_is_read_and_deleted(session: Session) -> None:
    session.apply(AddAltname(Ns.HOST, "eth1", "rail\udcff"))
    assert on_host(session).link.altnames == ("rail\udcff",)

    session.apply(DelAltname(Ns.HOST, index(session), "rail\udcff"))

    assert on_host(session).link.altnames == ()


def test_altname_of_another_link_is_not_deleted(world: World, session: Session) -> None:
    world.add_link("eth2")
    session.apply(AddAltname(Ns.HOST, "eth2", "enp8s0"))

    session.apply(DelAltname(Ns.HOST, index(session), "enp8s0"))

    assert on_host(session, "eth2").link.altnames == ("enp8s0",)


def test_missing_sysctl_is_refused(session: Session) -> None:
    error = refused(session, SetSysctl(Ns.HOST, "eth1", Sysctl("ipv4", "no_such", "1")))

    assert error.code == ENOENT
    assert error.detail
