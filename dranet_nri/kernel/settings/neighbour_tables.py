"""Neighbour parameters of links: which sysctls of net/<family>/neigh/<link> are known.

The tables of all links are one dump per session; the files are 28 for each link, and one takes as
long as five messages.

Rules:
1. Values are those of files: a message has other units and fewer bits. They are cached by the
   parameters in the message, which most links have in common.
2. The cache has nothing that changed while it was read.

Numbers are those of linux/neighbour.h.
"""

import struct
from collections.abc import Iterable
from socket import AF_INET, AF_INET6
from typing import Final

from dranet_nri.linux.netlink.codec import attributes, fixed, u32, u32_attribute
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import Sysctl

RTM_GETNEIGHTBL: Final = 66
NDTA_PARMS: Final = 6
NDTPA_IFINDEX: Final = 1
# One for each key below, in another order.
_COMPARED: Final = (4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19)
# Files of net/<family>/neigh/<link>, without those with the same value in another unit. A move
# resets them, and they are in no array.
NEIGHBOUR_KEYS: Final = (
    *("anycast_delay", "app_solicit", "base_reachable_time_ms", "delay_first_probe_time"),
    *("gc_stale_time", "interval_probe_time_ms", "locktime", "mcast_resolicit", "mcast_solicit"),
    *("proxy_delay", "proxy_qlen", "retrans_time_ms", "ucast_solicit", "unres_qlen_bytes"),
)
MAX_CACHED: Final = 64  # different parameters

_HEADER: Final = struct.Struct("=Bxxx")  # struct ndtmsg
_FAMILIES: Final = {int(AF_INET): "ipv4", int(AF_INET6): "ipv6"}

# By family, what decides whether two links have the same sysctls.
LinkParameters = tuple[tuple[str, tuple[bytes | None, ...]], ...]

_known: dict[LinkParameters, tuple[Sysctl, ...]] = {}


def dump_tables(netlink: RtnetlinkSocket, where: str) -> list[bytes]:
    """Return the messages of the namespace's links, for `parameters_of`.

    Raises:
        KernelError: the dump failed.
    """
    return netlink.dump(f"dump neighbour tables in {where}", RTM_GETNEIGHTBL, bytes(4))


def parameters_of(tables: Iterable[bytes], index: int) -> LinkParameters:
    """Return the parameters of a link, ordered by family.

    A family that the link does not have is left out. So may another one be: the kernel sends a long
    table in parts, and if a link of an earlier part ends, it skips one (neightbl_dump_info).

    Raises:
        KernelError: a message is too short.
    """
    packed = u32_attribute(NDTPA_IFINDEX, index)
    found: dict[str, tuple[bytes | None, ...]] = {}
    for body in tables:
        if packed not in body:  # only a few messages are decoded, of hundreds
            continue
        (family,) = fixed(_HEADER, body)
        attrs = attributes(attributes(body, _HEADER.size).get(NDTA_PARMS, b""))
        if u32(attrs.get(NDTPA_IFINDEX)) == index and family in _FAMILIES:
            found[_FAMILIES[family]] = tuple(map(attrs.get, _COMPARED))
    return tuple(sorted(found.items()))


def known_sysctls(parameters: LinkParameters) -> tuple[Sysctl, ...] | None:
    """Return the neighbour sysctls of a link with these parameters, None if they are not known."""
    return _known.get(parameters)


def remember(parameters: LinkParameters, sysctls: Iterable[Sysctl]) -> None:
    """Cache the neighbour sysctls that the files of a link with these parameters have.

    Not if one is missing: the link was renamed while they were read.
    """
    found = tuple(sysctls)
    if len(found) != sum(value is not None for _, values in parameters for value in values):
        return
    if len(_known) >= MAX_CACHED:
        _known.clear()
    _known[parameters] = found
