"""Observations of both kernels: links, rules and namespaces."""

from collections.abc import Collection
from contextlib import closing
from dataclasses import replace
from errno import ESTALE

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.inventory import hazards
from dranet_nri.model import (
    Address,
    DefaultRoute,
    LinkState,
    NetnsId,
    NextHop,
    Ns,
    Route,
    Rule,
    Sysctl,
)
from dranet_nri.plan.identity import DeviceIdentity
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddRoute,
    AddRule,
    LinkSettings,
    MoveLink,
    RenameLink,
    SetLink,
    SetSysctl,
    SetUp,
)
from tests.system.contract.cases import (
    KEY,
    MAC,
    UP,
    V4,
    apply,
    in_pod,
    index,
    move_in,
    on_host,
    refused,
)
from tests.system.contract.worlds import World

NOPREFIXROUTE = 0x200  # IFA_F_NOPREFIXROUTE


# --------------------------------------------------------------------------- what is observed


def test_only_names_of_other_links_are_occupied(world: World, session: Session) -> None:
    world.add_link("eth2")
    apply(session, AddAltname(Ns.HOST, "eth1", "own"), AddAltname(Ns.HOST, "eth2", "enp8s0"))

    observed = session.observe(KEY, "net1")

    assert observed.taken_host_names == {"lo", "eth2", "enp8s0"}
    assert observed.taken_pod_names == {"lo"}


def test_bare_observation_of_the_pod_has_only_the_link(session: Session) -> None:
    apply(session, AddRule(Ns.POD, Rule(4, priority=101, source="10.9.0.0/16", table=2000)))
    move_in(session)
    apply(
        session,
        AddAddress(Ns.POD, "net1", Address("10.1.0.5/24")),
        SetUp(Ns.POD, "net1"),
        AddRoute(Ns.POD, "net1", Route("10.9.0.0/16", gateway="10.1.0.1")),
    )
    whole, link_only = session.observe(KEY, "net1"), session.observe(KEY, "net1", link_only=True)

    assert whole.pod is not None
    assert whole.pod.routes
    assert link_only == replace(whole, pod=LinkState(whole.pod.link), pod_rules=())


def test_rules_of_namespace_and_link_are_observed(session: Session) -> None:
    own = Rule(4, priority=100, iif="eth1", table=1000)
    foreign = Rule(4, priority=101, source="10.9.0.0/16", table=2000)

    apply(session, AddRule(Ns.HOST, own), AddRule(Ns.HOST, foreign), AddRule(Ns.POD, foreign))

    observed = session.observe(KEY, "net1")
    assert observed.host is not None
    assert observed.host.rules == (own,)
    assert {own, foreign} <= set(observed.host_rules)
    assert foreign in observed.pod_rules
    assert own not in observed.pod_rules


def test_multipath_route_names_the_links_of_other_nexthops(world: World, session: Session) -> None:
    world.add_link("eth2")
    second = AddAddress(Ns.HOST, "eth2", Address("10.2.0.5/24"))
    apply(session, *UP, second, SetUp(Ns.HOST, "eth2"))
    nexthops = (NextHop("10.0.0.1"), NextHop("10.2.0.1", weight=2, device="eth2"))

    session.apply(AddRoute(Ns.HOST, "eth1", Route("10.1.0.0/16", nexthops=nexthops)))

    hops = (NextHop("10.0.0.1", device="eth1"), NextHop("10.2.0.1", weight=2))
    assert [route.nexthops for route in on_host(session).routes] == [nexthops]
    assert [route.nexthops for route in on_host(session, "eth2").routes] == [hops]


def test_links_that_a_move_deletes_are_observed(world: World, session: Session) -> None:
    world.add_link("eth2")
    world.add_vxlan("flannel.1", "eth1")
    world.add_vxlan("other.1", "eth2")

    observed = session.observe(KEY, "net1")

    assert "carries flannel.1" in hazards(session.host_facts())[index(session)]
    move_in(session)
    after = session.observe(KEY, "net1")
    assert observed.taken_host_names - after.taken_host_names == {"flannel.1"}
    assert not any("flannel.1" in reason for reason in hazards(session.host_facts()).values())


def test_virtual_link_with_a_temporary_name_is_found(world: World, session: Session) -> None:
    world.add_link("eth2")
    host = on_host(session).link
    identity = DeviceIdentity(host.index, host.kind, frozenset({host.mac}))
    apply(
        session,
        SetLink(Ns.HOST, "eth2", LinkSettings(mac=MAC)),
        RenameLink(Ns.HOST, host.index, "dra9"),
        RenameLink(Ns.HOST, index(session, "eth2"), "eth1"),
    )

    observed = session.observe(KEY, "net1", identity)

    assert observed.host is not None
    assert observed.host.link.name == "dra9"
    assert "eth1" in observed.taken_host_names


def test_default_routes_are_those_of_table_main(session: Session) -> None:
    ways = (
        Route("0.0.0.0/0", "10.0.0.1", metric=50),
        Route("0.0.0.0/0", "10.0.0.1", table=1000),
        Route("::/0", "2001:db8::1", metric=70),
        Route("10.7.0.0/16", "10.0.0.1"),
    )
    apply(session, *UP, *(AddRoute(Ns.HOST, "eth1", route) for route in ways))

    own = index(session)
    assert {*session.host_facts().default_routes} == {
        DefaultRoute(4, 50, (own,)),
        DefaultRoute(6, 70, (own,)),
    }


def test_link_of_a_routing_daemons_routes_is_the_nodes(session: Session) -> None:
    by_hand, learnt = Route("10.7.0.0/16", "10.0.0.1"), Route("10.8.0.0/16", "10.0.0.1")
    apply(session, *UP, AddRoute(Ns.HOST, "eth1", by_hand))
    assert index(session) not in hazards(session.host_facts())

    apply(session, AddRoute(Ns.HOST, "eth1", replace(learnt, protocol=12)))

    assert "(protocol bird)" in hazards(session.host_facts())[index(session)]


def test_connected_route_of_an_address_is_not_restored(session: Session) -> None:
    apply(session, *UP)

    assert on_host(session).routes == ()


def test_manually_added_connected_route_is_restored(session: Session) -> None:
    # NetworkManager adds addresses without their route, and the route with its own metric.
    route = Route("10.0.0.0/24", source="10.0.0.5", scope=253, metric=100, protocol=2)
    apply(
        session,
        AddAddress(Ns.HOST, "eth1", replace(V4, flags=NOPREFIXROUTE)),
        SetUp(Ns.HOST, "eth1"),
        AddRoute(Ns.HOST, "eth1", route),
    )

    assert on_host(session).routes == (route,)


def by_key(sysctls: Collection[Sysctl]) -> dict[tuple[str, str], str]:
    """Return family and key → value."""
    return {(sysctl.family, sysctl.key): sysctl.value for sysctl in sysctls}


def test_observed_host_sysctls_are_those_reset_by_a_move(session: Session) -> None:
    defaults = session.default_sysctls()
    assert by_key(on_host(session).sysctls) == defaults
    sysctl = Sysctl("ipv4", "rp_filter", "2")
    assert defaults["ipv4", "rp_filter"] != sysctl.value

    session.apply(SetSysctl(Ns.HOST, "eth1", sysctl))

    changed = by_key(on_host(session).sysctls).items() - defaults.items()
    assert changed == {(("ipv4", "rp_filter"), "2")}
    assert session.default_sysctls() == defaults


def test_observed_pod_sysctls_are_those_of_claims(session: Session) -> None:
    move_in(session)
    sysctl = {
        Sysctl("ipv4", "arp_announce", "2"),
        Sysctl("ipv4", "arp_ignore", "1"),
        Sysctl("ipv4", "forwarding", "1"),
        Sysctl("ipv6", "accept_ra", "2"),
        Sysctl("ipv6", "accept_ra_pinfo", "0"),
        Sysctl("ipv6", "addr_gen_mode", "1"),
        Sysctl("ipv6", "autoconf", "0"),
        Sysctl("ipv6", "dad_transmits", "0"),
        Sysctl("ipv6", "disable_ipv6", "0"),
        Sysctl("ipv6", "forwarding", "1"),
        Sysctl("ipv6", "ra_defrtr_metric", "2048"),
        Sysctl("ipv6", "router_solicitation_delay", "2"),
        Sysctl("ipv6", "router_solicitation_interval", "5"),
        Sysctl("ipv6", "router_solicitation_max_interval", "60"),
        Sysctl("ipv6", "router_solicitations", "7"),
    }
    apply(session, *(SetSysctl(Ns.POD, "net1", setting) for setting in sysctl))
    session.apply(SetSysctl(Ns.POD, "net1", Sysctl("ipv4", "rp_filter", "2")))

    assert set(in_pod(session).sysctls) == sysctl


def test_missing_device_is_observed_as_absent(session: Session) -> None:
    observed = session.observe(replace(KEY, name="gone"), "")

    assert (observed.host, observed.pod) == (None, None)


def test_link_renamed_by_the_pod_is_found_by_its_index(
    world: World, session: Session, pod: NetnsId
) -> None:
    world.add_link("eth0", pod)
    host = on_host(session).link
    move_in(session)
    identity = DeviceIdentity(
        host.index, host.kind, frozenset({host.mac}), session.pod_link("net1").index
    )
    session.apply(SetLink(Ns.POD, "net1", LinkSettings(mac=MAC)))
    session.apply(RenameLink(Ns.POD, session.pod_link("net1").index, "mine"))

    observed = session.observe(KEY, "net1", identity)

    assert observed.pod is not None
    assert (observed.pod.link.name, observed.pod.link.mac) == ("mine", MAC)
    assert observed.ambiguous == ()


def test_link_without_a_recorded_index_is_found_in_the_pod(
    world: World, session: Session, pod: NetnsId
) -> None:
    host = on_host(session).link
    move_in(session)
    identity = DeviceIdentity(host.index, host.kind, frozenset({host.mac}))
    session.apply(SetLink(Ns.POD, "net1", LinkSettings(mac=MAC)))
    session.apply(RenameLink(Ns.POD, session.pod_link("net1").index, "mine"))

    observed = session.observe(KEY, "net1", identity)

    assert (observed.host, observed.pod) == (None, None)
    assert observed.ambiguous == ("mine (in the pod)",)


def test_pod_link_has_its_current_state(session: Session) -> None:
    move_in(session)
    session.apply(SetLink(Ns.POD, "net1", LinkSettings(mtu=1400, mac=MAC)))

    link = session.pod_link("net1")

    assert (link.name, link.mtu, link.mac) == ("net1", 1400, MAC)


def test_link_outside_the_pod_is_not_found(session: Session) -> None:
    with pytest.raises(KernelError) as caught:
        session.pod_link("eth1")

    assert caught.value.already_gone


# --------------------------------------------------------------------------- namespaces


def test_namespace_has_one_identity_and_is_not_the_host(world: World, pod: NetnsId) -> None:
    host = world.kernel.identify(world.host_path())

    assert host is not None
    assert world.kernel.identify(pod.path) == pod
    assert world.kernel.is_host(host)
    assert not world.kernel.is_host(pod)


def test_missing_namespace_has_no_identity(world: World) -> None:
    assert world.kernel.identify("/run/netns/no-such-namespace") is None


def test_missing_namespace_is_not_held(world: World) -> None:
    netns = world.add_netns()
    world.unlink(netns)

    assert world.kernel.identify(netns.path) is None
    assert not world.kernel.hold(netns)


def test_other_namespace_at_the_same_path_is_not_held(world: World) -> None:
    netns = world.add_netns()
    world.replace(netns)

    assert world.kernel.identify(netns.path) != netns
    assert not world.kernel.hold(netns)


def test_new_namespace_with_a_reused_inode_is_distinguished(world: World, pod: NetnsId) -> None:
    ended = replace(pod, path=f"{pod.path}-ended")
    assert world.kernel.hold(pod)

    assert not world.kernel.hold(ended)
    world.kernel.release(ended)

    with closing(world.kernel.session(pod)):
        pass
    with pytest.raises(KernelError) as caught:
        world.kernel.session(ended)
    assert caught.value.code == ESTALE


def test_hold_and_release_are_idempotent(world: World, pod: NetnsId) -> None:
    assert world.kernel.hold(pod)

    world.kernel.release(pod)
    world.kernel.release(pod)

    with pytest.raises(KernelError) as caught:
        world.kernel.session(pod)
    assert caught.value.code == ESTALE


def test_link_returns_from_a_held_namespace_without_a_path(
    world: World, session: Session, pod: NetnsId
) -> None:
    move_in(session)
    world.unlink(pod)
    assert world.kernel.hold(pod)

    with closing(world.kernel.session(pod)) as again:
        again.apply(MoveLink(Ns.POD, in_pod(again).link.index, Ns.HOST, "eth1"))

    assert on_host(session).link.name == "eth1"


def test_virtual_link_is_deleted_with_its_namespace(world: World, pod: NetnsId) -> None:
    with closing(world.kernel.session(pod)) as session:
        move_in(session)

    world.unlink(pod)
    world.kernel.release(pod)

    with closing(world.kernel.session(None)) as session:
        assert session.observe(KEY, "net1").host is None


def test_session_without_a_pod_has_only_the_host(world: World, pod: NetnsId) -> None:
    with closing(world.kernel.session(None)) as session:
        assert on_host(session).link.name == "eth1"
        assert refused(session, SetUp(Ns.POD, "eth1")).code == ESTALE


def test_close_of_a_session_is_idempotent(world: World, pod: NetnsId) -> None:
    session = world.kernel.session(pod)

    session.close()
    session.close()
