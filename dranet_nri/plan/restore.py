"""Restore plans: bring a device back to the host, with its recorded addresses, routes and settings.

Rules:
1. Hardware is renamed in the pod, before the move: with a rename in the move message, udev gets the
   pod's name. A virtual device is renamed by the move message: after a restart between two messages
   the plugin could not find it.
2. The move message has no settings: if the kernel refuses one, it is undone, and the device stays
   in the pod. They are set on the host, where a refusal does not stop the rest.
3. A plan does not delete state that others added on the host: addresses, routes and other state of
   the link there. State that a move keeps (MTU, MAC, flags, group, XDP and TCX programs) is set
   from the snapshot; so are altnames that it has in the pod. On the host, those of the claim are
   deleted. TCX programs of the pod are read on the host, while the link is down: a read in the pod
   needs a thread.
4. If its name is in use, the device gets a temporary one until its own is free. It keeps no other
   name: two links that the kernel recreated may each have the other's name.
5. Expired addresses are not restored, and neither are routes that need them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from errno import EINVAL, ENOENT
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.errors import KernelError, RefusedError
from dranet_nri.model import (
    FOREVER,
    Address,
    Link,
    LinkState,
    Ns,
    Observed,
    RdmaLink,
    Route,
    Sysctl,
    TcxProgram,
    is_temporary_name,
    temporary_names,
)
from dranet_nri.plan.diff import (
    detach_new_xdp,
    drop_altnames,
    missing_addresses,
    plan_settings,
    set_down_state,
    settings_of,
)
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddNeighbour,
    AddRoute,
    AddRule,
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
from dranet_nri.plan.routes.comparison import direct_first, is_accepted, lost_routes
from dranet_nri.plan.settings.driver import restore_driver
from dranet_nri.plan.settings.offloads import restore_offloads
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx

IFAPROT_KERNEL_LL: Final = 3  # a link-local address created by the kernel, linux/if_addr.h
IFA_F_TEMPORARY: Final = 0x01  # of an IPv6 address (RFC 8981); no request can set it
# The kernel creates no link-local addresses (IN6_ADDR_GEN_MODE_NONE), so they are restored.
NO_LINK_LOCAL: Final = Sysctl("ipv6", "addr_gen_mode", "1")


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """Desired state: the device is on the host as before.

    Attributes:
        snapshot: snapshot of its net device, None without one.
        elapsed_s: seconds since the snapshot.
        rdma: its RDMA devices as observed on the host.
        child: it is a child link, to be deleted.
        altnames: those that the claim adds in the pod.
    """

    snapshot: LinkState | None
    elapsed_s: int = 0
    rdma: tuple[RdmaLink, ...] = ()
    child: bool = False
    altnames: tuple[str, ...] = ()


def plan_restore(desired: RestoreTarget, snapshot: LinkState, observed: Observed) -> Plan:
    """Return the operations that restore the net device on the host.

    Args:
        desired: the desired state.
        snapshot: state of the net device before the first operation.
        observed: its current location.

    Raises:
        RefusedError: it cannot be restored; the text has the reason.
    """
    before = _unexpired(snapshot, desired.elapsed_s)
    _refuse_namesake(snapshot.link, observed)
    if observed.host is not None:
        # The kernel returns hardware from a namespace that ends with the altnames of the pod.
        altnames = frozenset(desired.altnames) - frozenset(snapshot.link.altnames)
        link = observed.host.link
        return (
            *drop_altnames(Ns.HOST, link, "", altnames),
            *_restore(before, observed.host, observed),
        )
    if observed.pod is None:
        return ()
    link = observed.pod.link
    name = name_on_host(snapshot.link.name, link, observed.taken_host_names)
    extra = frozenset(link.altnames) - frozenset(snapshot.link.altnames)
    dropped = drop_altnames(Ns.POD, link, name, observed.taken_host_names | extra)
    removed = {name, *observed.taken_host_names, *extra}
    kept_altnames = tuple(altname for altname in link.altnames if altname not in removed)
    moved = replace(
        link,
        name=name,
        up=False,
        altnames=kept_altnames,
        flags=snapshot.link.flags,
        xdp=snapshot.link.xdp,
    )
    rename: Plan = ()
    if link.parent and link.name != name and name not in observed.taken_pod_names:
        rename = (RenameLink(Ns.POD, link.index, name),)
    on_host = LinkState(moved, ethtool=observed.pod.ethtool, tcx=before.tcx)
    after = _restore(before, on_host, observed)
    return (
        *dropped,
        *((SetDown(Ns.POD, link.index),) if link.up else ()),
        *detach_new_xdp(Ns.POD, snapshot.link, link),  # before the MTU, which a program may limit
        *_flags_before_move(snapshot.link, link),
        *rename,
        MoveLink(Ns.POD, link.index, Ns.HOST, name),
        *(() if before.tcx is None else (DetachTcx(Ns.HOST, name, before.tcx),)),
        *_attach_tcx(name, before.tcx or (), ()),
        *after,
    )


def _has_no_bpf_link(program: TcxProgram) -> bool:
    """Whether no BPF link attaches the program: its owner attaches a BPF link again."""
    return not program.link


def _attach_tcx(name: str, before: Sequence[TcxProgram], now: Sequence[TcxProgram]) -> Plan:
    """Return the operations that attach disabled or removed programs again."""
    missing = (program for program in before if _has_no_bpf_link(program) and program not in now)
    return tuple(AttachTcx(Ns.HOST, name, program) for program in missing)


def _flags_before_move(snapshot: Link, link: Link) -> Plan:
    """Return the operation that sets flags before the move.

    For a link that arrives with NOARP, the kernel permanently disables duplicate address detection
    (ipv6_add_dev, net/ipv6/addrconf.c).
    """
    if snapshot.flags in {None, link.flags}:
        return ()
    return (SetLink(Ns.POD, link.name, LinkSettings(flags=snapshot.flags)),)


def _refuse_namesake(snapshot: Link, observed: Observed) -> None:
    """Refuse to restore a virtual device while another link on the host has its name."""
    host, pod = observed.host, observed.pod
    namesake = host is not None and host.link.index != snapshot.index
    if pod and not pod.link.parent and namesake:
        raise RefusedError(
            f"{snapshot.name} cannot be restored: another link on the host has its name;"
            " rename that one, this is retried"
        )


def name_on_host(own: str, link: Link, taken: frozenset[str]) -> str:
    """Return the device's own name, or a temporary one until its own is free."""
    if own not in taken:
        return own
    current = [link.name] if is_temporary_name(link.name) else []
    for name in (*current, *temporary_names(link.index)):
        if name not in taken:
            return name
    raise RefusedError(f"no free name on the host for device {own}; rename the link that has it")


def _restore(before: LinkState, now: LinkState, observed: Observed) -> Plan:
    taken = observed.taken_host_names
    ops: list[Op] = []
    name = name_on_host(before.link.name, now.link, taken)
    if name != now.link.name:
        ops += _rename_on_return(now.link, name)
        if now.link.up:
            # Setting the link down flushes state that others added: restore that, too.
            before, now = _with_current_state(before, now, taken), set_down_state(now)
    ops += detach_new_xdp(Ns.HOST, before.link, now.link)
    if before.tcx is not None and set(filter(_has_no_bpf_link, now.tcx or ())) - set(before.tcx):
        ops.append(DetachTcx(Ns.HOST, name, before.tcx))
    if before.tcx is not None and now.tcx is not None:
        ops += _attach_tcx(name, before.tcx, now.tcx)
    ops += plan_settings(Ns.HOST, name, settings_of(before.link), now.link)
    ops += restore_offloads(before, now, name)
    if before.ethtool is not None and now.ethtool is not None:
        ops += restore_driver(before.ethtool, now.ethtool, name)
    present = {*now.link.altnames, *taken}
    ops += (
        AddAltname(Ns.HOST, name, altname)
        for altname in before.link.altnames
        if altname not in present
    )
    if before.master_name in taken and before.master_name != now.master_name:
        ops.append(SetMaster(Ns.HOST, name, before.master_name))
    ops += (
        SetSysctl(Ns.HOST, name, sysctl) for sysctl in before.sysctls if sysctl not in now.sysctls
    )
    addresses = missing_addresses(before.addresses, now.addresses)
    ops += (AddAddress(Ns.HOST, name, address) for address in addresses if not _needs_up(address))
    if before.link.up and not now.link.up:
        ops.append(SetUp(Ns.HOST, name))
    ops += (AddAddress(Ns.HOST, name, address) for address in addresses if _needs_up(address))
    if before.link.up:
        routes = lost_routes(before.routes, now.routes, taken)
        ops += (AddRoute(Ns.HOST, name, route) for route in direct_first(routes))
    ops += (AddRule(Ns.HOST, rule) for rule in before.rules if rule not in observed.host_rules)
    ops += (
        AddNeighbour(Ns.HOST, name, neighbour)
        for neighbour in before.neighbours
        if neighbour not in now.neighbours
    )
    return tuple(ops)


def is_permanent(failed: Sequence[tuple[Op, KernelError]]) -> bool:
    """Whether all failures of a restore are permanent.

    A sysctl value stays refused, and an unloaded program is lost; a route's gateway may return.
    """
    return bool(failed) and all(
        (isinstance(op, SetSysctl) and error.code == EINVAL)
        or (isinstance(op, AttachTcx) and error.code == ENOENT)
        for op, error in failed
    )


def _needs_up(address: Address) -> bool:
    """Whether the address must be added after the link is up, to get its connected route.

    For others the kernel adds the route when the link comes up (addrconf_permanent_addr, net/ipv6).
    """
    return ":" in address.cidr and address.valid_s != FOREVER


def _rename_on_return(link: Link, name: str) -> Plan:
    return (
        *drop_altnames(Ns.HOST, link, name, frozenset()),
        *((SetDown(Ns.HOST, link.index),) if link.up else ()),
        RenameLink(Ns.HOST, link.index, name),
    )


def _unexpired(state: LinkState, elapsed_s: int) -> LinkState:
    """Return the state to restore, with remaining lifetimes and without expired values.

    Link-local and temporary addresses are left out, because the kernel creates its own.
    """
    routes = tuple(
        replace(route, expires_s=max(0, route.expires_s - elapsed_s))
        for route in state.routes
        if not route.expires_s or route.expires_s > elapsed_s
    )
    unexpired = tuple(
        address
        for address in state.addresses
        if address.valid_s > elapsed_s and not address.flags & IFA_F_TEMPORARY
    )
    return replace(
        state,
        addresses=tuple(
            replace(
                address,
                valid_s=_remaining(address.valid_s, elapsed_s),
                preferred_s=_remaining(address.preferred_s, elapsed_s),
            )
            for address in unexpired
            if address.proto != IFAPROT_KERNEL_LL or NO_LINK_LOCAL in state.sysctls
        ),
        routes=_without_expired(routes, state.addresses, unexpired),
    )


def _without_expired(
    routes: tuple[Route, ...], before: Sequence[Address], unexpired: Sequence[Address]
) -> tuple[Route, ...]:
    """Drop the routes that need an expired address."""
    if len(unexpired) == len(before):
        return routes
    return tuple(
        route
        for route in routes
        if is_accepted(route, unexpired, routes) or not is_accepted(route, before, routes)
    )


def _remaining(lifetime_s: int, elapsed_s: int) -> int:
    return FOREVER if lifetime_s == FOREVER else max(0, lifetime_s - elapsed_s)


def _with_current_state(before: LinkState, now: LinkState, others: frozenset[str]) -> LinkState:
    """Return `before` with the additional state of `now`."""
    extra = _unexpired(now, 0)
    return replace(
        before,
        addresses=(*before.addresses, *missing_addresses(extra.addresses, before.addresses)),
        routes=(*before.routes, *lost_routes(extra.routes, before.routes, others)),
        neighbours=tuple(dict.fromkeys((*before.neighbours, *now.neighbours))),
    )
