"""Neighbour parameters of links, as the sysctls of net/<family>/neigh/<link>.

The tables of all links are one dump per session; the files are 28 for each link, and one takes as
long as five messages. Numbers are those of linux/neighbour.h; the units of the files are those of
neigh_sysctl_table (net/core/neighbour.c).
"""

import struct
from collections import defaultdict
from collections.abc import Mapping
from socket import AF_INET, AF_INET6
from typing import Final

from dranet_nri.linux.netlink.codec import attributes, fixed, u32, u64, walk
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket

RTM_GETNEIGHTBL: Final = 66
NDTA_PARMS: Final = 6
NDTPA_IFINDEX: Final = 1

# Attributes with numbers, and those with milliseconds: the unit of the file in milliseconds.
# USER_HZ is 100 on every architecture of Kubernetes.
_NUMBERS: Final = {
    9: "app_solicit",
    10: "ucast_solicit",
    11: "mcast_solicit",
    14: "proxy_qlen",
    16: "unres_qlen_bytes",
    17: "mcast_resolicit",
}
_TIMES: Final = {
    4: ("base_reachable_time_ms", 1),
    5: ("retrans_time_ms", 1),
    6: ("gc_stale_time", 1000),
    7: ("delay_first_probe_time", 1000),
    12: ("anycast_delay", 10),
    13: ("proxy_delay", 10),
    15: ("locktime", 10),
    19: ("interval_probe_time_ms", 1),
}
NEIGHBOUR_KEYS: Final = (*_NUMBERS.values(), *(key for key, _ in _TIMES.values()))

_HEADER: Final = struct.Struct("=Bxxx")  # struct ndtmsg
_FAMILIES: Final = {int(AF_INET): "ipv4", int(AF_INET6): "ipv6"}

# family → attributes of NDTA_PARMS
LinkParameters = Mapping[str, bytes]


def dump_parameters(netlink: RtnetlinkSocket, where: str) -> Mapping[int, LinkParameters]:
    """Return ifindex → parameters of the namespace's links, not decoded.

    A link without a family is left out of its table. So may another one be: the kernel sends a long
    table in parts, and if a link of an earlier part ends, it skips one (neightbl_dump_info).

    Raises:
        KernelError: the dump failed.
    """
    found: dict[int, dict[str, bytes]] = defaultdict(dict)
    for body in netlink.dump(f"dump neighbour tables in {where}", RTM_GETNEIGHTBL, bytes(4)):
        (family,) = fixed(_HEADER, body)
        parameters = attributes(body, _HEADER.size).get(NDTA_PARMS, b"")
        # The kernel puts it first. The default parameters of a table have none.
        index = next((u32(value) for kind, value in walk(parameters) if kind == NDTPA_IFINDEX), 0)
        if index and family in _FAMILIES:
            found[index][_FAMILIES[family]] = parameters
    return found


def neighbour_values(parameters: LinkParameters) -> dict[tuple[str, str], str]:
    """Return family and key → content of the file; keys that the kernel lacks are left out."""
    found: dict[tuple[str, str], str] = {}
    for family, nested in parameters.items():
        attrs = attributes(nested)
        for number, key in _NUMBERS.items():
            if number in attrs:
                found[family, key] = str(u32(attrs[number]))
        for number, (key, unit_ms) in _TIMES.items():
            if number in attrs:
                found[family, key] = str(u64(attrs[number]) // unit_ms)
    return found
