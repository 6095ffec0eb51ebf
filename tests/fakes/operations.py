"""Effects of each operation on the namespaces of tests.fakes.world."""

from collections.abc import Mapping
from dataclasses import replace
from errno import EACCES, EADDRNOTAVAIL, EBUSY, EEXIST, EINVAL, EOPNOTSUPP, ESTALE
from ipaddress import ip_interface
from typing import Final, assert_never

from dranet_nri.errors import KernelError
from dranet_nri.model import Address, IpoibState, Link, Ns, Switches
from dranet_nri.plan.lease_ops import DropAddress, LeaseAddress
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddNeighbour,
    AddRoute,
    AddRule,
    DelAltname,
    DelLink,
    LinkSettings,
    MoveLink,
    RenameLink,
    SetDown,
    SetFeatures,
    SetLink,
    SetMaster,
    SetPrivateFlags,
    SetSysctl,
    SetUp,
)
from dranet_nri.plan.settings.driver_ops import SetDriver, SetRss
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx, DetachXdp, DisableTcx
from dranet_nri.plan.settings.rate import LimitRate
from tests.fakes.routing import is_v6
from tests.fakes.world import FakeLink, Namespace

IFF_NOARP: Final = 0x80  # linux/if.h
# drivers/infiniband/ulp/ipoib/ipoib.h: of the first byte of an address, and MTUs.
IPOIB_FLAGS_RC: Final = 0x80
MAX_DATAGRAM, MAX_CONNECTED = 4092, 65520

LinkOp = (
    SetDown
    | RenameLink
    | MoveLink
    | SetLink
    | SetUp
    | AddAltname
    | DelAltname
    | DetachXdp
    | DetachTcx
    | DisableTcx
    | AttachTcx
    | SetMaster
    | AddAddress
    | LeaseAddress
    | DropAddress
    | AddRoute
    | AddRule
    | AddNeighbour
    | SetSysctl
    | SetFeatures
    | SetPrivateFlags
    | SetDriver
    | SetRss
    | LimitRate
    | DelLink
)


def carry(entry: FakeLink, source: Namespace, target: Namespace, name: str) -> None:
    """Move a link: it arrives down and link_only, with its altnames as far as they are free."""
    source.drop(entry)
    taken = target.taken(None)
    indexes = {other.link.index for other in target.links}
    index = entry.link.index
    entry.link = replace(
        entry.link,
        name=name,
        index=index if index not in indexes else max(indexes) + 1,
        altnames=tuple(alt for alt in entry.link.altnames if alt not in taken),
        up=False,
        master=0,
        lower=_seen_lower(entry.link),
    )
    entry.addresses.clear()
    entry.neighbours.clear()
    entry.sysctls.clear()
    entry.rate = 0  # dev_shutdown, net/sched/sch_generic.c
    if (entry.link.flags or 0) & IFF_NOARP:  # ipv6_add_dev, net/ipv6/addrconf.c
        entry.sysctls["ipv6", "accept_dad"] = "-1"
    target.links.append(entry)


def apply(op: LinkOp, spaces: Mapping[Ns, Namespace]) -> None:
    """Do op to the namespaces, or raise the KernelError that the kernel would."""
    what = str(op)
    missing = {op.source, op.target} if isinstance(op, MoveLink) else {op.ns}
    if missing - spaces.keys():
        raise KernelError(what, ESTALE, "the namespace is gone")
    match op:
        case MoveLink():
            _move(op, what, spaces[op.source], spaces[op.target])
        case AddRoute(ns, name, route):
            spaces[ns].add_route(what, name, route, append=ns is Ns.HOST)
        case AddRule(ns, rule):
            spaces[ns].add_rule(what, rule)
        case SetDown(ns, index):
            _set_down(spaces[ns], spaces[ns].at(what, index))
        case DelLink(ns, index):
            for entry in [entry for entry in spaces[ns].links if entry.link.index == index]:
                spaces[ns].drop(entry)
        case RenameLink(ns, index, name):
            _rename(what, spaces[ns], spaces[ns].at(what, index), name)
        case DelAltname(ns, index, altname):
            entry = spaces[ns].at(what, index)
            remaining = tuple(alt for alt in entry.link.altnames if alt != altname)
            entry.link = replace(entry.link, altnames=remaining)
        case DetachXdp(ns, index, mode):
            entry = spaces[ns].at(what, index)
            programs = tuple(
                program for program in entry.link.xdp or () if program.mode is not mode
            )
            entry.link = replace(entry.link, xdp=programs)
        case DetachTcx(ns, name, remaining):
            entry = spaces[ns].named(what, name)
            entry.tcx = [program for program in entry.tcx if program in remaining or program.link]
        case DisableTcx(ns, name):
            spaces[ns].named(what, name).tcx = []
        case AttachTcx(ns, name, program):
            entry = spaces[ns].named(what, name)
            entry.tcx += [program] if program not in entry.tcx else []
        case SetMaster(ns, name, master):
            index = spaces[ns].named(what, master).link.index if master else 0
            entry = spaces[ns].named(what, name)
            entry.link = replace(entry.link, master=index)
        case AddAltname(ns, name, altname):
            _add_altname(what, spaces[ns], spaces[ns].named(what, name), altname)
        case SetFeatures(ns, name) | SetPrivateFlags(ns, name):
            _switch(what, spaces[ns].named(what, name), op)
        case SetDriver(ns, name, settings):
            spaces[ns].named(what, name).set_driver(what, settings)
        case SetRss(ns, name, table):
            spaces[ns].named(what, name).set_rss(what, table)
        case LimitRate(ns, name, rate):
            spaces[ns].named(what, name).rate = rate
        case LeaseAddress(ns, name, address):
            entry = spaces[ns].named(what, name)
            others = [there for there in entry.addresses if there.cidr != address.cidr]
            entry.addresses = [*others, address]
        case DropAddress(ns, name, cidr):
            _drop_address(spaces[ns], spaces[ns].named(what, name), cidr)
        case SetLink() | SetUp() | AddAddress() | AddNeighbour() | SetSysctl():
            _apply_to_link(op, what, spaces[op.ns].named(what, op.name))
        case _:
            assert_never(op)


def _apply_to_link(
    op: SetLink | SetUp | AddAddress | AddNeighbour | SetSysctl,
    what: str,
    entry: FakeLink,
) -> None:
    """Do an operation that touches one link only."""
    match op:
        case SetLink():
            entry.link = _settled(what, entry.link, op.settings)
        case SetUp():
            entry.link = replace(entry.link, up=True)
        case AddAddress():
            _add_address(what, entry, op.address)
        case AddNeighbour():
            new = op.neighbour
            remaining = [
                n
                for n in entry.neighbours
                if (n.destination, n.proxy) != (new.destination, new.proxy)
            ]
            entry.neighbours = [*remaining, new]
        case SetSysctl():
            entry.set_sysctl(what, op.sysctl)
        case _:
            assert_never(op)


def _switch(what: str, entry: FakeLink, op: SetFeatures | SetPrivateFlags) -> None:
    if isinstance(op, SetFeatures):
        _set_features(what, entry, op.features, strict=op.strict)
    else:
        entry.private_flags = _switched(what, entry.private_flags, op.flags)


def _set_features(what: str, entry: FakeLink, requested: Switches, *, strict: bool) -> None:
    entry.features = _switched(what, entry.features, requested)
    active = entry.ethtool().active
    refused = [name for name in requested.on if name not in active]
    if strict and refused:
        raise KernelError(what, EOPNOTSUPP, f"the device does not take {refused[0]} on")


def _switched(what: str, present: Mapping[str, bool], requested: Switches) -> dict[str, bool]:
    given = dict.fromkeys(requested.on, True) | dict.fromkeys(requested.off, False)
    if given.keys() - present.keys():
        raise KernelError(what, EOPNOTSUPP, "bit name not found")
    return {**present, **given}


def _move(op: MoveLink, what: str, source: Namespace, target: Namespace) -> None:
    entry = next((e for e in source.links if e.link.index == op.index), None)
    if entry is None and target.find(op.name) is not None:
        return
    entry = source.at(what, op.index)
    target.require_free(what, op.name)
    try:
        settled = _settled(what, entry.link, op.settings)
    except KernelError:
        carry(entry, source, source, entry.link.name)  # It went and came back, bare.
        raise
    carry(entry, source, target, op.name)
    entry.link = replace(
        settled,
        index=entry.link.index,
        name=op.name,
        altnames=entry.link.altnames,
        up=False,
        master=0,
        lower=_seen_lower(entry.link),
    )


def _seen_lower(moved: Link) -> int:
    """Return what a link that is elsewhere tells of the one below it; ipoib has no get_link_net."""
    return moved.lower if moved.kind == "ipoib" else 0


def _settled(what: str, link: Link, settings: LinkSettings) -> Link:
    """Return the link with the settings, where None leaves things as they are."""
    if settings.ipoib is not None:
        link = _in_mode(what, link, settings.ipoib)
    mtu = settings.mtu or link.mtu
    datagram = link.ipoib is not None and not link.ipoib.connected
    max_mtu = MAX_DATAGRAM if datagram else link.max_mtu
    if mtu < link.min_mtu or (max_mtu and mtu > max_mtu):
        raise KernelError(what, EINVAL, "mtu out of range")
    if settings.mac is not None and int(settings.mac[:2], 16) & 1:
        raise KernelError(what, EADDRNOTAVAIL, "a multicast address is nobody's")
    new, old = settings.sizes, link.sizes
    sizes = replace(
        old,
        gso=old.gso if new.gso is None else new.gso,
        gro=old.gro if new.gro is None else new.gro,
        gso_ipv4=old.gso_ipv4 if new.gso_ipv4 is None else new.gso_ipv4,
        gro_ipv4=old.gro_ipv4 if new.gro_ipv4 is None else new.gro_ipv4,
    )
    return replace(
        link,
        mtu=mtu,
        mac=link.mac if settings.mac is None else settings.mac,
        txqlen=link.txqlen if settings.txqlen is None else settings.txqlen,
        alias=link.alias if settings.alias is None else settings.alias,
        sizes=sizes,
        flags=link.flags if settings.flags is None else settings.flags,
        group=link.group if settings.group is None else settings.group,
        kept=link.kept if settings.kept is None else settings.kept,
    )


def _in_mode(what: str, link: Link, requested: IpoibState) -> Link:
    """Return the IPoIB link in that mode: ipoib_set_mode, drivers/infiniband/ulp/ipoib."""
    if link.ipoib is None:
        raise KernelError(what, EOPNOTSUPP, "the link is no IPoIB link")
    if link.ipoib.connected == requested.connected:
        return replace(link, ipoib=requested)
    if requested.connected and not int(link.mac[:2], 16) & IPOIB_FLAGS_RC:
        raise KernelError(what, EINVAL, "the device knows no connected mode")
    mtu = MAX_CONNECTED if requested.connected else min(2044, link.mtu)
    return replace(link, mtu=mtu, ipoib=requested)


def _drop_address(space: Namespace, entry: FakeLink, cidr: str) -> None:
    """Delete an IPv4 address, and with the last one the link's routes (fib_disable_ip)."""
    entry.addresses = [there for there in entry.addresses if there.cidr != cidr]
    if all(is_v6(there.cidr) for there in entry.addresses):
        space.drop_routes(entry, leaving=False)


def _set_down(space: Namespace, entry: FakeLink) -> None:
    """Take a link down: routes, neighbours and IPv6 addresses go, IPv4 addresses stay."""
    space.drop_routes(entry, leaving=False)
    entry.neighbours = [n for n in entry.neighbours if n.proxy]
    entry.addresses = [a for a in entry.addresses if not is_v6(a.cidr)]
    entry.link = replace(entry.link, up=False)


def _rename(what: str, space: Namespace, entry: FakeLink, name: str) -> None:
    if entry.link.name == name:
        return
    if entry.link.up:
        raise KernelError(what, EBUSY, "the link is up")
    space.require_free(what, name, own=entry)
    entry.link = replace(entry.link, name=name)


def _add_altname(what: str, space: Namespace, entry: FakeLink, altname: str) -> None:
    if altname in entry.link.altnames:
        return
    space.require_free(what, altname)
    entry.link = replace(entry.link, altnames=(*entry.link.altnames, altname))


def _add_address(what: str, entry: FakeLink, requested: Address) -> None:
    off = entry.sysctls.get(("ipv6", "disable_ipv6")) == "1"
    if is_v6(requested.cidr) and off:
        raise KernelError(what, EACCES, "IPv6 is disabled on this device")
    for present in entry.addresses:
        if ip_interface(present.cidr).ip != ip_interface(requested.cidr).ip:
            continue
        if (present.cidr, present.peer) == (requested.cidr, requested.peer):
            return
        if is_v6(requested.cidr):
            raise KernelError(what, EEXIST, f"the link has {present.cidr}")
    entry.addresses.append(requested)
