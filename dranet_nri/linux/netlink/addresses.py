"""Addresses of links, for the inventory and the publish guard.

Numbers without a name in Python's socket module are IFA_* of linux/if_addr.h.
"""

import socket
import struct
from collections import defaultdict
from typing import Final

from dranet_nri.linux.netlink.codec import address, attributes, fixed
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import Address

RTM_GETADDR: Final = 22
_ADDRESS: Final = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
_FAMILIES: Final = frozenset({int(socket.AF_INET), int(socket.AF_INET6)})


def addresses(netlink: RtnetlinkSocket, index: int = 0) -> dict[int, tuple[Address, ...]]:
    """Return ifindex -> IPv4 and IPv6 addresses, with cidr and scope only.

    Args:
        netlink: a socket of the namespace.
        index: ifindex of one link, 0 for all.

    Raises:
        KernelError: the dump failed; ENODEV: the link does not exist.
    """
    found: dict[int, list[Address]] = defaultdict(list)
    for payload in netlink.dump("dump addresses", RTM_GETADDR, _ADDRESS.pack(0, 0, 0, 0, index)):
        family, prefix, _, scope, index = fixed(_ADDRESS, payload)
        values = attributes(payload, _ADDRESS.size)
        packed = values.get(2) or values.get(1)  # IFA_LOCAL, else IFA_ADDRESS, which is the peer's
        if family in _FAMILIES and packed:
            found[index].append(Address(f"{address(packed)}/{prefix}", scope=scope))
    return {index: tuple(some) for index, some in found.items()}
