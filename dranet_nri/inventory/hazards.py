"""Hazards: links that are never published, with the reason, for the inventory and for attach.

Combines the rules of exclusions.py, preferred_sources.py and uplinks.py.
"""

from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from dranet_nri.inventory.exclusions import (
    accelerated_hazard,
    carrier_hazards,
    daemon_hazard,
    is_synthetic,
    link_hazard,
    probable_use,
    switch_hazards,
    underlay_hazard,
    uplink_tree,
)
from dranet_nri.inventory.host_facts import HostFacts, NetDevice
from dranet_nri.inventory.preferred_sources import source_hazards
from dranet_nri.inventory.uplinks import Uplinks, uplinks_of
from dranet_nri.model import ARPHRD_INFINIBAND, DeviceKey, Link

_REMEDY: Final = (
    "it stays on the host: put what is on it elsewhere, or keep the NIC from claims (dra-shim run"
    " --exclude)"
)


def hazards(
    facts: HostFacts, uplinks: Uplinks | None = None, include: Sequence[str] = ()
) -> dict[int, str]:
    """Return ifindex -> reason for every link that must not be published.

    Args:
        facts: facts of the host; outlines of links suffice.
        uplinks: uplinks of the same facts, None to derive them.
        include: patterns of links to which no heuristic applies.
    """
    links = [device.link for device in facts.netdevs]
    by_index = {link.index: link for link in links}
    masters = frozenset(link.master for link in links)
    carried = carrier_hazards(facts.netdevs)
    switched = switch_hazards(facts.netdevs)
    tree = uplink_tree(facts.netdevs, (uplinks or uplinks_of(facts)).among(links))
    synthetic = {link.mac: link.name for link in links if is_synthetic(link)}
    tunnels = [device for device in facts.netdevs if any(device.tunnel_ends)]
    sources = source_hazards(facts)
    reasons = {
        device.link.index: tree.get(device.link.index)
        or link_hazard(device, by_index, masters, included=is_named(device, include))
        or ("" if is_named(device, include) else _probable_use(device, facts, tunnels, sources))
        or carried.get(device.link.index)
        or switched.get(device.link.index)
        or accelerated_hazard(device, synthetic)
        for device in facts.netdevs
    }
    return {index: reason for index, reason in reasons.items() if reason}


def _probable_use(
    device: NetDevice,
    facts: HostFacts,
    tunnels: Sequence[NetDevice],
    sources: Mapping[int, str],
) -> str:
    return (
        probable_use(device, facts.policy_routes)
        or underlay_hazard(device, tunnels)
        or daemon_hazard(device, facts.daemon_routes)
        or sources.get(device.link.index, "")
    )


def parent_hazards(
    facts: HostFacts,
    uplinks: Uplinks | None = None,
    include: Sequence[str] = (),
    parents: Sequence[str] = (),
    among: Container[int] | None = None,
) -> dict[int, str]:
    """Return ifindex -> reason for every link of which no pod may have a child.

    The link stays, so upper links do not matter, nor whether it can move.

    Args:
        facts: facts of the host.
        uplinks: uplinks of the same facts, None to derive them.
        include: patterns of links to which no heuristic applies.
        parents: patterns of links that the administrator offers as parents, also uplinks.
        among: ifindexes of the links to check, None for all.
    """
    links = [device.link for device in facts.netdevs]
    by_index = {link.index: link for link in links}
    masters = frozenset(link.master for link in links)
    tree = uplink_tree(facts.netdevs, (uplinks or uplinks_of(facts)).among(links))
    synthetic = {link.mac: link.name for link in links if is_synthetic(link)}
    reasons: dict[int, str] = {}
    judged = (device for device in facts.netdevs if among is None or device.link.index in among)
    for device in judged:
        index, offered = device.link.index, is_named(device, parents)
        included = offered or is_named(device, include)
        reasons[index] = (
            ("" if offered else tree.get(index, ""))
            or link_hazard(device, by_index, masters, included=included, stays=True)
            or ("" if included else probable_use(device, facts.policy_routes))
            or accelerated_hazard(device, synthetic)
        )
    return {index: reason for index, reason in reasons.items() if reason}


def is_named(device: NetDevice, include: Sequence[str]) -> bool:
    """Whether one of the patterns matches the link's name, its PCI address or its parent."""
    if not include:
        return False
    names = (device.link.name, device.pci, device.link.parent)
    return any(fnmatchcase(name, pattern) for pattern in include for name in names if name)


def why_unpublished(
    key: DeviceKey, index: int | None, facts: HostFacts, reasons: Mapping[int, str]
) -> str:
    """Return why a pod may not have a recorded device, "" if it may.

    Args:
        key: key of the recorded device.
        index: ifindex of its link on the host. With None every link of its parent counts, except
            IPoIB: in shared mode it stays, in exclusive mode require_no_lost_links() refuses.
        facts: facts of the host.
        reasons: hazards of the same facts.
    """
    candidates = [
        device.link
        for device in facts.netdevs
        if device.link.index == index
        or (index is None and key.parent and _is_below(device.link, key))
    ]
    for link in candidates:
        if reason := reasons.get(link.index, ""):
            return f"{link.name}: {reason}; {_REMEDY}"
    return ""


def _is_below(link: Link, key: DeviceKey) -> bool:
    if link.arphrd == ARPHRD_INFINIBAND and not key.name:
        return False
    return (link.bus, link.parent) in {(key.bus, key.parent), ("pci", key.pci)}
