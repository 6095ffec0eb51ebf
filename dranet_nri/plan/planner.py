"""From wanted and observed to a plan. Attach, detach, repair and undo are this one function.

Rules:
1. A plan of a state that is as wanted is empty; so is the plan after a plan was applied.
2. What appeared meanwhile is never deleted: a plan only moves, sets and adds.
3. The way into a pod is one message (move, rename, MTU, MAC, offloads). The way out renames
   inside the pod first, because a rename in the moving message shows udev the pod's name.
4. Names in use are never fought over: into a pod a taken name is an error, on the way home the
   device gets a free name, and its own as soon as that is free again.
"""

from dataclasses import dataclass, replace
from ipaddress import ip_interface
from typing import Final

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    FOREVER,
    MAX_IFNAME,
    Address,
    Link,
    LinkState,
    Ns,
    Observed,
    OffloadSizes,
    Route,
    Rule,
)
from dranet_nri.plan.network import PodNetwork, direct_first
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
    Plan,
    RenameLink,
    SetDown,
    SetLink,
    SetMaster,
    SetSysctl,
    SetUp,
)

IFAPROT_KERNEL_LL: Final = 3  # a link-local address that the kernel made, linux/if_addr.h


@dataclass(frozen=True, slots=True)
class InPod:
    """The device shall be in the pod, configured so; `host` is its state before we touched it."""

    network: PodNetwork
    host: LinkState


@dataclass(frozen=True, slots=True)
class AtHome:
    """The device shall be on the host as the snapshot says; elapsed_s have passed since."""

    snapshot: LinkState
    elapsed_s: int = 0


Wanted = InPod | AtHome


def plan(wanted: Wanted, observed: Observed) -> Plan:
    """Say what must happen for one device, without doing any of it.

    Returns:
        The operations in order; empty when nothing is left to do, or when the device is in
        neither namespace and has to come back by itself.

    Raises:
        RefusedError: the wanted state cannot be had: a name is taken, an MTU out of range, or
            the device is not there.
    """
    if isinstance(wanted, InPod):
        return _into_pod(wanted, observed)
    return _home(wanted, observed)


def is_home(wanted: AtHome, observed: Observed) -> bool:
    """Whether the device is on the host and nothing is left to restore."""
    return observed.host is not None and not plan(wanted, observed)


# --------------------------------------------------------------------------- into the pod


def _into_pod(wanted: InPod, observed: Observed) -> Plan:
    network = wanted.network
    if observed.pod is not None:
        rename = _rename_in_pod(network, observed.pod.link, observed.taken_pod_names)
        now = _taken_down(observed.pod) if rename else observed.pod
        return *rename, *_configure_pod(network, now, observed.pod_rules)
    if observed.host is None:
        raise RefusedError(
            f"device {wanted.host.link.name} is neither on the host nor in the pod: its driver was"
            " unbound, or another namespace holds it; see dranet-nri status"
        )
    _check(network, observed.host.link, observed)
    link = observed.host.link
    moved = LinkState(link=replace(link, name=network.name, up=False))
    return (
        *_leave_master(observed.host),
        *((SetDown(Ns.HOST, link.index),) if link.up else ()),
        *_drop_altnames(Ns.HOST, link, network.name, observed.taken_pod_names),
        MoveLink(Ns.HOST, link.index, Ns.POD, network.name, network.settings),
        *_configure_pod(replace(network, settings=LinkSettings()), moved, observed.pod_rules),
    )


def _check(network: PodNetwork, link: Link, observed: Observed) -> None:
    if network.name in observed.taken_pod_names:
        raise RefusedError(
            f"interface.name {network.name!r} for device {link.name} is taken in the pod;"
            " set interface.name to another one"
        )
    mtu = network.settings.mtu
    if mtu is not None and link.max_mtu and mtu > link.max_mtu:
        raise RefusedError(
            f"interface.mtu {mtu} is above what device {link.name} can do;"
            f" its maximum is {link.max_mtu}"
        )
    if mtu is not None and mtu < link.min_mtu:
        raise RefusedError(
            f"interface.mtu {mtu} is below what device {link.name} can do;"
            f" its minimum is {link.min_mtu}"
        )


def _leave_master(host: LinkState) -> Plan:
    return (SetMaster(Ns.HOST, host.link.name, ""),) if host.master_name else ()


def _drop_altnames(ns: Ns, link: Link, name: str, taken: frozenset[str]) -> Plan:
    """Drop altnames that would keep the link from being called name, or from where taken are.

    The kernel counts a link's own altnames among the names in use. Those of the host are given
    back at home.
    """
    return tuple(
        DelAltname(ns, link.index, altname)
        for altname in link.altnames
        if altname == name or altname in taken
    )


def _taken_down(state: LinkState) -> LinkState:
    """Return what a link still has after it went down for a moment; the kernel flushes the rest."""
    return replace(
        state,
        link=replace(state.link, up=False),
        addresses=tuple(each for each in state.addresses if ":" not in each.cidr),
        routes=(),
        neighbours=(),
    )


def _rename_in_pod(network: PodNetwork, link: Link, taken: frozenset[str]) -> Plan:
    """Give a device that is in the pod already the name it shall have there."""
    if link.name == network.name:
        return ()
    if network.name in taken:
        raise RefusedError(
            f"interface.name {network.name!r} is taken in the pod; set interface.name to another"
        )
    return (
        *_drop_altnames(Ns.POD, link, network.name, frozenset()),
        SetDown(Ns.POD, link.index),
        RenameLink(Ns.POD, link.index, network.name),
    )


def _configure_pod(network: PodNetwork, now: LinkState, rules: tuple[Rule, ...]) -> Plan:
    name = network.name
    settings = difference(network.settings, now.link)
    ops: list[Op] = []
    if settings != LinkSettings():
        ops.append(SetLink(Ns.POD, name, settings))
    ops += (SetSysctl(Ns.POD, name, each) for each in network.sysctls if each not in now.sysctls)
    ops += (AddAddress(Ns.POD, name, each) for each in _missing(network.addresses, now.addresses))
    if not now.link.up:
        ops.append(SetUp(Ns.POD, name))
    ops += (AddRoute(Ns.POD, name, each) for each in _missing_routes(network.routes, now.routes))
    ops += (AddRule(Ns.POD, each) for each in network.rules if each not in rules)
    ops += (
        AddNeighbour(Ns.POD, name, each)
        for each in network.neighbours
        if each not in now.neighbours
    )
    return tuple(ops)


# --------------------------------------------------------------------------- home


def _home(wanted: AtHome, observed: Observed) -> Plan:
    if observed.host is not None:
        return _restore(wanted, observed.host, observed)
    if observed.pod is None:
        return ()
    link = observed.pod.link
    name = home_name(wanted.snapshot.link.name, link, observed.taken_host_names)
    dropped = _drop_altnames(Ns.POD, link, name, observed.taken_host_names)
    clashing = {name, *observed.taken_host_names}
    kept = tuple(each for each in link.altnames if each not in clashing)
    moved = replace(link, name=name, up=False, altnames=kept)
    settings = difference(settings_of(wanted.snapshot.link), link)
    rename: Plan = ()
    if link.name != name and name not in observed.taken_pod_names:
        rename = (RenameLink(Ns.POD, link.index, name),)
    after = _restore(wanted, LinkState(link=_with(moved, settings)), observed)
    return (
        *dropped,
        *((SetDown(Ns.POD, link.index),) if link.up else ()),
        *rename,
        MoveLink(Ns.POD, link.index, Ns.HOST, name, settings),
        *after,
    )


def home_name(wanted: str, link: Link, taken: frozenset[str]) -> str:
    """Return the device's own name, or a free one that is stable while the device is away."""
    if wanted not in taken:
        return wanted
    for suffix in ("", *(str(number) for number in range(10))):
        name = f"dra{link.index}{suffix}"[:MAX_IFNAME]
        if name == link.name or name not in taken:
            return name
    raise RefusedError(f"no free name on the host for device {wanted}; rename what took it")


def _with(link: Link, settings: LinkSettings) -> Link:
    """Return link as it is after settings were applied."""
    return replace(
        link,
        mtu=link.mtu if settings.mtu is None else settings.mtu,
        mac=link.mac if settings.mac is None else settings.mac,
        txqlen=link.txqlen if settings.txqlen is None else settings.txqlen,
        alias=link.alias if settings.alias is None else settings.alias,
        sizes=_merged(settings.sizes, link.sizes),
    )


def _merged(given: OffloadSizes, now: OffloadSizes) -> OffloadSizes:
    return OffloadSizes(
        gso=now.gso if given.gso is None else given.gso,
        gro=now.gro if given.gro is None else given.gro,
        gso_ipv4=now.gso_ipv4 if given.gso_ipv4 is None else given.gso_ipv4,
        gro_ipv4=now.gro_ipv4 if given.gro_ipv4 is None else given.gro_ipv4,
    )


def _restore(wanted: AtHome, now: LinkState, observed: Observed) -> Plan:
    before = _alive(wanted.snapshot, wanted.elapsed_s)
    taken = observed.taken_host_names
    ops: list[Op] = []
    name = now.link.name
    if name != before.link.name and before.link.name not in taken:
        name = before.link.name
        ops += _rename_home(now.link, name)
        if now.link.up:
            # What appeared meanwhile goes down with the link, so it is given back as well.
            before, now = _with_all_of(before, now), _taken_down(now)
    settings = difference(settings_of(before.link), now.link)
    if settings != LinkSettings():
        ops.append(SetLink(Ns.HOST, name, settings))
    present = {*now.link.altnames, *taken}
    ops += (AddAltname(Ns.HOST, name, each) for each in before.link.altnames if each not in present)
    if before.master_name in taken and before.master_name != now.master_name:
        ops.append(SetMaster(Ns.HOST, name, before.master_name))
    ops += (SetSysctl(Ns.HOST, name, each) for each in before.sysctls if each not in now.sysctls)
    ops += (AddAddress(Ns.HOST, name, each) for each in _missing(before.addresses, now.addresses))
    if before.link.up:
        ops += (SetUp(Ns.HOST, name),) if not now.link.up else ()
        routes = _missing_routes(before.routes, now.routes)
        ops += (AddRoute(Ns.HOST, name, each) for each in direct_first(routes))
    ops += (AddRule(Ns.HOST, each) for each in before.rules if each not in observed.host_rules)
    ops += (
        AddNeighbour(Ns.HOST, name, each)
        for each in before.neighbours
        if each not in now.neighbours
    )
    return tuple(ops)


def _rename_home(link: Link, name: str) -> Plan:
    return (
        *_drop_altnames(Ns.HOST, link, name, frozenset()),
        *((SetDown(Ns.HOST, link.index),) if link.up else ()),
        RenameLink(Ns.HOST, link.index, name),
    )


def _alive(state: LinkState, elapsed_s: int) -> LinkState:
    """Return what is to be given back: what is permanent, and the rest of a lifetime.

    A link-local address that the kernel made is made again by the kernel.
    """
    return replace(
        state,
        addresses=tuple(
            replace(
                each,
                valid_s=_remaining(each.valid_s, elapsed_s),
                preferred_s=_remaining(each.preferred_s, elapsed_s),
            )
            for each in state.addresses
            if each.proto != IFAPROT_KERNEL_LL and each.valid_s > elapsed_s
        ),
        routes=tuple(
            replace(each, expires_s=max(0, each.expires_s - elapsed_s))
            for each in state.routes
            if not each.expires_s or each.expires_s > elapsed_s
        ),
    )


def _remaining(lifetime_s: int, elapsed_s: int) -> int:
    return FOREVER if lifetime_s == FOREVER else max(0, lifetime_s - elapsed_s)


def _with_all_of(before: LinkState, now: LinkState) -> LinkState:
    """Return before with what else the link has now."""
    extra = _alive(now, 0)
    return replace(
        before,
        addresses=(*before.addresses, *_missing(extra.addresses, before.addresses)),
        routes=(*before.routes, *_missing_routes(extra.routes, before.routes)),
        neighbours=tuple(dict.fromkeys((*before.neighbours, *now.neighbours))),
    )


# --------------------------------------------------------------------------- differences


def settings_of(link: Link) -> LinkSettings:
    """Return what a plan would set to make a link like this one."""
    return LinkSettings(
        mtu=link.mtu,
        mac=link.mac or None,
        txqlen=link.txqlen,
        alias=link.alias,
        sizes=link.sizes,
    )


def difference(wanted: LinkSettings, link: Link) -> LinkSettings:
    """Return the part of wanted that link does not have yet."""
    return LinkSettings(
        mtu=_unless_equal(wanted.mtu, link.mtu),
        mac=None if wanted.mac is None or wanted.mac == link.mac else wanted.mac,
        txqlen=_unless_equal(wanted.txqlen, link.txqlen),
        alias=None if wanted.alias is None or wanted.alias == link.alias else wanted.alias,
        sizes=OffloadSizes(
            gso=_unless_equal(wanted.sizes.gso, link.sizes.gso),
            gro=_unless_equal(wanted.sizes.gro, link.sizes.gro),
            gso_ipv4=_unless_equal(wanted.sizes.gso_ipv4, link.sizes.gso_ipv4),
            gro_ipv4=_unless_equal(wanted.sizes.gro_ipv4, link.sizes.gro_ipv4),
        ),
    )


def _unless_equal(wanted: int | None, now: int | None) -> int | None:
    return None if wanted == now else wanted


def _missing(wanted: tuple[Address, ...], now: tuple[Address, ...]) -> tuple[Address, ...]:
    present = {(ip_interface(each.cidr), each.peer) for each in now}
    return tuple(each for each in wanted if (ip_interface(each.cidr), each.peer) not in present)


def _missing_routes(wanted: tuple[Route, ...], now: tuple[Route, ...]) -> tuple[Route, ...]:
    present = {_route_key(each) for each in now}
    return tuple(each for each in wanted if _route_key(each) not in present)


def _route_key(route: Route) -> tuple[object, ...]:
    """Return what makes two routes the same one to us, lifetimes and origin aside."""
    return (
        route.destination,
        route.gateway,
        route.source,
        route.table,
        route.metric or (1024 if ":" in route.destination else 0),  # IP6_RT_PRIO_USER
        route.type,
        route.nexthops,
    )
