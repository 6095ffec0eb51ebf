"""Differences between desired and observed link state, shared by attach and restore plans."""

from dataclasses import fields
from typing import Any

from dranet_nri.component.replace import replace
from dranet_nri.model import ARPHRD_INFINIBAND, Address, Link, LinkState, Ns, OffloadSizes
from dranet_nri.plan.ops import DelAltname, LinkSettings, Plan, SetLink
from dranet_nri.plan.routes.comparison import interface_of
from dranet_nri.plan.settings.programs import DetachXdp


def settings_of(link: Link) -> LinkSettings:
    """Return the settings that make another link equal to this one.

    The address of an IPoIB link consists of queue pair and GUID: it cannot be set. Its broadcast
    address contains the partition.
    """
    has_own_mac = link.arphrd != ARPHRD_INFINIBAND
    return LinkSettings(
        mtu=link.mtu,
        mac=(link.mac or None) if has_own_mac else None,
        txqlen=link.txqlen,
        alias=link.alias,
        sizes=link.sizes,
        flags=link.flags,
        group=link.group,
        kept=link.kept if has_own_mac else None,
        ipoib=link.ipoib,
    )


def difference(desired: LinkSettings, link: Link) -> LinkSettings:
    """Return the settings in which the link differs from `desired`."""
    changes = _by_name(desired, unlike=link)
    changes["sizes"] = OffloadSizes(**_by_name(desired.sizes, unlike=link.sizes))
    return LinkSettings(**changes)


def link_with(link: Link, settings: LinkSettings) -> Link:
    """Return the link with the settings applied, except for the IPoIB mode."""
    changes = _by_name(replace(settings, ipoib=None))
    changes["sizes"] = replace(link.sizes, **_by_name(settings.sizes))
    return replace(link, **changes)


def _by_name(
    settings: LinkSettings | OffloadSizes, unlike: Link | OffloadSizes | None = None
) -> dict[str, Any]:
    """Return the settings by name that change something: not None, and not those of `unlike`."""
    named = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {
        name: value
        for name, value in named.items()
        if value is not None and (unlike is None or value != getattr(unlike, name))
    }


def plan_settings(ns: Ns, name: str, desired: LinkSettings, now: Link) -> Plan:
    """Return the operations that set differing settings.

    The MTU, the IPoIB mode and kept attributes are set separately: in a restore, a refusal of these
    must not block the others. The mode is set before the MTU, because it sets and limits it
    (ipoib_set_mode and ipoib_change_mtu, drivers/infiniband/ulp/ipoib). After a move of the RDMA
    device the kernel recreates the link in datagram mode.
    """
    missing = difference(desired, now)
    mtu = missing.mtu if missing.ipoib is None else desired.mtu
    rest = replace(missing, mtu=None, ipoib=None, kept=None)
    kept = LinkSettings(kept=missing.kept)
    parts = (rest, kept, LinkSettings(ipoib=missing.ipoib), LinkSettings(mtu=mtu))
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
