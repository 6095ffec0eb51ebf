"""Default routes of a network namespace, with their links.

Numbers without a name in Python's socket module are RTA_* and NHA_* of linux/rtnetlink.h and
nexthop.h.
"""

import errno
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import attributes, fixed, u32
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import DefaultRoute

RTM_GETROUTE: Final = 26
RTM_GETNEXTHOP: Final = 106

_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # family, dst len, src len, tos, table, …, type, flags
_NEXTHOP: Final = struct.Struct("=BBBBI")  # family, scope, protocol, reserved, flags
_RTNEXTHOP: Final = struct.Struct("=HBBi")  # length, flags, hops, index
_GROUP_ENTRY: Final = struct.Struct("=IBBH")  # id, weight, reserved

_UNICAST: Final = 1
_MAIN: Final = 254
# Of 0.0.0.0/1 and 128.0.0.0/1, or 2000::/3, which VPN clients and others add for a default route.
PARTIAL_LENGTH: Final = 3
_RTPROT_RA: Final = 9
_FAMILIES: Final = {int(socket.AF_INET): 4, int(socket.AF_INET6): 6}


def default_routes(netlink: RtnetlinkSocket) -> tuple[DefaultRoute, ...]:
    """Return the unicast default routes of table main, of both families, and partial ones.

    Raises:
        KernelError: a dump failed.
    """
    routes = [route for family in _FAMILIES for route in _family_defaults(netlink, family)]
    objects: dict[int, tuple[int, ...]] = {}
    if not all(route.links for route in routes):
        objects = _nexthop_links(netlink)  # sysctl nexthop_compat_mode=0: routes name objects only
    return tuple(
        DefaultRoute(
            _FAMILIES[route.family],
            route.metric,
            route.links or objects.get(route.nexthop, ()),
            advertised=route.protocol == _RTPROT_RA,
            partial=route.length > 0,
        )
        for route in routes
    )


@dataclass(frozen=True, slots=True)
class _Route:
    family: int
    metric: int
    links: tuple[int, ...]
    nexthop: int
    protocol: int
    length: int


def _family_defaults(netlink: RtnetlinkSocket, family: int) -> Iterator[_Route]:
    header = _ROUTE.pack(family, 0, 0, 0, _MAIN, 0, 0, _UNICAST, 0)
    try:
        payloads = netlink.dump("dump routes", RTM_GETROUTE, header)
    except KernelError as error:
        if error.code in (errno.ENOENT, errno.EAFNOSUPPORT, errno.EOPNOTSUPP):
            return  # a table exists with its first route; IPv6 may be disabled
        raise
    for payload in payloads:
        route_family, length, _, _, table, protocol, _, kind, _ = fixed(_ROUTE, payload)
        if (route_family, kind) != (family, _UNICAST) or length > PARTIAL_LENGTH:
            continue
        values = attributes(payload, _ROUTE.size)
        if (u32(values.get(15)) or table) == _MAIN:
            metric, nexthop = u32(values.get(6)), u32(values.get(30))
            yield _Route(family, metric, route_links(values), nexthop, protocol, length)


def route_links(values: Mapping[int, bytes]) -> tuple[int, ...]:
    """Return the ifindexes of a route's links, from its attributes."""
    return tuple(sorted({u32(values.get(4)), *_multipath(values.get(9, b""))} - {0}))


def _multipath(data: bytes) -> Iterator[int]:
    offset = 0
    while offset + _RTNEXTHOP.size <= len(data):
        length, _, _, index = _RTNEXTHOP.unpack_from(data, offset)
        yield index
        offset += max((length + 3) & ~3, _RTNEXTHOP.size)


def _nexthop_links(netlink: RtnetlinkSocket) -> dict[int, tuple[int, ...]]:
    """Return nexthop object id -> ifindexes, groups resolved."""
    single: dict[int, tuple[int, ...]] = {}
    groups: dict[int, list[int]] = {}
    for payload in netlink.dump("dump nexthops", RTM_GETNEXTHOP, _NEXTHOP.pack(0, 0, 0, 0, 0)):
        values = attributes(payload, _NEXTHOP.size)
        number = u32(values.get(1))
        if 5 in values:
            single[number] = (u32(values[5]),)
        if 2 in values:
            whole = len(values[2]) // _GROUP_ENTRY.size * _GROUP_ENTRY.size
            groups[number] = [entry[0] for entry in _GROUP_ENTRY.iter_unpack(values[2][:whole])]
    members = {
        number: tuple(sorted(link for hop_id in ids for link in single.get(hop_id, ())))
        for number, ids in groups.items()
    }
    return single | members
