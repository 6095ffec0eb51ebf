"""What happens to the RDMA devices of one namespace, for an event loop.

Rules:
1. Events only say that something happened. What is there now is for a dump to tell.
2. They are those of the namespace in which the monitor was opened.
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from errno import EAGAIN, EINVAL, ENOBUFS
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.netlink.socket import BUFFER_LEN, SOL_NETLINK, messages, open_socket
from dranet_nri.rdma import codec
from dranet_nri.rdma.socket import NETLINK_RDMA, open_here
from dranet_nri.rdma.values import EventKind, RdmaEvent

NETLINK_ADD_MEMBERSHIP: Final = 1  # linux/netlink.h
SO_RCVBUFFORCE: Final = 33  # asm-generic/socket.h
QUEUE_BYTES: Final = 1 << 20  # a driver that is reloaded sends hundreds of events at once


class RdmaMonitor:
    """A source of events: wait until fileno() is readable, then take what is pending()."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a socket that is a member of the group and doesn't block."""
        self._socket = sock

    def fileno(self) -> int:
        """Return the descriptor to poll; it lives until close."""
        return self._socket.fileno()

    def pending(self) -> Iterator[RdmaEvent]:
        """Yield the events that are there now; LOST stands for those that found no room.

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
                    raise KernelError("read RDMA events", error.errno or EINVAL) from error
                yield RdmaEvent(EventKind.LOST)
                continue
            if flags & socket.MSG_TRUNC:
                yield RdmaEvent(EventKind.LOST)
                continue
            for message in messages(data):
                if message.kind == codec.MONITOR:
                    yield codec.decode_event(message.body)

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()


def open_monitor() -> RdmaMonitor | None:
    """Open a monitor in the calling thread's own namespace.

    Returns:
        None if the kernel has no RDMA, or announces nothing (before Linux 6.12).

    Raises:
        KernelError: there is no netlink; EPERM, the group is not for everyone.
    """
    asked = open_here()
    if asked is None:
        return None
    try:
        if not asked.system().monitor:
            return None
    finally:
        asked.close()
    sock = open_socket(NETLINK_RDMA)
    try:
        # A socket without an address of its own is passed over: the kernel sends as address 0.
        sock.bind((0, 0))
        with suppress(PermissionError):
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, QUEUE_BYTES)
        sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, codec.GROUP_NOTIFY)
        sock.settimeout(0)
    except OSError as error:
        sock.close()
        raise KernelError("listen to RDMA events", error.errno or EINVAL) from error
    return RdmaMonitor(sock)
