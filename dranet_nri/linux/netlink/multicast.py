"""Netlink multicast events, for an event loop.

Rules:
1. An event only reports that something changed; a dump reads the current state.
2. Events are those of the network namespace in which the socket was opened.
3. Lost events are reported: the reader then reads everything.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from errno import EAGAIN, EINVAL, EMSGSIZE, ENOBUFS, ENOMEM
from functools import partial
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
# Errors of a socket that lost an event: its queue was full, or the kernel could not make a message
# (rtnl_set_sk_err).
LOST_ERRORS: Final = frozenset({ENOBUFS, ENOMEM, EMSGSIZE})

D = TypeVar("D")
E = TypeVar("E")


class EventSource(Generic[E]):
    """A source of events: when fileno() is readable, pending() yields them."""

    def __init__(
        self,
        sock: socket.socket,
        what: str,
        lost: E,
        decode: Callable[[NetlinkMessage], Iterator[E]],
    ) -> None:
        """Take over a non-blocking socket that is a member of the groups.

        Args:
            sock: the socket.
            what: name of the events in errors.
            lost: the event for lost events.
            decode: yields the events of a message.
        """
        self._socket = sock
        self._what = what
        self._lost = lost
        self._decode = decode

    def fileno(self) -> int:
        """Return the descriptor to poll; it lives until close."""
        return self._socket.fileno()

    def pending(self) -> Iterator[E]:
        """Yield the queued events without waiting.

        Raises:
            KernelError: the socket failed; EBADMSG: a message is not an event.
        """
        for data in queued(partial(receive, self._socket, buffer_len=0), self._what):
            if data is None:
                yield self._lost
                continue
            for message in messages(data):
                yield from self._decode(message)

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()


def queued(receive_next: Callable[[], D], what: str) -> Iterator[D | None]:
    """Yield the queued datagrams of a non-blocking socket, None where events were lost.

    Args:
        receive_next: returns the next datagram, or raises OSError.
        what: name of the events in errors.

    Raises:
        KernelError: the socket failed.
    """
    while True:
        try:
            received = receive_next()
        except OSError as error:
            if error.errno == EAGAIN:
                return
            if error.errno not in LOST_ERRORS:
                raise KernelError(f"read {what}", error.errno or EINVAL) from error
            yield None
        else:
            yield received


def open_member(
    protocol: int, what: str, groups: tuple[int, ...], queue_bytes: int
) -> socket.socket:
    """Open a socket in the calling thread's own namespace, a member of these groups.

    Args:
        protocol: NETLINK_* (linux/netlink.h).
        what: name of the events in errors.
        groups: RTNLGRP_*, RDMA_NL_GROUP_*.
        queue_bytes: receive buffer; needs privilege to set.

    Raises:
        KernelError: the kernel has no netlink or none of the groups; EPERM: one needs privilege.
    """
    sock = open_socket(protocol)
    try:
        # A socket needs an address: the kernel sends no multicast to address 0.
        sock.bind((0, 0))
        with suppress(PermissionError):  # the default size is used; lost events are reported
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, queue_bytes)
        for group in groups:
            sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
        sock.settimeout(0)
    except OSError as error:
        sock.close()
        raise KernelError(f"listen to {what}", error.errno or EINVAL) from error
    return sock
