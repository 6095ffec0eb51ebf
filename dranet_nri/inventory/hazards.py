"""Hazards: links that are never published, with the reason, for the inventory and for attach.

Combines the rules of exclusions.py, preferred_sources.py and uplinks.py.
"""

from collections.abc import Callable, Container, Sequence
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


class HazardRules:
    """The rules, applied to one scan.

    A reason is computed when it is requested: an attach requests that of one link, and a node has a
    link for each pod.
    """

    def __init__(
        self, facts: HostFacts, uplinks: Uplinks | None = None, include: Sequence[str] = ()
    ) -> None:
        """Compute what the reasons of all links have in common; arguments as in hazards()."""
        links = [device.link for device in facts.netdevs]
        self._facts = facts
        self._include = include
        self._by_index = {link.index: link for link in links}
        self._masters = frozenset(link.master for link in links)
        self._carried = carrier_hazards(facts.netdevs)
        self._switched = switch_hazards(facts.netdevs)
        self._tree = uplink_tree(facts.netdevs, (uplinks or uplinks_of(facts)).among(links))
        self._synthetic = {link.mac: link.name for link in links if is_synthetic(link)}
        self._tunnels = [device for device in facts.netdevs if any(device.tunnel_ends)]
        self._sources = source_hazards(facts)

    def reason(self, device: NetDevice) -> str:
        """Return why this link of the scan must not be published, "" if it may."""
        index, included = device.link.index, is_named(device, self._include)
        return (
            self._tree.get(index)
            or link_hazard(device, self._by_index, self._masters, included=included)
            or ("" if included else self._probable_use(device))
            or self._carried.get(index)
            or self._switched.get(index)
            or accelerated_hazard(device, self._synthetic)
        )

    def _probable_use(self, device: NetDevice) -> str:
        return (
            probable_use(device, self._facts.policy_routes)
            or underlay_hazard(device, self._tunnels)
            or daemon_hazard(device, self._facts.daemon_routes)
            or self._sources.get(device.link.index, "")
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
    rules = HazardRules(facts, uplinks, include)
    reasons = {device.link.index: rules.reason(device) for device in facts.netdevs}
    return {index: reason for index, reason in reasons.items() if reason}


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
    key: DeviceKey, index: int | None, facts: HostFacts, reason_of: Callable[[NetDevice], str]
) -> str:
    """Return why a pod may not have a recorded device, "" if it may.

    Args:
        key: key of the recorded device.
        index: ifindex of its link on the host. With None every link of its parent counts, except
            IPoIB: in shared mode it stays, in exclusive mode require_no_lost_links() refuses.
        facts: facts of the host.
        reason_of: returns why a link of these facts must not leave, "" if it may.
    """
    candidates = [
        device
        for device in facts.netdevs
        if device.link.index == index
        or (index is None and key.parent and _is_below(device.link, key))
    ]
    for device in candidates:
        if reason := reason_of(device):
            return f"{device.link.name}: {reason}; {_REMEDY}"
    return ""


def _is_below(link: Link, key: DeviceKey) -> bool:
    if link.arphrd == ARPHRD_INFINIBAND and not key.name:
        return False
    return (link.bus, link.parent) in {(key.bus, key.parent), ("pci", key.pci)}
