"""Differences between desired and observed link state, shared by attach and restore plans."""

from dataclasses import replace

from dranet_nri.model import ARPHRD_INFINIBAND, Address, Link, LinkState, Ns, OffloadSizes
from dranet_nri.plan.ops import DelAltname, LinkSettings, Plan, SetLink
from dranet_nri.plan.routes.comparison import interface_of
from dranet_nri.plan.settings.programs import DetachXdp


def settings_of(link: Link) -> LinkSettings:
    """Return the settings that make another link equal to this one.

    The address of an IPoIB link consists of queue pair and GUID: it cannot be set.
    """
    return LinkSettings(
        mtu=link.mtu,
        mac=(link.mac or None) if link.arphrd != ARPHRD_INFINIBAND else None,
        txqlen=link.txqlen,
        alias=link.alias,
        sizes=link.sizes,
        flags=link.flags,
        group=link.group,
        ipoib=link.ipoib,
    )


def difference(desired: LinkSettings, link: Link) -> LinkSettings:
    """Return the settings in which the link differs from `desired`."""
    return LinkSettings(
        mtu=_unless_equal(desired.mtu, link.mtu),
        mac=None if desired.mac is None or desired.mac == link.mac else desired.mac,
        txqlen=_unless_equal(desired.txqlen, link.txqlen),
        alias=None if desired.alias is None or desired.alias == link.alias else desired.alias,
        sizes=OffloadSizes(
            gso=_unless_equal(desired.sizes.gso, link.sizes.gso),
            gro=_unless_equal(desired.sizes.gro, link.sizes.gro),
            gso_ipv4=_unless_equal(desired.sizes.gso_ipv4, link.sizes.gso_ipv4),
            gro_ipv4=_unless_equal(desired.sizes.gro_ipv4, link.sizes.gro_ipv4),
        ),
        flags=_unless_equal(desired.flags, link.flags),
        group=_unless_equal(desired.group, link.group),
        ipoib=None if desired.ipoib == link.ipoib else desired.ipoib,
    )


def _unless_equal(desired: int | None, now: int | None) -> int | None:
    return None if desired == now else desired


def link_with(link: Link, settings: LinkSettings) -> Link:
    """Return the link with the settings applied."""
    return replace(
        link,
        mtu=link.mtu if settings.mtu is None else settings.mtu,
        mac=link.mac if settings.mac is None else settings.mac,
        txqlen=link.txqlen if settings.txqlen is None else settings.txqlen,
        alias=link.alias if settings.alias is None else settings.alias,
        sizes=_merged(settings.sizes, link.sizes),
        flags=link.flags if settings.flags is None else settings.flags,
        group=link.group if settings.group is None else settings.group,
    )


def _merged(desired: OffloadSizes, now: OffloadSizes) -> OffloadSizes:
    return OffloadSizes(
        gso=now.gso if desired.gso is None else desired.gso,
        gro=now.gro if desired.gro is None else desired.gro,
        gso_ipv4=now.gso_ipv4 if desired.gso_ipv4 is None else desired.gso_ipv4,
        gro_ipv4=now.gro_ipv4 if desired.gro_ipv4 is None else desired.gro_ipv4,
    )


def plan_settings(ns: Ns, name: str, desired: LinkSettings, now: Link) -> Plan:
    """Return the operations that set differing settings; the MTU and the IPoIB mode separately.

    In a restore, a refusal of these must not block the others. The mode is set first, because it
    sets and limits the MTU (ipoib_set_mode and ipoib_change_mtu, drivers/infiniband/ulp/ipoib).
    After a move of the RDMA device the kernel recreates the link in datagram mode.
    """
    missing = difference(desired, now)
    mtu = missing.mtu if missing.ipoib is None else desired.mtu
    rest = replace(missing, mtu=None, ipoib=None)
    parts = (rest, LinkSettings(ipoib=missing.ipoib), LinkSettings(mtu=mtu))
    return tuple(SetLink(ns, name, settings) for settings in parts if settings != LinkSettings())


def missing_addresses(
    desired: tuple[Address, ...], now: tuple[Address, ...]
) -> tuple[Address, ...]:
    """Return the desired addresses that `now` lacks, compared by address, length and peer."""
    present = {(interface_of(address.cidr), address.peer) for address in now}
    return tuple(
        address for address in desired if (interface_of(address.cidr), address.peer) not in present
    )


def drop_altnames(ns: Ns, link: Link, name: str, taken: frozenset[str]) -> Plan:
    """Return the operations that delete altnames equal to the new name or in `taken`.

    The kernel treats a link's own altnames as names in use. The restore adds those of the host.
    """
    return tuple(
        DelAltname(ns, link.index, altname)
        for altname in link.altnames
        if altname == name or altname in taken
    )


def detach_new_xdp(ns: Ns, before: Link, now: Link) -> Plan:
    """Return the operations that detach XDP programs which the link did not have before."""
    if before.xdp is None:
        return ()
    extra = (program for program in now.xdp or () if program not in before.xdp)
    return tuple(DetachXdp(ns, now.index, program.mode) for program in extra)


def set_down_state(state: LinkState) -> LinkState:
    """Return the state after the link is set down: the kernel flushes routes and neighbours."""
    return replace(
        state,
        link=replace(state.link, up=False),
        addresses=tuple(address for address in state.addresses if ":" not in address.cidr),
        routes=(),
        neighbours=(),
    )
