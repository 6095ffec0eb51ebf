"""Policy routing: rules, and the links in their routing tables.

Numbers without a name are FRA_* and RTA_* of linux/fib_rules.h and rtnetlink.h.
"""

import struct
from collections.abc import Iterable
from errno import EAFNOSUPPORT, ENOENT, EOPNOTSUPP
from socket import AF_INET, AF_INET6
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import address, attribute, attributes, fixed, text, u32
from dranet_nri.linux.netlink.routes import PARTIAL_LENGTH, RTM_GETROUTE, route_links
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import PolicyRoute

RTM_GETRULE: Final = 34

_RULE: Final = struct.Struct("=BBBBBBBBI")  # family, dst len, src len, tos, table, …, action, flags
_ROUTE: Final = _RULE  # family, dst len, src len, tos, table, …, type, flags
_COMMON: Final = frozenset({0, 253, 254, 255})  # tables that every namespace has
_TO_TABLE: Final = 1
_UNICAST: Final = 1
_INVERT: Final = 0x2
_L3MDEV: Final = 19
_SELECTORS: Final = frozenset({1, 2, 3, 10, 17, 20, 22, 23, 24})  # dst, src, iif, mark, oif, uid, …
_ABSENT: Final = frozenset({ENOENT, EAFNOSUPPORT, EOPNOTSUPP})  # no such table; no such family


def dump_rules(netlink: RtnetlinkSocket, where: str = "") -> list[bytes]:
    """Return the messages of the rules of a namespace, which is named in errors.

    Raises:
        KernelError: the dump failed.
    """
    return netlink.dump(f"dump rules {where}".rstrip(), RTM_GETRULE, bytes(_RULE.size))


def policy_routes(netlink: RtnetlinkSocket, rules: Iterable[bytes]) -> tuple[PolicyRoute, ...]:
    """Return the rules for tables other than the common ones, with links of default routes.

    Routes to narrower destinations do not matter: as in the main table, a claim may get their link,
    and the pod inherits them.

    Args:
        netlink: a socket of the namespace.
        rules: the messages of its rules.

    Raises:
        KernelError: a dump failed.
    """
    tables: dict[tuple[int, int], frozenset[int]] = {}
    found: list[PolicyRoute] = []
    for body in rules:
        family, dst_len, src_len, _, table, _, _, action, flags = fixed(_RULE, body)
        attrs = attributes(body, _RULE.size)
        table = u32(attrs.get(15), table)
        if action != _TO_TABLE or table in _COMMON or _L3MDEV in attrs:
            continue
        if family not in {AF_INET, AF_INET6}:
            continue
        if (family, table) not in tables:
            tables[family, table] = _table(netlink, family, table)
        source = address(attrs.get(2))
        found.append(
            PolicyRoute(
                table=table,
                links=tables[family, table],
                source=f"{source}/{src_len}" if source else "",
                only_destination=bool(dst_len) and not attrs.keys() & (_SELECTORS - {1}),
                names=tuple(text(attrs[kind]) for kind in (3, 17) if kind in attrs),
                invert=bool(flags & _INVERT),
            )
        )
    return tuple(found)


def _table(netlink: RtnetlinkSocket, family: int, table: int) -> frozenset[int]:
    """Return the links of a table's unicast default routes."""
    request = _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, _UNICAST, 0)
    request += attribute(15, struct.pack("=I", table))
    try:
        bodies = netlink.dump(f"dump routes of table {table}", RTM_GETROUTE, request)
    except KernelError as error:
        if error.code in _ABSENT:
            return frozenset()
        raise
    return frozenset(link for body in bodies for link in _default_route_links(body))


def _default_route_links(body: bytes) -> tuple[int, ...]:
    """Return the links of a unicast default route, also a partial one; none of any other route."""
    _, length, _, _, _, _, _, kind, _ = fixed(_ROUTE, body)
    if length > PARTIAL_LENGTH or kind != _UNICAST:
        return ()
    return route_links(attributes(body, _ROUTE.size))
