"""XDP programs for tests, attached over netlink as `ip link set xdp` does it."""

import os
import socket
import struct
from contextlib import closing
from typing import Final

from dranet_nri.kernel.links import IFLA_XDP_FD, IFLA_XDP_FLAGS, NLA_F_NESTED, XDP_FLAGS
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.netlink.codec import attribute
from dranet_nri.linux.netlink.links import IFLA_XDP, INFO
from dranet_nri.linux.netlink.rtnetlink import NETLINK_ROUTE, rtnetlink_socket
from dranet_nri.model import XdpMode
from tests.system.kernel import bpf

PASS: Final = 2  # XDP_PASS
RTM_NEWLINK: Final = 16


def attach(nsfd: int, name: str, mode: XdpMode) -> None:
    """Attach a program that lets everything pass to a link of that namespace.

    It stays on the link without a descriptor.
    """

    def body() -> None:
        program = bpf.load(bpf.XDP, PASS)
        try:
            with closing(
                rtnetlink_socket(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
            ) as netlink:
                fields = attribute(IFLA_XDP_FD, struct.pack("=i", program))
                fields += attribute(IFLA_XDP_FLAGS, struct.pack("=I", XDP_FLAGS[mode]))
                link = INFO.pack(0, 0, socket.if_nametoindex(name), 0, 0)
                request = link + attribute(IFLA_XDP | NLA_F_NESTED, fields)
                netlink.do(f"attach XDP to {name}", RTM_NEWLINK, 0, request)
        finally:
            os.close(program)

    assert NETLINK_ROUTE == 0
    run_inside(nsfd, body)
