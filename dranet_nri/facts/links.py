"""Links, addresses and default routes of the calling thread's network namespace.

Numbers without a name in Python's socket module are IFLA_*, IFA_*, RTA_*, NHA_* and TCA_* of
linux/if_link.h, if_addr.h, rtnetlink.h, nexthop.h and pkt_sched.h.
"""

import errno
import socket
import struct
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.facts.rtnetlink import (
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_GETNEXTHOP,
    RTM_GETQDISC,
    RTM_GETROUTE,
    RTM_GETTFILTER,
    RouteSocket,
    attribute_list,
    attributes,
)
from dranet_nri.inventory import DefaultRoute
from dranet_nri.model import Address, Link, OffloadSizes

_LINK: Final = struct.Struct("=BxHiII")  # family, ARPHRD type, index, flags, change
_ADDRESS: Final = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # family, dst len, src len, tos, table, …, type, flags
_NEXTHOP: Final = struct.Struct("=BBBBI")  # family, scope, protocol, reserved, flags
_LEG: Final = struct.Struct("=HBBi")  # length, flags, hops, index
_GROUP_ENTRY: Final = struct.Struct("=IBBH")  # id, weight, reserved
_TRAFFIC: Final = struct.Struct("=BxHiIII")  # family, pad, index, handle, parent, info
_WITHOUT_STATISTICS: Final = struct.pack("=HHI", 8, 29, 1 << 3)  # IFLA_EXT_MASK: SKIP_STATS

_UP: Final = 0x1
_LOOPBACK: Final = 0x8
_UNICAST: Final = 1
_MAIN: Final = 254
_OPERSTATES: Final = (
    "unknown",
    "notpresent",
    "down",
    "lowerlayerdown",
    "testing",
    "dormant",
    "up",
)
_FAMILIES: Final = {int(socket.AF_INET): 4, int(socket.AF_INET6): 6}
_CLSACT_SIDES: Final = (
    0xFFFFFFF2,
    0xFFFFFFF3,
)  # TC_H_MIN_INGRESS, TC_H_MIN_EGRESS below TC_H_CLSACT


@dataclass(frozen=True, slots=True)
class SeenLink:
    """A link, and what only the inventory asks of it.

    Attributes:
        port_name: IFLA_PHYS_PORT_NAME, "" if the driver gives none.
        pinned: IFLA_NETNS_IMMUTABLE (Linux 6.14 and later tell).
    """

    link: Link
    port_name: str = ""
    pinned: bool = False


def links(netlink: RouteSocket) -> tuple[SeenLink, ...]:
    """Return every link of the namespace, by ascending index.

    Raises:
        KernelError: the dump failed.
    """
    header = _LINK.pack(0, 0, 0, 0, 0) + _WITHOUT_STATISTICS
    found = (_link(payload) for payload in netlink.dump(RTM_GETLINK, header))
    return tuple(sorted(found, key=lambda seen: seen.link.index))


def addresses(netlink: RouteSocket) -> dict[int, tuple[Address, ...]]:
    """Return ifindex -> its IPv4 and IPv6 addresses, of which only cidr and scope are filled in.

    Raises:
        KernelError: the dump failed.
    """
    found: dict[int, list[Address]] = defaultdict(list)
    for payload in netlink.dump(RTM_GETADDR, _ADDRESS.pack(0, 0, 0, 0, 0)):
        family, prefix, _, scope, index = _ADDRESS.unpack_from(payload)
        values = attributes(payload, _ADDRESS.size)
        packed = values.get(2) or values.get(1)  # IFA_LOCAL; IFA_ADDRESS is the peer's then
        if family in _FAMILIES and packed:
            text = socket.inet_ntop(family, packed)
            found[index].append(Address(f"{text}/{prefix}", scope=scope))
    return {index: tuple(some) for index, some in found.items()}


def default_routes(netlink: RouteSocket) -> tuple[DefaultRoute, ...]:
    """Return the unicast default routes of table main, both families.

    Raises:
        KernelError: a dump failed.
    """
    routes = [route for family in _FAMILIES for route in _family_defaults(netlink, family)]
    if all(route.legs for route in routes):
        return tuple(DefaultRoute(_FAMILIES[r.family], r.metric, r.legs) for r in routes)
    objects = _nexthop_legs(netlink)  # sysctl nexthop_compat_mode=0: routes name objects only
    return tuple(
        DefaultRoute(_FAMILIES[r.family], r.metric, r.legs or objects.get(r.nexthop, ()))
        for r in routes
    )


def tc_filters(netlink: RouteSocket) -> dict[int, tuple[str, ...]]:
    """Return ifindex -> names of the BPF classifiers on its clsact qdisc, both directions.

    Raises:
        KernelError: a dump failed.
    """
    found: dict[int, tuple[str, ...]] = {}
    for payload in netlink.dump(RTM_GETQDISC, _TRAFFIC.pack(0, 0, 0, 0, 0, 0)):
        index = _TRAFFIC.unpack_from(payload)[2]
        if _text(attributes(payload, _TRAFFIC.size).get(1)) == "clsact":
            found[index] = tuple(sorted(set(_filters(netlink, index))))
    return {index: names for index, names in found.items() if names}


@dataclass(frozen=True, slots=True)
class _Route:
    family: int
    metric: int
    legs: tuple[int, ...]
    nexthop: int


def _link(payload: bytes) -> SeenLink:
    _, arphrd, index, flags, _ = _LINK.unpack_from(payload)
    values = attributes(payload, _LINK.size)
    elsewhere = 37 in values  # IFLA_LINK_NETNSID: the lower link's index counts in another one
    state = values.get(16, b"\0")[0]
    link = Link(
        index=index,
        name=_text(values.get(3)),
        kind=_text(attributes(values.get(18, b"")).get(1)),
        arphrd=arphrd,
        mac=values.get(1, b"").hex(":"),
        mtu=_u32(values.get(4)),
        min_mtu=_u32(values.get(50)),
        max_mtu=_u32(values.get(51)),
        up=bool(flags & _UP),
        carrier=values.get(33, b"\0")[0] == 1,
        operstate=_OPERSTATES[state] if state < len(_OPERSTATES) else "unknown",
        master=_u32(values.get(10)),
        lower=0 if elsewhere else _u32(values.get(5)),
        loopback=bool(flags & _LOOPBACK),
        alias=_text(values.get(20)),
        altnames=tuple(
            _text(value) for kind, value in attribute_list(values.get(52, b"")) if kind == 53
        ),
        txqlen=_u32(values.get(13)),
        sizes=OffloadSizes(*(_u32_or_none(values.get(kind)) for kind in (41, 58, 63, 64))),
        bus=_text(values.get(57)),
        parent=_text(values.get(56)),
    )
    return SeenLink(link, _text(values.get(38)), values.get(67, b"\0")[0] == 1)


def _family_defaults(netlink: RouteSocket, family: int) -> Iterator[_Route]:
    header = _ROUTE.pack(family, 0, 0, 0, _MAIN, 0, 0, _UNICAST, 0)
    try:
        payloads = netlink.dump(RTM_GETROUTE, header)
    except KernelError as error:
        if error.code in (errno.ENOENT, errno.EAFNOSUPPORT, errno.EOPNOTSUPP):
            return  # the table is made with its first route; IPv6 may be switched off
        raise
    for payload in payloads:
        seen, length, _, _, table, _, _, kind, _ = _ROUTE.unpack_from(payload)
        if (seen, length, kind) != (family, 0, _UNICAST):
            continue
        values = attributes(payload, _ROUTE.size)
        if (_u32(values.get(15)) or table) == _MAIN:
            legs = {_u32(values.get(4)), *_multipath(values.get(9, b""))} - {0}
            yield _Route(family, _u32(values.get(6)), tuple(sorted(legs)), _u32(values.get(30)))


def _multipath(data: bytes) -> Iterator[int]:
    offset = 0
    while offset + _LEG.size <= len(data):
        length, _, _, index = _LEG.unpack_from(data, offset)
        yield index
        offset += max((length + 3) & ~3, _LEG.size)


def _nexthop_legs(netlink: RouteSocket) -> dict[int, tuple[int, ...]]:
    """Return nexthop object id -> ifindexes, groups resolved."""
    single: dict[int, tuple[int, ...]] = {}
    groups: dict[int, list[int]] = {}
    for payload in netlink.dump(RTM_GETNEXTHOP, _NEXTHOP.pack(0, 0, 0, 0, 0)):
        values = attributes(payload, _NEXTHOP.size)
        number = _u32(values.get(1))
        if 5 in values:
            single[number] = (_u32(values[5]),)
        if 2 in values:
            whole = len(values[2]) // _GROUP_ENTRY.size * _GROUP_ENTRY.size
            groups[number] = [entry[0] for entry in _GROUP_ENTRY.iter_unpack(values[2][:whole])]
    members = {
        number: tuple(sorted(leg for one in ids for leg in single.get(one, ())))
        for number, ids in groups.items()
    }
    return single | members


def _filters(netlink: RouteSocket, index: int) -> Iterator[str]:
    for parent in _CLSACT_SIDES:
        header = _TRAFFIC.pack(0, 0, index, 0, parent, 0)
        for payload in netlink.dump(RTM_GETTFILTER, header):
            values = attributes(payload, _TRAFFIC.size)
            name = _text(attributes(values.get(2, b"")).get(7))  # TCA_OPTIONS, TCA_BPF_NAME
            if _text(values.get(1)) == "bpf" and name:
                yield name


def _text(value: bytes | None) -> str:
    return (value or b"").rstrip(b"\0").decode(errors="replace")


def _u32(value: bytes | None) -> int:
    return int.from_bytes(value, sys.byteorder) if value else 0


def _u32_or_none(value: bytes | None) -> int | None:
    return None if value is None else _u32(value)
