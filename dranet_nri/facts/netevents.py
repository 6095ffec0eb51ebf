"""What rtnetlink announces of links, addresses, routes and filters, for an event loop.

Rules:
1. Events only say that something happened, and to which link. What is there now is for a dump.
2. They are those of the network namespace in which the source was opened, and need no privilege.
3. Of routes only default routes count. A node that speaks BGP announces hundreds of thousands.
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from errno import EAGAIN, EINVAL, ENOBUFS
from struct import Struct
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.netlink.codec import fixed
from dranet_nri.netlink.rtnetlink import NETLINK_ROUTE
from dranet_nri.netlink.socket import BUFFER_LEN, SOL_NETLINK, Message, messages, open_socket

NETLINK_ADD_MEMBERSHIP: Final = 1  # linux/netlink.h
SO_RCVBUFFORCE: Final = 33  # asm-generic/socket.h
QUEUE_BYTES: Final = 4 << 20  # 512 VFs that come at once announce themselves several times each

# RTNLGRP_LINK, TC, IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR, IPV6_ROUTE, NEXTHOP (linux/rtnetlink.h)
_GROUPS: Final = (1, 4, 5, 7, 9, 11, 32)
_OF_LINK: Final = Struct("=4xI")  # ifinfomsg, ifaddrmsg and tcmsg have the ifindex at one place
_ROUTE: Final = Struct("=BBBBBBBBI")  # family, dst len, src len, tos, table, …, type, flags


class NetEventKind(Enum):
    """What an event is about."""

    LINK = auto()
    ADDRESS = auto()
    FILTER = auto()  # a qdisc or a filter on one
    ROUTE = auto()  # a default route, or a next hop that one may use
    LOST = auto()  # events found no room: look at everything


@dataclass(frozen=True, slots=True)
class NetEvent:
    """One event.

    Attributes:
        index: ifindex of the link, 0 for routes and lost events.
    """

    kind: NetEventKind
    index: int = 0


_LOST: Final = NetEvent(NetEventKind.LOST)
_KINDS: Final = {  # RTM_NEW… and RTM_DEL… of each
    16: NetEventKind.LINK,
    17: NetEventKind.LINK,
    20: NetEventKind.ADDRESS,
    21: NetEventKind.ADDRESS,
    24: NetEventKind.ROUTE,
    25: NetEventKind.ROUTE,
    36: NetEventKind.FILTER,
    37: NetEventKind.FILTER,
    44: NetEventKind.FILTER,
    45: NetEventKind.FILTER,
    104: NetEventKind.ROUTE,
    105: NetEventKind.ROUTE,
}
_ROUTES: Final = frozenset({24, 25})


class NetEvents:
    """A source of events: wait until fileno() is readable, then take what is pending()."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a socket that is a member of the groups and doesn't block."""
        self._socket = sock

    def fileno(self) -> int:
        """Return the descriptor to poll; it lives until close."""
        return self._socket.fileno()

    def pending(self) -> Iterator[NetEvent]:
        """Yield the events that are there now, without waiting for more.

        Raises:
            KernelError: the socket fails; EBADMSG, what came is no event.
        """
        while True:
            try:
                data, _, flags, _ = self._socket.recvmsg(BUFFER_LEN)
            except OSError as error:
                if error.errno == EAGAIN:
                    return
                if error.errno != ENOBUFS:
                    raise KernelError("read network events", error.errno or EINVAL) from error
                yield _LOST
                continue
            if flags & socket.MSG_TRUNC:
                yield _LOST
                continue
            for message in messages(data):
                yield from _event(message)

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()


def open_events() -> NetEvents:
    """Start listening in the calling thread's own network namespace.

    Raises:
        KernelError: there is no netlink, or the kernel has none of the groups.
    """
    sock = open_socket(NETLINK_ROUTE)
    try:
        # A socket without an address of its own is passed over: the kernel sends as address 0.
        sock.bind((0, 0))
        with suppress(PermissionError):  # the usual size has to do; what is lost is told
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, QUEUE_BYTES)
        for group in _GROUPS:
            sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
        sock.settimeout(0)
    except OSError as error:
        sock.close()
        raise KernelError("listen to network events", error.errno or EINVAL) from error
    return NetEvents(sock)


def _event(message: Message) -> Iterator[NetEvent]:
    """Yield what the message announces, if it matters."""
    kind = _KINDS.get(message.kind)
    if kind is None:
        return
    if kind is not NetEventKind.ROUTE:
        (index,) = fixed(_OF_LINK, message.body)
        yield NetEvent(kind, index)
    elif message.kind not in _ROUTES or not fixed(_ROUTE, message.body)[1]:
        yield NetEvent(kind)
