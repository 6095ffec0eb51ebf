"""Events of one namespace's RDMA devices, for an event loop; see linux/netlink/multicast.py."""

import socket
from collections.abc import Iterator
from typing import Final

from dranet_nri.linux.netlink.multicast import EventSource, open_member
from dranet_nri.linux.netlink.socket import NetlinkMessage
from dranet_nri.linux.rdma import codec
from dranet_nri.linux.rdma.socket import NETLINK_RDMA, open_here
from dranet_nri.linux.rdma.types import EventKind, RdmaEvent

QUEUE_BYTES: Final = 1 << 20  # a driver that is reloaded sends hundreds of events at once

_WHAT: Final = "RDMA events"


class RdmaMonitor(EventSource[RdmaEvent]):
    """The source of these events."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a socket that is a member of the group and doesn't block."""
        super().__init__(sock, _WHAT, RdmaEvent(EventKind.LOST), _event)


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
    return RdmaMonitor(open_member(NETLINK_RDMA, _WHAT, (codec.GROUP_NOTIFY,), QUEUE_BYTES))


def _event(message: NetlinkMessage) -> Iterator[RdmaEvent]:
    """Yield what the message announces, if it is an event."""
    if message.kind == codec.MONITOR:
        yield codec.decode_event(message.body)
