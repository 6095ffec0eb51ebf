"""Uplinks: links that connect the node to its network and to the cluster.

Rules:
1. The links of the lowest-metric default route of table main, per family; instead of these, those
   of --uplink-interfaces. An advertised route counts only if there is no other, and no link has an
   address of the Node: every rail of a fabric may have one.
2. The links with an address of the Node (`kubelet --node-ip`), if known: the default route may use
   another link, or be absent.
3. Both may be missing briefly, as when a lease ends or a driver is reloaded. While no link has a
   default route, the last links with one count; likewise those with an address of the Node. A
   recreated link is matched by its name, or by its parent device.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from dranet_nri.inventory.host_facts import HostFacts
from dranet_nri.model import Link, best_links

_ROUTED: Final = "the node's default route goes through it"
_REMEDY: Final = "--uplink-interfaces says which links are uplinks"
_ADVERTISED: Final = f"{_ROUTED}, as a router advertised it; {_REMEDY}"
_ONE_OF_SEVERAL: Final = f"{_ROUTED}, as through other links; {_REMEDY}"
_NAMED: Final = "--uplink-interfaces names it"
_WAS_ROUTED: Final = "the node's last default route went through it, and there is none now"
_WAS_REACHED: Final = "it had an address of the Node, and no link has one now"


@dataclass(frozen=True, slots=True)
class Uplinks:
    """The node's uplinks in the last scan.

    Attributes:
        routed: links with a default route -> reason.
        reached: links with an address of the Node -> reason.
    """

    routed: tuple[tuple[Link, str], ...] = ()
    reached: tuple[tuple[Link, str], ...] = ()

    def among(self, links: Sequence[Link]) -> Mapping[int, str]:
        """Return ifindex -> reason for the links that are uplinks."""
        return {
            link.index: reason
            for uplink, reason in (*self.reached, *self.routed)
            for link in _of(uplink, links)
        }


def uplinks_of(
    facts: HostFacts,
    node_addresses: Collection[str] = (),
    before: Uplinks | None = None,
    named: Sequence[str] = (),
) -> Uplinks:
    """Return the current uplinks.

    Args:
        facts: facts of a scan.
        node_addresses: addresses of the Node, in the form of inet_ntop(3); () if unknown.
        before: uplinks of the previous scan, None at first.
        named: patterns of uplink interfaces, () to derive them from routes.
    """
    before = before or Uplinks()
    reached = tuple(_reached(facts, node_addresses)) or tuple(
        (link, _WAS_REACHED) for link, _ in before.reached
    )
    routed = _named(facts, named) if named else _routed(facts, reached=bool(reached))
    before_routed = ((link, _WAS_ROUTED) for link, _ in before.routed)
    return Uplinks(tuple(routed) or tuple(before_routed), reached)


def _named(facts: HostFacts, named: Sequence[str]) -> Iterator[tuple[Link, str]]:
    links = (netdev.link for netdev in facts.netdevs)
    return (
        (link, _NAMED)
        for link in links
        if any(fnmatchcase(link.name, pattern) for pattern in named)
    )


def _routed(facts: HostFacts, *, reached: bool) -> Iterator[tuple[Link, str]]:
    configured = best_links([route for route in facts.default_routes if not route.advertised])
    advertised = frozenset() if configured or reached else best_links(facts.default_routes)
    routed = _ONE_OF_SEVERAL if len(configured) > 1 else _ROUTED
    for netdev in facts.netdevs:
        if netdev.link.index in configured:
            yield netdev.link, routed
        elif netdev.link.index in advertised:
            yield netdev.link, _ADVERTISED


def _reached(facts: HostFacts, node_addresses: Collection[str]) -> Iterator[tuple[Link, str]]:
    for netdev in facts.netdevs:
        own = {address.cidr.partition("/")[0] for address in netdev.addresses}
        hit = next((address for address in node_addresses if address in own), "")
        if hit:
            yield netdev.link, f"it has the Node's address {hit}"


def _of(uplink: Link, links: Sequence[Link]) -> Sequence[Link]:
    """Return the current link, or its possible replacements."""
    return [link for link in links if link.index == uplink.index] or [
        link
        for link in links
        if link.name == uplink.name
        or (link.parent and (link.bus, link.parent) == (uplink.bus, uplink.parent))
    ]
