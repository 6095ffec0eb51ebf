"""Invalidation of host facts: the facts that kernel events make stale."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dranet_nri.facts.netlink_events import NetEvent, NetEventKind
from dranet_nri.facts.uevents import OVERFLOW, DeviceEvent
from dranet_nri.linux.rdma.types import RdmaEvent

Event = NetEvent | DeviceEvent | RdmaEvent

_RDMA: Final = frozenset({"infiniband", "infiniband_verbs"})


@dataclass(frozen=True, slots=True)
class Invalidated:
    """Facts that may have changed.

    Attributes:
        links: ifindexes of links; includes their addresses and filters.
        routes: whether default routes or policy rules may have changed.
        functions: whether PCI functions may have changed.
        rdma: whether RDMA devices may have changed.
        everything: whether events were lost.
    """

    links: frozenset[int] = frozenset()
    routes: bool = False
    functions: bool = False
    rdma: bool = False
    everything: bool = False

    def __or__(self, other: "Invalidated") -> "Invalidated":
        """Return the union."""
        return Invalidated(
            self.links | other.links,
            self.routes or other.routes,
            self.functions or other.functions,
            self.rdma or other.rdma,
            self.everything or other.everything,
        )


NOTHING: Final = Invalidated()


def invalidated_by(events: Iterable[Event]) -> Invalidated:
    """Return the facts that events invalidate; net devices by rtnetlink events only."""
    links: set[int] = set()
    found = NOTHING
    for event in events:
        if isinstance(event, NetEvent) and event.index:
            links.add(event.index)
        else:
            found |= _invalidated_by(event)
    return found | Invalidated(frozenset(links))


def _invalidated_by(event: Event) -> Invalidated:
    if isinstance(event, NetEvent):
        lost = event.kind is NetEventKind.LOST
        return Invalidated(everything=lost, routes=not lost)
    if isinstance(event, DeviceEvent):
        return Invalidated(
            functions=event.subsystem == "pci",
            rdma=event.subsystem in _RDMA,
            everything=event.action == OVERFLOW,
        )
    return Invalidated(rdma=True)
