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
class Touched:
    """Facts that may have changed.

    Attributes:
        links: ifindexes; a link's addresses and filters are meant as well.
        routes: the default routes.
        functions: PCI functions.
        rdma: RDMA devices.
        everything: events were lost.
    """

    links: frozenset[int] = frozenset()
    routes: bool = False
    functions: bool = False
    rdma: bool = False
    everything: bool = False

    def __or__(self, other: "Touched") -> "Touched":
        """Return both together."""
        return Touched(
            self.links | other.links,
            self.routes or other.routes,
            self.functions or other.functions,
            self.rdma or other.rdma,
            self.everything or other.everything,
        )


NOTHING: Final = Touched()


def touched_by(events: Iterable[Event]) -> Touched:
    """Return what some events touch. rtnetlink reports net devices; udev's events are ignored."""
    links: set[int] = set()
    found = NOTHING
    for event in events:
        if isinstance(event, NetEvent) and event.index:
            links.add(event.index)
        else:
            found |= _touched_by(event)
    return found | Touched(frozenset(links))


def _touched_by(event: Event) -> Touched:
    if isinstance(event, NetEvent):
        lost = event.kind is NetEventKind.LOST
        return Touched(everything=lost, routes=not lost)
    if isinstance(event, DeviceEvent):
        return Touched(
            functions=event.subsystem == "pci",
            rdma=event.subsystem in _RDMA,
            everything=event.action == OVERFLOW,
        )
    return Touched(rdma=True)
