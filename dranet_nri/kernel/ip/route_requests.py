"""Requests that add or delete a route: encoded bodies of RTM_NEWROUTE and RTM_DELROUTE."""

import struct
from collections.abc import Sequence
from socket import AF_INET6
from typing import Final

from dranet_nri.kernel.messages import RouteMessage
from dranet_nri.linux.netlink import codec
from dranet_nri.linux.netlink.codec import attribute, encode, family_of, split_prefix
from dranet_nri.model import NextHop, Route

RTA_METRICS: Final = 8
RTAX_MTU: Final = 2
NLA_F_NESTED: Final = 0x8000
RTNH_F_ONLINK: Final = 4

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
    attrs: list[tuple[str, codec.Value]] = [("RTA_TABLE", route.table)]
    if length:
        attrs.append(("RTA_DST", plain))
    if hops:
        attrs.append(("RTA_MULTIPATH", [_hop(family, hop, link) for hop, link in hops]))
    else:
        attrs += (("RTA_OIF", index), *_via(family, route.gateway))
    if route.source:
        attrs.append(("RTA_PREFSRC", route.source))
    if route.metric:
        attrs.append(("RTA_PRIORITY", route.metric))
    if route.realms:
        attrs.append(("RTA_FLOW", route.realms))
    if family == AF_INET6 and route.preference:
        attrs.append(("RTA_PREF", route.preference))
    if family == AF_INET6 and route.expires_s:
        attrs.append(("RTA_EXPIRES", struct.pack("=I", route.expires_s)))
    fixed = {
        "family": family,
        "dst_len": length,
        "tos": route.tos,
        "table": route.table if route.table < 256 else 0,
        "proto": route.protocol,
        "scope": route.scope,
        "type": route.type,
        "flags": RTNH_F_ONLINK if route.onlink and not hops else 0,
    }
    return encode(RouteMessage, fixed, attrs) + _requested(route)


def _requested(route: Route) -> bytes:
    """Return the attributes that are stored as the kernel's bytes."""
    metrics = bytes.fromhex(route.metrics)
    if route.mtu:
        metrics = attribute(RTAX_MTU, struct.pack("=I", route.mtu)) + metrics
    encap = bytes.fromhex(route.encap)
    return (attribute(RTA_METRICS | NLA_F_NESTED, metrics) if metrics else b"") + encap


def _hop(family: int, hop: NextHop, link: int) -> dict[str, object]:
    return {
        "oif": link,
        "hops": hop.weight - 1,
        "flags": RTNH_F_ONLINK if hop.onlink else 0,
        "attrs": list(_via(family, hop.gateway)),
    }


def _via(family: int, gateway: str) -> tuple[tuple[str, codec.Value], ...]:
    if not gateway:
        return ()
    if family_of(gateway) != family:
        return (("RTA_VIA", {"family": family_of(gateway), "addr": gateway}),)
    return (("RTA_GATEWAY", gateway),)
