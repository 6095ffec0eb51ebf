"""rtnetlink socket: reads and changes links, addresses, routes and rules."""

import socket
from typing import Final

from dranet_nri.linux.netlink.socket import NetlinkSocket, enable_strict_checks, open_socket

NETLINK_ROUTE: Final = 0


class RtnetlinkSocket(NetlinkSocket):
    """Socket of rtnetlink; a separate type, so that type checks exclude other sockets."""


def rtnetlink_socket(sock: socket.socket) -> RtnetlinkSocket:
    """Take over an open rtnetlink socket, and enable strict checks and extended acks.

    Raises:
        KernelError: the kernel is older than 4.20; the socket is closed.
    """
    enable_strict_checks(sock)
    return RtnetlinkSocket(sock)


def open_here() -> RtnetlinkSocket:
    """Open a socket in the calling thread's own namespace.

    Raises:
        KernelError: the kernel has no netlink, or is older than 4.20.
    """
    return rtnetlink_socket(open_socket(NETLINK_ROUTE))
