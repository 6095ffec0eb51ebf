"""Addresses of links, for the inventory and the publish guard.

Numbers without a name in Python's socket module are IFA_* of linux/if_addr.h.
"""

import socket
import struct
from collections import defaultdict
from typing import Final

from dranet_nri.linux.netlink.codec import address, attributes, fixed
from dranet_nri.linux.netlink.decoded import DecodedMessages
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
    payloads = netlink.dump("dump addresses", RTM_GETADDR, _ADDRESS.pack(0, 0, 0, 0, index))
    for owner, decoded in map(_decoded, payloads) if index else _of_host.of(payloads):
        if decoded is not None:
            found[owner].append(decoded)
    return {owner: tuple(some) for owner, some in found.items()}


def _decoded(payload: bytes) -> tuple[int, Address | None]:
    """Return ifindex and address of a message, no address for another family."""
    family, prefix, _, scope, index = fixed(_ADDRESS, payload)
    values = attributes(payload, _ADDRESS.size)
    packed = values.get(2) or values.get(1)  # IFA_LOCAL, else IFA_ADDRESS, which is the peer's
    if family not in _FAMILIES or not packed:
        return index, None
    return index, Address(f"{address(packed)}/{prefix}", scope=scope)


_of_host: Final = DecodedMessages(_decoded)
