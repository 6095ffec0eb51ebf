"""A kernel without RDMA is an answer, not an error."""

import socket

from dranet_nri.rdma.monitor import open_monitor
from dranet_nri.rdma.socket import NETLINK_RDMA, open_here


def kernel_has_rdma() -> bool:
    """Whether the kernel knows the protocol."""
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA).close()
    except OSError:
        return False
    return True


def test_there_is_a_socket_where_the_kernel_has_rdma() -> None:
    rdma = open_here()

    assert (rdma is not None) == kernel_has_rdma()
    if rdma is not None:
        rdma.close()


def test_there_is_no_monitor_without_rdma() -> None:
    monitor = open_monitor()

    assert monitor is None or kernel_has_rdma()
    if monitor is not None:
        monitor.close()
