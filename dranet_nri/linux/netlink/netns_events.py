"""Events of links in other network namespaces, and of the ids of namespaces.

Rules:
1. An event is received if its namespace has an id in the namespace of the socket at that time, and
   the process has CAP_NET_BROADCAST (do_one_broadcast, net/netlink/af_netlink.c).
2. Events of the socket's own namespace have no sender. Before Linux 7.0 their sender is the id of
   the namespace in itself, if it has one.
3. A setting that changes while its link is down has no event; the link has one when it is set up
   (netdev_state_change, net/core/dev.c).
4. Events that the queue had no room for are reported as lost: the reader then reads everything.
"""

import socket
import struct
from collections.abc import Iterator
from enum import Enum, auto
from errno import EINVAL, EPERM
from functools import partial
from typing import Final, NamedTuple

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import attributes, u32
from dranet_nri.linux.netlink.multicast import open_member, queued
from dranet_nri.linux.netlink.rtnetlink import NETLINK_ROUTE
from dranet_nri.linux.netlink.socket import BUFFER_LEN, SOL_NETLINK, messages

NETLINK_LISTEN_ALL_NSID: Final = 8  # linux/netlink.h
RTNLGRP_LINK: Final = 1  # linux/rtnetlink.h
RTNLGRP_NSID: Final = 28
NETNSA_NSID: Final = 1  # linux/net_namespace.h
KERNEL: Final = 0  # nl_pid of its messages, netlink(7)
RTGEN_LEN: Final = 4  # struct rtgenmsg, padded
QUEUE_BYTES: Final = 4 << 20  # some 1,500 events; between attaches 128 are taken a second

_LABEL: Final = "events of other network namespaces"
_ID: Final = struct.Struct("=i")
_ANCILLARY_LEN: Final = socket.CMSG_SPACE(_ID.size)


class NetnsEventKind(Enum):
    """What happened."""

    LINK = auto()  # a link appeared, changed or disappeared
    ID = auto()  # a namespace got an id, or an id is free again; maybe in another namespace
    LOST = auto()  # events were dropped
    OTHER = auto()  # nothing of the kernel: a pod can send to the groups of its namespace


class NetnsEvent(NamedTuple):
    """One event.

    Attributes:
        number: id of the namespace of the link, -1 without a sender; or the id itself.
        body: message of the link, b"" if it is too long.
    """

    kind: NetnsEventKind
    number: int = -1
    body: bytes = b""


_IDS: Final = frozenset({88, 89})  # RTM_NEWNSID, RTM_DELNSID
_LINKS: Final = frozenset({16, 17})  # RTM_NEWLINK, RTM_DELLINK
_LOST: Final = NetnsEvent(NetnsEventKind.LOST)
_OTHER: Final = NetnsEvent(NetnsEventKind.OTHER)


class NetnsEvents:
    """Socket for these events. One thread at a time may read it."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a non-blocking socket that is a member of the groups."""
        self._socket = sock
        self._buffer = bytearray(BUFFER_LEN)  # a new one for each event takes longer than the rest

    def fileno(self) -> int:
        """Return the descriptor to poll; it lives until close."""
        return self._socket.fileno()

    def pending(self) -> Iterator[NetnsEvent]:
        """Yield the queued events without waiting.

        Raises:
            KernelError: the socket failed.
        """
        receive_next = partial(self._socket.recvmsg_into, [self._buffer], _ANCILLARY_LEN)
        for received in queued(receive_next, _LABEL):
            if received is None:
                yield _LOST
                continue
            length, ancillary, flags, address = received
            sender = _netns_id(ancillary)
            if address and address[0] != KERNEL:
                yield _OTHER  # counted, or a flood of them would not end
            elif flags & socket.MSG_CTRUNC:
                yield _LOST
            elif flags & socket.MSG_TRUNC:  # A pod can make the message of its link that long.
                yield NetnsEvent(NetnsEventKind.LINK, sender)
            else:
                yield from _events(bytes(self._buffer[:length]), sender)

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()


def open_netns_events() -> NetnsEvents | None:
    """Start listening in the calling thread's own network namespace.

    Returns:
        The events; None if the process has no CAP_NET_BROADCAST.

    Raises:
        KernelError: the kernel has no netlink.
    """
    sock = open_member(NETLINK_ROUTE, _LABEL, (RTNLGRP_LINK, RTNLGRP_NSID), QUEUE_BYTES)
    try:
        sock.setsockopt(SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, 1)
    except OSError as error:
        sock.close()
        if error.errno == EPERM:
            return None
        raise KernelError(f"listen to {_LABEL}", error.errno or EINVAL) from error
    return NetnsEvents(sock)


def _netns_id(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return the id of the namespace that sent a datagram, -1 without one."""
    for level, kind, payload in ancillary:
        if (level, kind) == (SOL_NETLINK, NETLINK_LISTEN_ALL_NSID):
            (number,) = _ID.unpack(payload)
            return int(number)
    return -1


def _events(data: bytes, sender: int) -> Iterator[NetnsEvent]:
    for message in messages(data):
        if message.kind in _LINKS:
            yield NetnsEvent(NetnsEventKind.LINK, sender, message.body)
        elif message.kind in _IDS:
            number = u32(attributes(message.body, RTGEN_LEN).get(NETNSA_NSID))
            yield NetnsEvent(NetnsEventKind.ID, number)
