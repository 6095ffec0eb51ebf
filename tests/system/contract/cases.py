"""Every op on the link eth1 of the host, what comes before it, and what must be true after it."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.model import (
    FOREVER,
    Address,
    DeviceKey,
    LinkState,
    Neighbour,
    NextHop,
    Ns,
    OffloadSizes,
    Route,
    Rule,
    Sysctl,
    XdpMode,
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
    SetDown,
    SetLink,
    SetMaster,
    SetSysctl,
    SetUp,
)
from dranet_nri.plan.settings.programs import DetachXdp

KEY = DeviceKey("", "", "eth1")
NODAD = 0x02  # IFA_F_NODAD
V4 = Address("10.0.0.5/24")
V6 = Address("2001:db8::5/64", flags=NODAD)
MAC = "02:00:00:00:00:77"
# RTAX_ADVMSS, RTAX_HOPLIMIT, RTAX_INITCWND (linux/rtnetlink.h).
METRICS = "".join(
    struct.pack("=HHI", 8, *metric).hex() for metric in ((8, 1200), (10, 9), (11, 20))
)
SECRET = Sysctl("ipv6", "stable_secret", "2001:0db8:0000:0000:0000:0000:0000:0007")
NOARP, PROMISC, ALLMULTI = 0x80, 0x100, 0x200  # IFF_*, linux/if.h
UP = (
    AddAddress(Ns.HOST, "eth1", V4),
    AddAddress(Ns.HOST, "eth1", V6),
    SetUp(Ns.HOST, "eth1"),
)


def on_host(session: Session, name: str = "eth1") -> LinkState:
    """Return the state of a link on the host."""
    state = session.observe(replace(KEY, name=name), "net1").host
    assert state is not None
    return settled(state)


def in_pod(session: Session, name: str = "net1") -> LinkState:
    """Return the state of a link in the pod."""
    state = session.observe(KEY, name).pod
    assert state is not None
    return settled(state)


def settled(state: LinkState) -> LinkState:
    """Return the state without carrier, and with lifetimes in tens of seconds."""
    return replace(
        state,
        link=replace(state.link, carrier=False, operstate="unknown"),
        addresses=tuple(
            replace(a, valid_s=tens(a.valid_s), preferred_s=tens(a.preferred_s))
            for a in state.addresses
        ),
        routes=tuple(replace(r, expires_s=tens(r.expires_s)) for r in state.routes),
    )


def tens(seconds: int) -> int:
    """Return tens of seconds, rounded up, so that a test may take some."""
    return seconds if seconds == FOREVER else -(-seconds // 10)


def index(session: Session, name: str = "eth1") -> int:
    """Return the ifindex of a link on the host."""
    return on_host(session, name).link.index


def apply(session: Session, *ops: Op) -> None:
    """Apply ops in order."""
    for op in ops:
        session.apply(op)


def refused(session: Session, op: Op) -> KernelError:
    """Apply an op that must fail, and return why."""
    with pytest.raises(KernelError) as caught:
        session.apply(op)
    assert caught.value.op == str(op)
    return caught.value


def move_in(session: Session, settings: LinkSettings = LinkSettings()) -> None:
    """Move eth1 into the pod as net1."""
    session.apply(MoveLink(Ns.HOST, index(session), Ns.POD, "net1", settings))


@dataclass(frozen=True)
class Case:
    """An op on eth1 on the host, what comes before it, and what must be true after it."""

    op: Op | Callable[[int], Op]
    holds: Callable[[LinkState], bool]
    before: tuple[Op, ...] = ()


def has_route(route: Route) -> Callable[[LinkState], bool]:
    """Return whether a state has exactly this route."""
    return lambda state: route in state.routes


def case_of_route(route: Route, observed: Route | None = None) -> Case:
    """Return the case of a route that reads back as it was written, or as seen."""
    return Case(AddRoute(Ns.HOST, "eth1", route), has_route(observed or route), UP)


RULE = Rule(4, priority=100, source="10.0.0.0/24", table=1000, protocol=4)
BIG = Rule(4, 102, "10.0.0.5/32", "10.7.0.0/16", 1001, "", "eth1", 5, 255, 16, invert=True)
LEARNED = Neighbour("10.0.0.9", MAC, flags=0x90, protocol=17)  # router, extern_learn
PROXIED = Neighbour("2001:db8::9", "", proxy=True, flags=0x80, protocol=17)
FULL = replace(V4, broadcast="10.0.0.255", metric=50)
RULE_V6 = Rule(6, priority=101, destination="2001:db8:7::/48", table=1000, iif="eth1")
CASES = {
    "set down": Case(lambda i: SetDown(Ns.HOST, i), lambda s: not s.link.up, UP),
    "set up": Case(SetUp(Ns.HOST, "eth1"), lambda s: s.link.up),
    "mtu": Case(SetLink(Ns.HOST, "eth1", LinkSettings(mtu=1400)), lambda s: s.link.mtu == 1400),
    "mac": Case(SetLink(Ns.HOST, "eth1", LinkSettings(mac=MAC)), lambda s: s.link.mac == MAC),
    "queue": Case(SetLink(Ns.HOST, "eth1", LinkSettings(txqlen=77)), lambda s: s.link.txqlen == 77),
    "alias": Case(
        SetLink(Ns.HOST, "eth1", LinkSettings(alias="rail 1")), lambda s: s.link.alias == "rail 1"
    ),
    "no alias": Case(
        SetLink(Ns.HOST, "eth1", LinkSettings(alias="")),
        lambda s: s.link.alias == "",
        (SetLink(Ns.HOST, "eth1", LinkSettings(alias="rail 1")),),
    ),
    "sizes": Case(
        SetLink(Ns.HOST, "eth1", LinkSettings(sizes=OffloadSizes(40000, 30000, 20000, 10000))),
        lambda s: s.link.sizes == OffloadSizes(40000, 30000, 20000, 10000),
    ),
    "flags": Case(
        SetLink(Ns.HOST, "eth1", LinkSettings(flags=PROMISC | NOARP)),
        lambda s: s.link.flags == PROMISC | NOARP and s.link.up,
        UP,
    ),
    "group": Case(SetLink(Ns.HOST, "eth1", LinkSettings(group=7)), lambda s: s.link.group == 7),
    "no XDP": Case(lambda i: DetachXdp(Ns.HOST, i, XdpMode.NATIVE), lambda s: s.link.xdp == ()),
    "altname": Case(
        AddAltname(Ns.HOST, "eth1", "enp7s0"), lambda s: s.link.altnames == ("enp7s0",)
    ),
    "no altname": Case(
        lambda i: DelAltname(Ns.HOST, i, "enp7s0"),
        lambda s: s.link.altnames == ("other",),
        (AddAltname(Ns.HOST, "eth1", "enp7s0"), AddAltname(Ns.HOST, "eth1", "other")),
    ),
    "master": Case(SetMaster(Ns.HOST, "eth1", "br0"), lambda s: s.master_name == "br0"),
    "no master": Case(
        SetMaster(Ns.HOST, "eth1", ""),
        lambda s: s.master_name == "" and s.link.master == 0,
        (SetMaster(Ns.HOST, "eth1", "br0"),),
    ),
    "address": Case(AddAddress(Ns.HOST, "eth1", V4), lambda s: s.addresses == (V4,)),
    "address v6": Case(AddAddress(Ns.HOST, "eth1", V6), lambda s: s.addresses == (V6,)),
    "address in full": Case(
        AddAddress(Ns.HOST, "eth1", FULL),
        lambda s: s.addresses == (FULL,),
    ),
    "address of link scope": Case(
        AddAddress(Ns.HOST, "eth1", Address("169.254.7.7/16", scope=253)),
        lambda s: [(a.cidr, a.scope) for a in s.addresses] == [("169.254.7.7/16", 253)],
    ),
    "address with a peer": Case(
        AddAddress(Ns.HOST, "eth1", Address("10.0.0.5/32", peer="10.9.9.9")),
        lambda s: [(a.cidr, a.peer) for a in s.addresses] == [("10.0.0.5/32", "10.9.9.9")],
    ),
    "address for a while": Case(
        AddAddress(Ns.HOST, "eth1", replace(V6, valid_s=1000, preferred_s=500)),
        lambda s: [(a.valid_s, a.preferred_s) for a in s.addresses] == [(100, 50)],
    ),
    "direct route": case_of_route(Route("10.1.0.0/16", scope=253)),
    "default route": case_of_route(
        Route("0.0.0.0/0", gateway="10.0.0.1", metric=100, mtu=1400, protocol=16)
    ),
    "route of a table": case_of_route(
        Route("10.1.0.0/16", gateway="10.0.0.1", source="10.0.0.5", table=1000, protocol=4)
    ),
    "onlink route": case_of_route(Route("10.1.0.0/16", gateway="192.168.9.1", onlink=True)),
    "multipath route": case_of_route(
        Route("10.1.0.0/16", nexthops=(NextHop("10.0.0.1", weight=3), NextHop("10.0.0.2")))
    ),
    "route with metrics": case_of_route(
        Route("10.1.0.0/16", gateway="10.0.0.1", mtu=1400, metrics=METRICS)
    ),
    "route of a tos": case_of_route(Route("10.1.0.0/16", gateway="10.0.0.1", tos=16)),
    "route v6 with metrics": case_of_route(
        Route("2001:db8:1::/48", gateway="2001:db8::1", metric=7, metrics=METRICS)
    ),
    "default route v6": case_of_route(
        Route("::/0", gateway="2001:db8::1", metric=7, mtu=1400, preference=1)
    ),
    "route v6 of the default metric": case_of_route(
        Route("2001:db8:1::/48", gateway="2001:db8::1"),
        Route("2001:db8:1::/48", gateway="2001:db8::1", metric=1024),
    ),
    "route v6 for a while": case_of_route(
        Route("2001:db8:1::/48", gateway="2001:db8::1", metric=7, protocol=9, expires_s=600),
        Route("2001:db8:1::/48", gateway="2001:db8::1", metric=7, protocol=9, expires_s=60),
    ),
    "multipath route v6": case_of_route(
        Route(
            "2001:db8:1::/48",
            metric=7,
            nexthops=(NextHop("2001:db8::1", weight=3), NextHop("2001:db8::2")),
        )
    ),
    "rule": Case(
        AddRule(Ns.HOST, RULE),
        lambda s: s.rules == (RULE,),
        (*UP, AddRoute(Ns.HOST, "eth1", Route("10.1.0.0/16", scope=253, table=1000))),
    ),
    "rule of a link": Case(AddRule(Ns.HOST, RULE_V6), lambda s: s.rules == (RULE_V6,)),
    "rule in full": Case(
        AddRule(
            Ns.HOST,
            BIG,
        ),
        lambda s: s.rules == (BIG,),
    ),
    "rule before all others": Case(
        AddRule(Ns.HOST, replace(RULE_V6, priority=0)),
        lambda s: s.rules == (replace(RULE_V6, priority=0),),
    ),
    "neighbour": Case(
        AddNeighbour(Ns.HOST, "eth1", Neighbour("10.0.0.9", MAC)),
        lambda s: s.neighbours == (Neighbour("10.0.0.9", MAC),),
        (*UP, AddNeighbour(Ns.HOST, "eth1", Neighbour("10.0.0.9", "02:00:00:00:00:01"))),
    ),
    "neighbour v6": Case(
        AddNeighbour(Ns.HOST, "eth1", Neighbour("2001:db8::9", MAC)),
        lambda s: s.neighbours == (Neighbour("2001:db8::9", MAC),),
        UP,
    ),
    "proxied neighbour": Case(
        AddNeighbour(Ns.HOST, "eth1", Neighbour("10.0.0.9", "", proxy=True)),
        lambda s: s.neighbours == (Neighbour("10.0.0.9", "", proxy=True),),
        UP,
    ),
    "neighbour with flags and protocol": Case(
        AddNeighbour(Ns.HOST, "eth1", LEARNED),
        lambda s: s.neighbours == (LEARNED,),
        (*UP, AddNeighbour(Ns.HOST, "eth1", Neighbour("10.0.0.9", MAC))),
    ),
    "proxied router": Case(
        AddNeighbour(Ns.HOST, "eth1", PROXIED),
        lambda s: s.neighbours == (PROXIED,),
        UP,
    ),
    "sysctl": Case(
        SetSysctl(Ns.HOST, "eth1", Sysctl("ipv4", "arp_ignore", "1")),
        lambda s: Sysctl("ipv4", "arp_ignore", "1") in s.sysctls,
    ),
    "stable secret": Case(
        SetSysctl(Ns.HOST, "eth1", SECRET),
        lambda s: {SECRET, Sysctl("ipv6", "addr_gen_mode", "2")} < {*s.sysctls},
    ),
    "stable secret that is not used": Case(
        SetSysctl(Ns.HOST, "eth1", Sysctl("ipv6", "addr_gen_mode", "1")),
        lambda s: SECRET not in s.sysctls,
        (SetSysctl(Ns.HOST, "eth1", SECRET),),
    ),
}
