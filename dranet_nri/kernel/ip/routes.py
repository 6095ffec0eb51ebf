"""Routes (RTM_*ROUTE). Numbers and structs are those of linux/rtnetlink.h.

Rules:
1. Routes that the kernel adds with an address are not restored: its connected route, and the local,
   broadcast and anycast routes. Others in table local are, such as those of AnyIP.
2. A route that only shares destination, table and metric with the desired one is another route. On
   the host the desired one is appended to it; in a pod that would change the path of its packets.
3. A route that cannot be restored exactly is reported, not restored as a simpler route.
4. The kernel keeps a route whose gateway is no longer reachable, but does not add one (fib_check_nh
   and ip6_route_check_nh). On the host, its gateways get routes while the route is added.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from errno import EAFNOSUPPORT, EEXIST, EHOSTUNREACH, ENETUNREACH, EOPNOTSUPP
from functools import partial
from ipaddress import ip_network
from socket import AF_INET, AF_INET6
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.errors import KernelError
from dranet_nri.kernel.ip.route_replies import (
    RT_TABLE_LOCAL,
    RTM_F_CLONED,
    RTPROT_KERNEL,
    decoded_route,
    destination_of,
    hops_of,
)
from dranet_nri.kernel.ip.route_requests import (
    HEADER,
    RTA_MULTIPATH,
    RTA_OIF,
    RTA_PRIORITY,
    RTA_TABLE,
    Hop,
    route_request,
)
from dranet_nri.linux.netlink.codec import attributes, fixed, u32, u32_attribute
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import Address, Route
from dranet_nri.plan.routes.comparison import (
    IP6_RT_PRIO_ADDRCONF,
    RT_SCOPE_LINK,
    RouteKey,
    connected,
    lost_routes,
    nexthops_of,
    route_key,
)

RTM_NEWROUTE: Final = 24
RTM_DELROUTE: Final = 25
RTM_GETROUTE: Final = 26
NLM_F_EXCL_CREATE: Final = 0x600
NLM_F_APPEND_CREATE: Final = 0xC00

MAX_UNRESTORABLE: Final = 16  # reported routes; a routing daemon may have thousands
RTPROT_STATIC: Final = 4
LAST_METRIC: Final = 2**32 - 1
LINK_LOCAL, MULTICAST = "fe80::/64", "ff00::/8"  # as inet_ntop writes them


def dump_routes(
    netlink: RtnetlinkSocket, where: str, index: int, names: Mapping[int, str]
) -> tuple[tuple[Route, ...], tuple[str, ...]]:
    """Return the routes that use the link, of all tables, without those of rule 1.

    Args:
        netlink: socket in the namespace.
        where: name of the namespace in errors.
        index: ifindex of the link.
        names: ifindex -> name of the namespace's links, for multipath routes.

    Returns:
        The routes, and texts of those that cannot be restored exactly, MAX_UNRESTORABLE at most.

    Raises:
        KernelError: a dump failed.
    """
    found: list[Route] = []
    unrestorable: list[str] = []
    through = u32_attribute(RTA_OIF, index)
    for body in _dumped(netlink, f"of {names.get(index, index)} in {where}", through):
        route = decoded_route(body, index, names)
        if isinstance(route, Route):
            found.append(route)
        elif route and len(unrestorable) < MAX_UNRESTORABLE:
            unrestorable.append(route)
    return tuple(found), tuple(unrestorable)


def _dumped(
    netlink: RtnetlinkSocket, owner: str, filters: bytes, max_bytes: int | None = None
) -> Iterator[bytes]:
    """Yield the body of each route, of both families."""
    for family, label in ((AF_INET, "IPv4"), (AF_INET6, "IPv6")):
        request = HEADER.pack(family, 0, 0, 0, 0, 0, 0, 0, 0) + filters
        try:
            yield from netlink.dump(
                f"dump {label} routes {owner}", RTM_GETROUTE, request, max_bytes
            )
        except KernelError as error:
            if family == AF_INET6 and error.code in {EAFNOSUPPORT, EOPNOTSUPP}:
                continue  # a kernel without IPv6
            raise


def taken_route_keys(
    netlink: RtnetlinkSocket,
    except_links: Collection[int],
    names: Mapping[int, str],
    max_bytes: int,
) -> dict[RouteKey, str]:
    """Return the keys of a pod's routes, with the link name of each.

    Routes through `except_links` are left out; `max_bytes` limits the size of the dump.
    """
    taken: dict[RouteKey, str] = {}
    for body in _dumped(netlink, "of the pod", b"", max_bytes):
        family, length, _, tos, table, *_, flags = fixed(HEADER, body)
        attrs = attributes(body, HEADER.size)
        links = [link for *_, link, _ in hops_of(attrs.get(RTA_MULTIPATH, b""))]
        link = next(iter(links), u32(attrs.get(RTA_OIF)))
        table = u32(attrs.get(RTA_TABLE), table)
        if table != RT_TABLE_LOCAL and not flags & RTM_F_CLONED and link not in except_links:
            route = Route(
                destination_of(family, attrs, length),
                table=table,
                metric=u32(attrs.get(RTA_PRIORITY)),
                tos=tos,
            )
            taken.setdefault(route_key(route), names.get(link, ""))
    return taken


def without_implied(routes: Sequence[Route], addresses: Sequence[Address]) -> tuple[Route, ...]:
    """Return the routes that the kernel does not add with the link's addresses."""
    implied = {
        (route.destination, route.metric) for address in addresses for route in connected(address)
    }
    return tuple(route for route in routes if not _is_implied(route, implied))


def _is_implied(route: Route, implied: set[tuple[str, int]]) -> bool:
    if route.destination == MULTICAST:  # its protocol depends on the kernel's version
        return route.metric == IP6_RT_PRIO_ADDRCONF
    by_kernel = route.protocol == RTPROT_KERNEL and not route.gateway and not route.nexthops
    key = route.destination, route.metric
    return by_kernel and (route.destination == LINK_LOCAL or key in implied)


# --------------------------------------------------------------------------- changes


def add_route(
    netlink: RtnetlinkSocket,
    what: str,
    index: int,
    route: Route,
    index_of: Callable[[str], int],
    *,
    append: bool,
) -> None:
    """Add a route through the link.

    An existing IPv4 route with some of the nexthops, and no others, is replaced. To an existing
    IPv6 route the link's own nexthops are added.

    Args:
        netlink: socket in the namespace.
        what: name of the operation in errors.
        index: ifindex of the link.
        route: the route.
        index_of: resolves the other devices of a multipath route.
        append: append it to routes of its destination and metric; the kernel joins IPv6 routes
            with gateways.

    Raises:
        KernelError: EEXIST: another route has the same destination, table and metric.
    """
    hops = [(hop, index_of(hop.device) if hop.device else index) for hop in route.nexthops]
    put = partial(_put_with_gateways if append else _put, netlink, what)
    try:
        put(NLM_F_EXCL_CREATE, index, route, hops)
    except KernelError as error:
        if error.code != EEXIST:
            raise
        names = {link: hop.device for hop, link in hops}
        present, _ = dump_routes(netlink, what, index, names)
        missing = lost_routes((route,), present, names.values())
        if missing and not append:
            raise
        for via, part, through in _parts_of(netlink, what, route, hops) if missing else ():
            netlink.do(what, RTM_DELROUTE, 0, route_request(via, part, through))
        for part in missing:
            through = [hop for hop in hops if hop[0] in part.nexthops]
            put(NLM_F_APPEND_CREATE, index, part, through)


def _put(
    netlink: RtnetlinkSocket, what: str, flags: int, index: int, route: Route, hops: Sequence[Hop]
) -> None:
    netlink.do(what, RTM_NEWROUTE, flags, route_request(index, route, hops))


def _put_with_gateways(
    netlink: RtnetlinkSocket, what: str, flags: int, index: int, route: Route, hops: Sequence[Hop]
) -> None:
    """Add a route. If a gateway is not reachable, add routes to the gateways for the request."""
    try:
        _put(netlink, what, flags, index, route, hops)
    except KernelError as error:
        if error.code not in {ENETUNREACH, EHOSTUNREACH}:
            raise
    else:
        return
    hops = hops or [(hop, index) for hop in nexthops_of(route)]
    gateway_routes = {
        route_request(link, _gateway_route(hop.gateway, route.table), ())
        for hop, link in hops
        if hop.gateway and not hop.onlink
    }
    netlink.do_all(
        what,
        [
            *((RTM_NEWROUTE, NLM_F_EXCL_CREATE, request) for request in gateway_routes),
            (RTM_NEWROUTE, flags, route_request(index, route, hops)),
            *((RTM_DELROUTE, 0, request) for request in gateway_routes),
        ],
    )


def _gateway_route(gateway: str, table: int) -> Route:
    """Return a route to a gateway; its metric, the last one, differs from those of other owners."""
    return Route(
        str(ip_network(gateway)),
        scope=RT_SCOPE_LINK,
        table=table,
        metric=LAST_METRIC,
        protocol=RTPROT_STATIC,
    )


def _parts_of(
    netlink: RtnetlinkSocket, what: str, route: Route, hops: Sequence[Hop]
) -> tuple[tuple[int, Route, Sequence[Hop]], ...]:
    """Return the IPv4 routes that equal this one except for missing nexthops.

    Each with the ifindex of one of its links, and its nexthops if it is a multipath route.
    """
    desired = {(hop.gateway, link) for hop, link in hops}
    names = {link: str(link) for _, link in hops}
    found: dict[frozenset[tuple[str, int]], tuple[int, Route, Sequence[Hop]]] = {}
    for via in names if ":" not in route.destination else ():
        for other in dump_routes(netlink, what, via, names)[0]:
            through = [(hop, int(hop.device or via)) for hop in nexthops_of(other)]
            present = frozenset((hop.gateway, link) for hop, link in through)
            if present < desired and _without_nexthops(other) == _without_nexthops(route):
                found[present] = via, other, through if other.nexthops else ()
    return tuple(found.values())


def _without_nexthops(route: Route) -> Route:
    return replace(route, protocol=0, gateway="", onlink=False, nexthops=())
