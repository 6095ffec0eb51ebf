"""rtnetlink events of links, addresses, routes and filters; see linux/netlink/multicast.py.

Rules:
1. An event has the ifindex of its link only. It needs no privilege.
2. Of routes only default routes count: a BGP node may have hundreds of thousands of others.
3. Of filters only BPF classifiers count: Open vSwitch adds a flower filter for each offloaded flow.
"""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from struct import Struct
from typing import Final

from dranet_nri.linux.netlink.codec import attributes, fixed, text
from dranet_nri.linux.netlink.multicast import EventSource, open_member
from dranet_nri.linux.netlink.rtnetlink import NETLINK_ROUTE
from dranet_nri.linux.netlink.socket import NetlinkMessage

QUEUE_BYTES: Final = 4 << 20  # 512 new VFs send several events each

_LABEL: Final = "network events"
# RTNLGRP_LINK, TC, IPV4_IFADDR, IPV4_ROUTE, IPV4_RULE, IPV6_IFADDR, IPV6_ROUTE, IPV6_RULE, NEXTHOP
# (linux/rtnetlink.h)
_GROUPS: Final = (1, 4, 5, 7, 8, 9, 11, 19, 32)
_OF_LINK: Final = Struct("=4xi")  # ifinfomsg, ifaddrmsg and tcmsg have the ifindex at one offset
_TCMSG_SIZE: Final = 20  # struct tcmsg
_ROUTE: Final = Struct("=BBBBBBBBI")  # family, dst len, src len, tos, table, …, type, flags


class NetEventKind(Enum):
    """Subject of an event."""

    LINK = auto()
    ADDRESS = auto()
    FILTER = auto()  # a qdisc or a filter on one
    ROUTE = auto()  # a default route, a nexthop object, or a policy rule
    LOST = auto()  # events were dropped, or one has no ifindex: read everything


@dataclass(frozen=True, slots=True)
class NetEvent:
    """One event.

    Attributes:
        index: ifindex of the link, 0 for routes and lost events.
    """

    kind: NetEventKind
    index: int = 0


_KINDS: Final = {  # RTM_NEW… and RTM_DEL… of each
    16: NetEventKind.LINK,
    17: NetEventKind.LINK,
    20: NetEventKind.ADDRESS,
    21: NetEventKind.ADDRESS,
    24: NetEventKind.ROUTE,
    25: NetEventKind.ROUTE,
    32: NetEventKind.ROUTE,
    33: NetEventKind.ROUTE,
    36: NetEventKind.FILTER,
    37: NetEventKind.FILTER,
    44: NetEventKind.FILTER,
    45: NetEventKind.FILTER,
    104: NetEventKind.ROUTE,
    105: NetEventKind.ROUTE,
}
_ROUTES: Final = frozenset({24, 25})
_FILTERS: Final = frozenset({44, 45})


class NetEvents(EventSource[NetEvent]):
    """Source of these events."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a non-blocking socket that is a member of the groups."""
        super().__init__(sock, _LABEL, NetEvent(NetEventKind.LOST), _event)


def open_events() -> NetEvents:
    """Start listening in the calling thread's own network namespace.

    Raises:
        KernelError: the kernel has no netlink, or none of the groups.
    """
    return NetEvents(open_member(NETLINK_ROUTE, _LABEL, _GROUPS, QUEUE_BYTES))


def _event(message: NetlinkMessage) -> Iterator[NetEvent]:
    """Yield the event of a message, if it is relevant."""
    kind = _KINDS.get(message.kind)
    if kind is None or (message.kind in _FILTERS and not _is_bpf(message.body)):
        return
    if kind is not NetEventKind.ROUTE:
        (index,) = fixed(_OF_LINK, message.body)
        # A filter on a block that links share has TCM_IFINDEX_MAGIC_BLOCK, which is -1.
        yield NetEvent(kind, index) if index > 0 else NetEvent(NetEventKind.LOST)
    elif message.kind not in _ROUTES or not fixed(_ROUTE, message.body)[1]:
        yield NetEvent(kind)


def _is_bpf(body: bytes) -> bool:
    return text(attributes(body, _TCMSG_SIZE).get(1)) == "bpf"  # TCA_KIND
