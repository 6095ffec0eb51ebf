"""Requests that add or delete a route: encoded bodies of RTM_NEWROUTE and RTM_DELROUTE."""

import struct
from collections.abc import Sequence
from socket import AF_INET6
from typing import Final

from dranet_nri.linux.netlink.codec import (
    attribute,
    family_of,
    packed,
    split_prefix,
    u32_attribute,
)
from dranet_nri.model import NextHop, Route

RTA_DST: Final = 1
RTA_OIF: Final = 4
RTA_GATEWAY: Final = 5
RTA_PRIORITY: Final = 6
RTA_PREFSRC: Final = 7
RTA_METRICS: Final = 8
RTA_MULTIPATH: Final = 9
RTA_FLOW: Final = 11
RTA_TABLE: Final = 15
RTA_VIA: Final = 18
RTA_PREF: Final = 20
RTA_EXPIRES: Final = 23
RTAX_MTU: Final = 2
NLA_F_NESTED: Final = 0x8000
RTNH_F_ONLINK: Final = 4

HEADER: Final = struct.Struct("=BBBBBBBBI")  # struct rtmsg
HOP: Final = struct.Struct("=HBBi")  # struct rtnexthop: length, flags, hops, ifindex

Hop = tuple[NextHop, int]  # and the ifindex of its link


def route_request(index: int, route: Route, hops: Sequence[Hop]) -> bytes:
    """Return the body of a request for a route.

    Args:
        index: ifindex of the link.
        route: the route.
        hops: its nexthops, if it is a multipath route; else empty.
    """
    plain, length = split_prefix(route.destination)
    family = family_of(plain)
    table = route.table if route.table < 256 else 0
    flags = RTNH_F_ONLINK if route.onlink and not hops else 0
    kinds = route.tos, table, route.protocol, route.scope, route.type, flags
    request = HEADER.pack(family, length, 0, *kinds) + u32_attribute(RTA_TABLE, route.table)
    if length:
        request += attribute(RTA_DST, packed(plain))
    if hops:
        listed = b"".join(_hop(family, hop, link) for hop, link in hops)
        request += attribute(RTA_MULTIPATH, listed)
    else:
        request += u32_attribute(RTA_OIF, index) + _via(family, route.gateway)
    if route.source:
        request += attribute(RTA_PREFSRC, packed(route.source))
    if route.metric:
        request += u32_attribute(RTA_PRIORITY, route.metric)
    if route.realms:
        request += u32_attribute(RTA_FLOW, route.realms)
    if family == AF_INET6 and route.preference:
        request += attribute(RTA_PREF, bytes([route.preference]))
    if family == AF_INET6 and route.expires_s:
        request += u32_attribute(RTA_EXPIRES, route.expires_s)
    return request + _requested(route)


def _requested(route: Route) -> bytes:
    """Return the attributes that are stored as the kernel's bytes."""
    metrics = bytes.fromhex(route.metrics)
    if route.mtu:
        metrics = u32_attribute(RTAX_MTU, route.mtu) + metrics
    encap = bytes.fromhex(route.encap)
    return (attribute(RTA_METRICS | NLA_F_NESTED, metrics) if metrics else b"") + encap


def _hop(family: int, hop: NextHop, link: int) -> bytes:
    via, flags = _via(family, hop.gateway), RTNH_F_ONLINK if hop.onlink else 0
    return HOP.pack(HOP.size + len(via), flags, hop.weight - 1, link) + via


def _via(family: int, gateway: str) -> bytes:
    """Return the attribute of a gateway, of the other family in struct rtvia."""
    if not gateway:
        return b""
    if family_of(gateway) != family:
        return attribute(RTA_VIA, struct.pack("=H", family_of(gateway)) + packed(gateway))
    return attribute(RTA_GATEWAY, packed(gateway))
