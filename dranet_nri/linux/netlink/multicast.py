"""Netlink multicast events, for an event loop.

Rules:
1. An event only says that something changed; a dump reads the current state.
2. Events are those of the network namespace in which the socket was opened.
3. A lost event is reported as well: the reader then reads everything.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EAGAIN, EINVAL, ENOBUFS
from typing import Final, Generic, TypeVar

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.socket import (
    SOL_NETLINK,
    NetlinkMessage,
    messages,
    open_socket,
    receive,
)

NETLINK_ADD_MEMBERSHIP: Final = 1  # linux/netlink.h
SO_RCVBUFFORCE: Final = 33  # asm-generic/socket.h

E = TypeVar("E")


class EventSource(Generic[E]):
    """A source of events: wait until fileno() is readable, then take what is pending()."""

    def __init__(
        self,
        sock: socket.socket,
        what: str,
        lost: E,
        decode: Callable[[NetlinkMessage], Iterator[E]],
    ) -> None:
        """Take over a socket that is a member of the groups and doesn't block.

        Args:
            sock: the socket.
            what: how errors call the events.
            lost: stands for events that found no room.
            decode: yields what a message announces, if it matters.
        """
        self._socket = sock
        self._what = what
        self._lost = lost
        self._decode = decode

    def fileno(self) -> int:
        """Return the descriptor to poll; it lives until close."""
        return self._socket.fileno()

    def pending(self) -> Iterator[E]:
        """Yield the events that are there now, without waiting for more.

        Raises:
            KernelError: the socket fails; EBADMSG, what came is no event.
        """
        while True:
            try:
                data = receive(self._socket)
            except OSError as error:
                if error.errno == EAGAIN:
                    return
                if error.errno != ENOBUFS:
                    raise KernelError(f"read {self._what}", error.errno or EINVAL) from error
                yield self._lost
                continue
            for message in messages(data):
                yield from self._decode(message)

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()


def open_member(
    protocol: int, what: str, groups: tuple[int, ...], queue_bytes: int
) -> socket.socket:
    """Open a socket in the calling thread's own namespace, a member of these groups.

    Args:
        protocol: NETLINK_* (linux/netlink.h).
        what: how errors call the events.
        groups: RTNLGRP_*, RDMA_NL_GROUP_*.
        queue_bytes: room for what is not read yet, with the privilege to set it.

    Raises:
        KernelError: there is no netlink, the kernel has none of the groups, or EPERM: one is not
            for everyone.
    """
    sock = open_socket(protocol)
    try:
        # A socket without an address of its own is passed over: the kernel sends as address 0.
        sock.bind((0, 0))
        with suppress(PermissionError):  # the usual size has to do; what is lost is told
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, queue_bytes)
        for group in groups:
            sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
        sock.settimeout(0)
    except OSError as error:
        sock.close()
        raise KernelError(f"listen to {what}", error.errno or EINVAL) from error
    return sock
