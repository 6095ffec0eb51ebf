"""RDMA device events of one namespace, for an event loop; see linux/netlink/multicast.py."""

import socket
from collections.abc import Iterator
from typing import Final

from dranet_nri.linux.netlink.multicast import EventSource, open_member
from dranet_nri.linux.netlink.socket import NetlinkMessage
from dranet_nri.linux.rdma import codec
from dranet_nri.linux.rdma.socket import NETLINK_RDMA, open_here
from dranet_nri.linux.rdma.types import RdmaEvent

QUEUE_BYTES: Final = 1 << 20  # a driver reload sends hundreds of events at once

_LABEL: Final = "RDMA events"


class RdmaMonitor(EventSource[RdmaEvent]):
    """Source of RDMA device events."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over a non-blocking socket that is a member of the group."""
        super().__init__(sock, _LABEL, RdmaEvent.LOST, _event)


def open_monitor() -> RdmaMonitor | None:
    """Open a monitor in the calling thread's own namespace.

    Returns:
        None if the kernel has no RDMA, or sends no events (before Linux 6.12).

    Raises:
        KernelError: the kernel has no netlink; EPERM: the group needs privilege.
    """
    monitor_socket = open_here()
    if monitor_socket is None:
        return None
    try:
        if not monitor_socket.system().monitor:
            return None
    finally:
        monitor_socket.close()
    return RdmaMonitor(open_member(NETLINK_RDMA, _LABEL, (codec.GROUP_NOTIFY,), QUEUE_BYTES))


def _event(message: NetlinkMessage) -> Iterator[RdmaEvent]:
    """Yield the event of a message, if it has one."""
    if message.kind == codec.MONITOR:
        yield codec.decode_event(message.body)
