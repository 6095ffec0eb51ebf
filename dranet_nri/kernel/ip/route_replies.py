"""Replies with routes: decoded bodies of RTM_NEWROUTE.

Numbers and structs are those of linux/rtnetlink.h.
"""

import struct
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from socket import AF_INET, AF_INET6
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.kernel.ip.route_requests import (
    HEADER,
    HOP,
    NLA_F_NESTED,
    RTA_DST,
    RTA_FLOW,
    RTA_GATEWAY,
    RTA_METRICS,
    RTA_MULTIPATH,
    RTA_PREF,
    RTA_PREFSRC,
    RTA_PRIORITY,
    RTA_TABLE,
    RTA_VIA,
    RTAX_MTU,
    RTNH_F_ONLINK,
)
from dranet_nri.linux.netlink import codec
from dranet_nri.linux.netlink.codec import attribute, attributes, fixed, u8, u32, walk
from dranet_nri.model import NextHop, Route

RTA_CACHEINFO: Final = 12
RTA_ENCAP_TYPE: Final = 21
RTA_ENCAP: Final = 22
RTA_NH_ID: Final = 30
# lwtunnel_encap_types whose dump can be sent back as a request: MPLS, IP, ILA, IPv6, SRv6. Others
# refer to a BPF program that cannot be looked up (linux/lwtunnel.h).
ENCAP_TYPES: Final = frozenset({1, 2, 3, 4, 5})

RTM_F_CLONED: Final = 0x200
RTPROT_KERNEL: Final = 2
RT_TABLE_LOCAL: Final = 255
RTN_DERIVED: Final = frozenset({2, 3, 4, 5})  # local, broadcast, anycast, multicast
USER_HZ: Final = 100  # unit of rta_expires, on every architecture of Kubernetes
MAX_CACHED: Final = 256  # cached routes and metrics; a device is observed repeatedly
CACHED_LEN: Final = 256  # bytes of a message: a pod can make those of its routes longer

_UNRESTORABLE: Final = frozenset({RTA_NH_ID, RTA_ENCAP_TYPE, RTA_MULTIPATH})
_UNRESTORABLE_NEXTHOP: Final = frozenset({RTA_FLOW, RTA_ENCAP_TYPE})
_EXPIRES: Final = struct.Struct("=8xi")  # rta_expires of struct rta_cacheinfo


def decoded_route(body: bytes, index: int, names: Mapping[int, str]) -> Route | str:
    """Return the route, "" if the kernel derived it from an address, or it is cached or expired.

    For a route that cannot be restored exactly, return a text.
    """
    decode = _decoded if len(body) <= CACHED_LEN else _decoded.__wrapped__
    route, hops = decode(body)
    if isinstance(route, str) or not hops:
        return route
    return replace(route, nexthops=_nexthops(hops, index, names))


@lru_cache(MAX_CACHED)
def _decoded(body: bytes) -> tuple[Route | str, bytes]:
    """Return the result of decoded_route without nexthops, and RTA_MULTIPATH."""
    family, length, source, tos, table, protocol, scope, kind, flags = fixed(HEADER, body)
    attrs = attributes(body, HEADER.size)
    table = u32(attrs.get(RTA_TABLE), table)
    derived = protocol == RTPROT_KERNEL and (table == RT_TABLE_LOCAL or kind in RTN_DERIVED)
    if derived or flags & RTM_F_CLONED:
        return "", b""
    destination = destination_of(family, attrs, length)
    part = "" if not source and _UNRESTORABLE.isdisjoint(attrs) else _unrestorable(source, attrs)
    if part:
        return f"{destination} in table {table}, which has {part}", b""
    expires = 0
    if family == AF_INET6 and RTA_CACHEINFO in attrs:
        (ticks,) = fixed(_EXPIRES, attrs[RTA_CACHEINFO])
        expires = ticks // USER_HZ
        if ticks and expires <= 0:  # the kernel keeps expired routes for up to 30 s
            return "", b""
    mtu, metrics = _metrics(attrs[RTA_METRICS]) if RTA_METRICS in attrs else (0, "")
    route = Route(
        destination=destination,
        gateway=_gateway(attrs),
        source=codec.address(attrs.get(RTA_PREFSRC)),
        scope=scope,
        table=table,
        metric=u32(attrs.get(RTA_PRIORITY)),
        protocol=protocol,
        type=kind,
        mtu=mtu,
        onlink=bool(flags & RTNH_F_ONLINK),
        expires_s=expires,
        preference=u8(attrs.get(RTA_PREF)),
        tos=tos,
        metrics=metrics,
        realms=u32(attrs.get(RTA_FLOW)),
        encap=_encap(attrs) if RTA_ENCAP_TYPE in attrs else "",
    )
    return route, attrs.get(RTA_MULTIPATH, b"")


@lru_cache(MAX_CACHED)
def _metrics(data: bytes) -> tuple[int, str]:
    """Return the MTU, and the other metrics in hex."""
    others = (attribute(kind, value) for kind, value in walk(data) if kind != RTAX_MTU)
    return u32(attributes(data).get(RTAX_MTU)), b"".join(others).hex()


def _encap(attrs: Mapping[int, bytes]) -> str:
    kind = attribute(RTA_ENCAP_TYPE, attrs[RTA_ENCAP_TYPE])
    return (kind + attribute(RTA_ENCAP | NLA_F_NESTED, attrs.get(RTA_ENCAP, b""))).hex()


def _unrestorable(source: int, attrs: Mapping[int, bytes]) -> str:
    """Return the part of a route that cannot be restored, as text, "" without one."""
    if RTA_NH_ID in attrs:
        return f"nexthop object {u32(attrs[RTA_NH_ID])}"
    if source:
        return f"a source prefix of {source} bits"
    kind = int.from_bytes(attrs.get(RTA_ENCAP_TYPE, b""), sys.byteorder)
    if RTA_ENCAP_TYPE in attrs and kind not in ENCAP_TYPES:
        return f"an encapsulation of type {kind}"
    nexthops = (own for *_, own in hops_of(attrs.get(RTA_MULTIPATH, b"")))
    plain = all(_UNRESTORABLE_NEXTHOP.isdisjoint(own) for own in nexthops)
    return "" if plain else "nexthops with realms or tunnels"


def _gateway(attrs: Mapping[int, bytes]) -> str:
    """Return the gateway, which is in RTA_VIA if it is of another family."""
    if RTA_VIA in attrs:
        return codec.address(attrs[RTA_VIA][2:])  # struct rtvia: family, address
    return codec.address(attrs.get(RTA_GATEWAY))


def _nexthops(data: bytes, index: int, names: Mapping[int, str]) -> tuple[NextHop, ...]:
    return tuple(
        NextHop(
            gateway=_gateway(attrs),
            weight=hops + 1,
            onlink=bool(flags & RTNH_F_ONLINK),
            device="" if link == index else names.get(link, str(link)),
        )
        for flags, hops, link, attrs in hops_of(data)
    )


def hops_of(data: bytes) -> Iterator[tuple[int, int, int, dict[int, bytes]]]:
    """Yield flags, hops, ifindex and attributes of each nexthop."""
    offset = 0
    while offset + HOP.size <= len(data):
        length, flags, hops, link = HOP.unpack_from(data, offset)
        if length < HOP.size:
            break
        yield flags, hops, link, attributes(data[offset : offset + length], HOP.size)
        offset += (length + 3) & ~3


def destination_of(family: int, attrs: Mapping[int, bytes], length: int) -> str:
    """Return a route's destination with its prefix length."""
    anywhere = "0.0.0.0" if family == AF_INET else "::"  # noqa: S104 (a destination)
    return f"{codec.address(attrs.get(RTA_DST)) or anywhere}/{length}"
