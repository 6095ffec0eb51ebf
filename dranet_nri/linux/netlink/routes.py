"""Routes of table main that show a use of links: default, sourced, and of routing daemons.

Numbers without a name in Python's socket module are RTA_* and NHA_* of linux/rtnetlink.h and
nexthop.h.
"""

import errno
import socket
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import ATTRIBUTE, address, attributes, fixed, u32
from dranet_nri.linux.netlink.decoded import DecodedMessages
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import DefaultRoute

RTM_GETROUTE: Final = 26
RTM_GETNEXTHOP: Final = 106

SourcedRoute = tuple[str, str, tuple[int, ...]]  # destination, preferred source, ifindexes
RouteUses = tuple[tuple[DefaultRoute, ...], tuple[tuple[int, str], ...], tuple[SourcedRoute, ...]]

_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # family, dst len, src len, tos, table, …, type, flags
_NEXTHOP: Final = struct.Struct("=BBBBI")  # family, scope, protocol, reserved, flags
_RTNEXTHOP: Final = struct.Struct("=HBBi")  # length, flags, hops, index
_GROUP_ENTRY: Final = struct.Struct("=IBBH")  # id, weight, reserved

_UNICAST: Final = 1
_MAIN: Final = 254
# Of 0.0.0.0/1 and 128.0.0.0/1, or 2000::/3, which VPN clients and others add for a default route.
PARTIAL_LENGTH: Final = 3
_RTPROT_KERNEL: Final = 2
_RTPROT_RA: Final = 9
_SOURCE: Final = ATTRIBUTE.pack(8, 7)  # header of an IPv4 RTA_PREFSRC
# Routing daemons of RTPROT_* (linux/rtnetlink.h), and of FRR above 189 (zebra/rt_netlink.h), by the
# names that `ip route` shows.
_DAEMONS: Final = {
    8: "gated", 10: "mrt", 11: "zebra", 12: "bird", 14: "xorp", 15: "ntk", 17: "mrouted",
    18: "keepalived", 42: "babel", 84: "ovn", 99: "openr", 186: "bgp", 187: "isis", 188: "ospf",
    189: "rip", 190: "ripng", 191: "nhrp", 192: "eigrp", 193: "ldp", 194: "sharp", 195: "pbr",
    196: "zstatic", 197: "openfabric", 198: "srte",
}  # fmt: skip
FAMILIES: Final = {int(socket.AF_INET): 4, int(socket.AF_INET6): 6}


@dataclass(frozen=True, slots=True)
class MainRoute:
    """A route. Equal ones differ in their destination only.

    Attributes:
        links: ifindexes; () if a nexthop object has them.
        nexthop: id of its nexthop object, 0 without one.
        length: prefix length of a default or partial route, PARTIAL_LENGTH + 1 of others.
        source: its preferred source, b"" if IPv6.
        bits: prefix length.
    """

    family: int
    metric: int
    links: tuple[int, ...]
    nexthop: int
    protocol: int
    length: int
    source: bytes
    destination: bytes = field(compare=False)
    bits: int = field(compare=False)


def main_routes(netlink: RtnetlinkSocket) -> RouteUses:
    """Return unicast routes of table main, of both families.

    Returns:
        The default routes, and partial ones; ifindex and protocol of the routes of routing daemons;
        the IPv4 routes with a preferred source, without those that the kernel adds.

    Raises:
        KernelError: a dump failed.
    """
    return uses_of(netlink, read_routes(netlink))


def read_routes(netlink: RtnetlinkSocket) -> tuple[MainRoute, ...]:
    """Return unicast routes of table main that show a use of links, of both families.

    Default and partial routes, and of the others each way and source once.

    Raises:
        KernelError: a dump failed.
    """
    return tuple(route for family in FAMILIES for route in _family_routes(netlink, family))


def uses_of(netlink: RtnetlinkSocket, routes: Collection[MainRoute]) -> RouteUses:
    """Return what the routes show, see main_routes.

    Raises:
        KernelError: a dump of nexthop objects failed.
    """
    objects: dict[int, tuple[int, ...]] = {}
    if not all(route.links for route in routes):
        objects = _nexthop_links(netlink)  # sysctl nexthop_compat_mode=0: routes name objects only
    links = {route: route.links or objects.get(route.nexthop, ()) for route in routes}
    defaults = tuple(
        DefaultRoute(
            FAMILIES[route.family],
            route.metric,
            links[route],
            advertised=route.protocol == _RTPROT_RA,
            partial=route.length > 0,
        )
        for route in routes
        if route.length <= PARTIAL_LENGTH
    )
    by_daemon = {
        (index, _DAEMONS[route.protocol])
        for route in routes
        if route.protocol in _DAEMONS
        for index in links[route]
    }
    sourced = tuple(
        (f"{address(route.destination)}/{route.bits}", address(route.source), links[route])
        for route in routes
        if route.source
    )
    return defaults, tuple(sorted(by_daemon)), sourced


def _family_routes(netlink: RtnetlinkSocket, family: int) -> Collection[MainRoute]:
    found: dict[MainRoute, None] = {}
    header = _ROUTE.pack(family, 0, 0, 0, _MAIN, 0, 0, _UNICAST, 0)
    try:
        payloads = netlink.dump("dump routes", RTM_GETROUTE, header)
    except KernelError as error:
        if error.code in (errno.ENOENT, errno.EAFNOSUPPORT, errno.EOPNOTSUPP):
            return found  # a table exists with its first route; IPv6 may be disabled
        raise
    for route in _of_host[family].of(payloads):
        if route is not None:
            found[route] = None
    return found


def decoded_route(family: int, payload: bytes) -> MainRoute | None:
    """Return the route of a message, None for one that shows no use of a link.

    Raises:
        KernelError: EBADMSG: the message is too short.
    """
    route_family, length, _, _, table, protocol, _, kind, _ = fixed(_ROUTE, payload)
    narrow = length > PARTIAL_LENGTH
    has_source = protocol != _RTPROT_KERNEL and _SOURCE in payload
    ignored = narrow and not has_source and protocol not in _DAEMONS
    if (route_family, kind) != (family, _UNICAST) or ignored:
        return None
    values = attributes(payload, _ROUTE.size)
    if (u32(values.get(15)) or table) != _MAIN:
        return None
    source = values.get(7, b"") if has_source and family == socket.AF_INET else b""
    metric, kept = (0, PARTIAL_LENGTH + 1) if narrow else (u32(values.get(6)), length)
    way = family, metric, route_links(values), u32(values.get(30)), protocol, kept
    return MainRoute(*way, source, values.get(1, bytes(4)), length)


_of_host: Final = {family: DecodedMessages(partial(decoded_route, family)) for family in FAMILIES}


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
