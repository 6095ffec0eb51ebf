"""Routes of table main that show a use of links, read again only after a relevant event.

A node of a large cluster has a route to each other node; the read of one takes 7 µs.

Rules:
1. Routes that are lost with a link, an address or a nexthop object may have no event. The events of
   these count (fib_flush, net/ipv4/fib_frontend.c; nexthop_flush_dev, nexthop.c; sysctl
   net.ipv6.route.skip_notify_on_dev_down).
2. Of routes that differ in their destination only, one is kept, any of them.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from weakref import finalize

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import fixed
from dranet_nri.linux.netlink.kept import Events, KeptFact, wait_for_changes
from dranet_nri.linux.netlink.links import IFF_UP, INFO
from dranet_nri.linux.netlink.multicast import EventSource, open_member
from dranet_nri.linux.netlink.routes import (
    FAMILIES,
    MainRoute,
    RouteUses,
    decoded_route,
    read_routes,
    uses_of,
)
from dranet_nri.linux.netlink.rtnetlink import NETLINK_ROUTE, RtnetlinkSocket
from dranet_nri.linux.netlink.socket import NetlinkMessage

QUEUE_BYTES: Final = 256 << 10  # some 200 events; to read more takes as long as a dump

_LABEL: Final = "route events"
# RTNLGRP_LINK, IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR, IPV6_ROUTE, NEXTHOP (linux/rtnetlink.h)
_GROUPS: Final = (1, 5, 7, 9, 11, 32)
_LINK_EVENTS: Final = frozenset({16, 17})  # RTM_NEWLINK, RTM_DELLINK
_DELLINK: Final = 17
_DELADDR: Final = 21
_ROUTE_EVENTS: Final = frozenset({24, 25})  # RTM_NEWROUTE, RTM_DELROUTE
_NEWROUTE: Final = 24
_NEXTHOP_EVENTS: Final = frozenset({104, 105})  # RTM_NEWNEXTHOP, RTM_DELNEXTHOP
_NLM_F_REPLACE: Final = 0x100  # the event of a route that replaced another one
_RUNNING: Final = IFF_UP | 0x40  # IFF_RUNNING, linux/if.h
_FAMILY: Final = struct.Struct("=B")
_ADDRESS: Final = struct.Struct("=II")  # struct ifaddrmsg: family and others, ifindex

RouteEvent = NetlinkMessage | None  # None: events were lost


@dataclass(frozen=True, slots=True)
class _Known:
    """Routes of the last dump, the ifindexes in what they show, and what they show."""

    routes: frozenset[MainRoute]
    links: frozenset[int]
    uses: RouteUses

    def may_change(self, event: RouteEvent) -> bool:
        """Whether the event may change what the routes show."""
        if event is None:
            return True
        try:
            if event.kind in _LINK_EVENTS:
                return self._may_lose_routes(event)
            if event.kind in _ROUTE_EVENTS:
                return self._is_other(event)
            if event.kind == _DELADDR:
                return self._had_address(event)
        except KernelError:
            return True  # a message that cannot be decoded
        return event.kind in _NEXTHOP_EVENTS

    def _may_lose_routes(self, event: NetlinkMessage) -> bool:
        """Whether a link is gone, down, or without carrier, which removes its nexthop objects."""
        _, _, index, flags, _ = fixed(INFO, event.body)
        is_running = event.kind != _DELLINK and flags & _RUNNING == _RUNNING
        return index in self.links and not is_running

    def _had_address(self, event: NetlinkMessage) -> bool:
        """Whether a route may need an address of the link: as its source, or any for its link."""
        _, index = fixed(_ADDRESS, event.body)
        return index in self.links or any(route.source for route in self.routes)

    def _is_other(self, event: NetlinkMessage) -> bool:
        """Whether a route was replaced, or the addition or removal of one is relevant."""
        if event.flags & _NLM_F_REPLACE:
            return True
        (family,) = fixed(_FAMILY, event.body)
        route = decoded_route(family, event.body) if family in FAMILIES else None
        return route is not None and (event.kind != _NEWROUTE or route not in self.routes)


class MainRoutes:
    """The routes of one namespace. Thread-safe.

    Attributes:
        kept: the routes as they were read last.
    """

    def __init__(self, events: Events[RouteEvent]) -> None:
        """Start with no route read.

        Args:
            events: events of the namespace.
        """
        self.kept = KeptFact(events, _after, _read)

    def uses(self, netlink: RtnetlinkSocket) -> RouteUses:
        """Return what the routes show, see routes.main_routes.

        Args:
            netlink: a socket of the namespace.

        Raises:
            KernelError: a dump failed, or the events cannot be read.
        """
        return self.kept.current(netlink).uses


def main_routes_here() -> MainRoutes:
    """Listen to events, and return the routes of the calling thread's own namespace.

    Raises:
        KernelError: the kernel has no netlink, or none of the groups.
    """
    events = EventSource[RouteEvent](
        open_member(NETLINK_ROUTE, _LABEL, _GROUPS, QUEUE_BYTES), _LABEL, None, _whole
    )
    routes = MainRoutes(events)
    finalize(routes, events.close)
    return routes


def _after(known: _Known, event: RouteEvent) -> _Known | None:
    return None if known.may_change(event) else known


def _read(netlink: RtnetlinkSocket, known: _Known | None) -> _Known:
    if known is not None:
        return known
    wait_for_changes(netlink)
    routes = read_routes(netlink)
    uses = uses_of(netlink, routes)
    return _Known(frozenset(routes), _links_of(uses), uses)


def _whole(message: NetlinkMessage) -> Iterator[NetlinkMessage]:
    yield message


def _links_of(uses: RouteUses) -> frozenset[int]:
    defaults, by_daemon, sourced = uses
    links = {link for route in defaults for link in route.links}
    links.update(index for index, _ in by_daemon)
    links.update(link for _, _, way in sourced for link in way)
    return frozenset(links)
