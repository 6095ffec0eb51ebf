"""VRFs of a pod (Documentation/networking/vrf.rst)."""

import struct
from errno import EEXIST
from pathlib import Path
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.links import NLM_F_EXCL_CREATE, RTM_NEWLINK, link_info, set_up
from dranet_nri.kernel.messages import LinkMessage
from dranet_nri.linux.netlink.codec import Value, attribute, attributes, encode, u32
from dranet_nri.linux.netlink.links import find_link, index_of
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.plan.routes.vrf import AddVrf

IFLA_VRF_TABLE: Final = 1  # linux/if_link.h
ACCEPT: Final = ("tcp_l3mdev_accept", "udp_l3mdev_accept")  # of net/ipv4, for IPv6 as well


def add(netlink: RtnetlinkSocket, what: str, op: AddVrf) -> None:
    """Create a VRF, unless one of that name and table exists, and set it up.

    Raises:
        KernelError: EEXIST: a link of that name is not a VRF of that table; or the kernel refused.
    """
    data = attribute(IFLA_VRF_TABLE, struct.pack("=I", op.table))
    attrs: list[tuple[str, Value]] = [
        ("IFLA_IFNAME", op.name),
        ("IFLA_LINKINFO", link_info("vrf", data)),
    ]
    try:
        netlink.do(what, RTM_NEWLINK, NLM_F_EXCL_CREATE, encode(LinkMessage, {}, attrs))
    except KernelError as error:
        if error.code != EEXIST or not _exists(netlink, what, op):
            raise
    set_up(netlink, what, index_of(netlink, what, op.name))


def _exists(netlink: RtnetlinkSocket, what: str, op: AddVrf) -> bool:
    kind, data, _ = find_link(netlink, what, op.name).kind
    return kind == "vrf" and u32(attributes(data).get(IFLA_VRF_TABLE)) == op.table


def accept_all(proc_root: str, what: str) -> None:
    """Let sockets outside a VRF accept its traffic. Runs inside the namespace.

    Raises:
        KernelError: a sysctl cannot be written.
    """
    for key in ACCEPT:
        try:
            Path(proc_root, "sys/net/ipv4", key).write_text("1")
        except FileNotFoundError:
            continue  # a kernel without VRFs
        except OSError as error:
            raise KernelError(what, error.errno or 0, f"write net.ipv4.{key}") from error
