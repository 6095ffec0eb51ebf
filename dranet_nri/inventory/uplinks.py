"""Uplinks: the links without which the node loses its network, or the cluster loses the node.

Rules:
1. The legs of the lowest-metric default route of table main, per family; instead of them, those
   that the administrator names (--uplink-interfaces). A route that a router advertised counts only
   where there is no other, and no link has an address of the Node: every rail of a fabric has one.
2. The links that have an address of the Node, where the cluster knows it (`kubelet --node-ip`):
   the default route may use another link, or be absent.
3. Either may be missing for a moment: a lease ends, a driver is reloaded. While no link has a
   default route, the last ones that had keep their rank; likewise those with an address of the
   Node. A link that was made anew is identified by its name, or by its parent device.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from dranet_nri.inventory.host_facts import HostFacts
from dranet_nri.model import Link, best_legs

_ROUTED: Final = "the node's default route goes through it"
_ADVERTISED: Final = (
    f"{_ROUTED}, as a router advertised it; --uplink-interfaces says which links are uplinks"
)
_NAMED: Final = "--uplink-interfaces names it"
_WAS_ROUTED: Final = "the node's last default route went through it, and there is none now"
_WAS_REACHED: Final = "it had an address of the Node, and no link has one now"


@dataclass(frozen=True, slots=True)
class Uplinks:
    """The node's own links, as they were seen last.

    Attributes:
        routed: those with a default route, and why each is one.
        reached: those with an address of the Node, and why each is one.
    """

    routed: tuple[tuple[Link, str], ...] = ()
    reached: tuple[tuple[Link, str], ...] = ()

    def among(self, links: Sequence[Link]) -> Mapping[int, str]:
        """Return ifindex -> reason for those of the links that are uplinks."""
        return {
            link.index: reason
            for known, reason in (*self.reached, *self.routed)
            for link in _of(known, links)
        }


def uplinks_of(
    facts: HostFacts,
    node_addresses: Collection[str] = (),
    before: Uplinks | None = None,
    named: Sequence[str] = (),
) -> Uplinks:
    """Return the uplinks of this moment.

    Args:
        facts: what a scan saw.
        node_addresses: those of the Node, as inet_ntop(3) writes them; none where unknown.
        before: the uplinks of a moment ago, None at first.
        named: patterns of interfaces that are the uplinks, none to go by routes.
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
    firm = best_legs([route for route in facts.default_routes if not route.advertised])
    advertised = frozenset() if firm or reached else best_legs(facts.default_routes)
    for netdev in facts.netdevs:
        if netdev.link.index in firm:
            yield netdev.link, _ROUTED
        elif netdev.link.index in advertised:
            yield netdev.link, _ADVERTISED


def _reached(facts: HostFacts, node_addresses: Collection[str]) -> Iterator[tuple[Link, str]]:
    for netdev in facts.netdevs:
        own = {address.cidr.partition("/")[0] for address in netdev.addresses}
        hit = next((address for address in node_addresses if address in own), "")
        if hit:
            yield netdev.link, f"it has the Node's address {hit}"


def _of(known: Link, links: Sequence[Link]) -> Sequence[Link]:
    """Return the current link, or those that may have been created in its place."""
    return [link for link in links if link.index == known.index] or [
        link
        for link in links
        if link.name == known.name
        or (link.parent and (link.bus, link.parent) == (known.bus, known.parent))
    ]
