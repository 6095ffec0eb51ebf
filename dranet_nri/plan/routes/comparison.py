"""Comparison of routes: equality, and the routes or nexthops that are missing on the host.

Rules:
1. Linux can have several routes of one destination and metric. IPv4 keeps them as added; IPv6 joins
   those with a gateway as nexthops of one multipath route.
2. The order of nexthops, protocol and lifetime do not matter for equality.
3. A link that is up and has an address has a route to the network of that address.
4. A device restores its own nexthops of an IPv6 route: others return with their devices. An IPv4
   route is one value; it is restored with the nexthops whose devices are on the host.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import (
    IPv4Interface,
    IPv4Network,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.model import Address, NextHop, Route

# linux/ipv6_route.h: default metric of IPv6 routes, and that of connected routes.
IP6_RT_PRIO_USER: Final = 1024
IP6_RT_PRIO_ADDRCONF: Final = 256
IFA_F_NOPREFIXROUTE: Final = 0x200  # linux/if_addr.h
RT_SCOPE_LINK: Final = 253
PARSED: Final = 2048  # cached prefixes; plans of a device repeat them

RouteKey = tuple[str, int, int, int]  # destination, table, TOS and metric of a route


def route_key(route: Route) -> RouteKey:
    """Return the key of a route in the kernel's table, which routes of several links can share."""
    return _canonical(route.destination), route.table, route.tos, effective_metric(route)


@lru_cache(PARSED)
def network_of(prefix: str) -> IPv4Network | IPv6Network:
    """Parse a prefix."""
    return ip_network(prefix)


@lru_cache(PARSED)
def _canonical(prefix: str) -> str:
    return str(network_of(prefix))  # cached: slow for IPv6


@lru_cache(PARSED)
def interface_of(cidr: str) -> IPv4Interface | IPv6Interface:
    """Parse an address with its prefix length."""
    return ip_interface(cidr)


@lru_cache(PARSED)
def connected(address: Address) -> tuple[Route, ...]:
    """Return the route that the kernel adds with the address: to its network, or its peer's.

    A route to the peer of an IPv6 address is not one: the kernel adds it only if the link is up,
    and some time later (inet6_addr_add, addrconf_permanent_addr, net/ipv6/addrconf.c).
    """
    if address.flags & IFA_F_NOPREFIXROUTE or (address.peer and ":" in address.cidr):
        return ()
    interface = interface_of(address.cidr)
    far = address.peer or str(interface.ip)
    network = str(ip_network(f"{far}/{interface.network.prefixlen}", strict=False))
    metric = address.metric or (IP6_RT_PRIO_ADDRCONF if interface.version == 6 else 0)
    return (Route(network, scope=RT_SCOPE_LINK, metric=metric),)


def effective_metric(route: Route) -> int:
    """Return the route's metric in the kernel."""
    return route.metric or (IP6_RT_PRIO_USER if ":" in route.destination else 0)


def nexthops_of(route: Route) -> tuple[NextHop, ...]:
    """Return the nexthops of a route; one for a route that is not multipath."""
    return route.nexthops or (NextHop(route.gateway, onlink=route.onlink),)


def with_nexthops(route: Route, nexthops: tuple[NextHop, ...]) -> Route:
    """Return the route with these nexthops; one nexthop is not multipath, as in the kernel."""
    if len(nexthops) == 1 and nexthops[0].weight == 1 and not nexthops[0].device:
        return replace(route, nexthops=(), gateway=nexthops[0].gateway, onlink=nexthops[0].onlink)
    return replace(route, nexthops=nexthops, gateway="", onlink=False)


def route_identity(route: Route) -> tuple[object, ...]:
    """Return a value that is equal for equal routes.

    The kernel does not return the weight of a single nexthop.
    """
    nexthops = nexthops_of(route)
    if len(nexthops) == 1:
        nexthops = (replace(nexthops[0], weight=1),)
    return (
        route_key(route),
        frozenset((nexthop.gateway, nexthop.device, nexthop.weight) for nexthop in nexthops),
        route.source,
        route.type,
        route.encap,
    )


def missing_routes(desired: Iterable[Route], now: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes that are missing in `now`."""
    present = {route_identity(route) for route in now}
    return tuple(route for route in desired if route_identity(route) not in present)


def lost_routes(
    before: Iterable[Route], now: Iterable[Route], devices: Collection[str]
) -> tuple[Route, ...]:
    """Return the routes to add to restore those of a device on the host.

    Args:
        before: recorded routes through the device.
        now: its current routes.
        devices: names of the other links on the host.
    """
    parts = (part for route in before for part in _own_parts(route, devices))
    present = [part for route in now for part in _own_parts(route, devices)]
    return missing_routes(parts, present)


def _own_parts(route: Route, devices: Collection[str]) -> Iterator[Route]:
    """Yield the parts of a route that the device restores, see rule 4."""
    if ":" in route.destination:
        for nexthop in nexthops_of(route):
            if not nexthop.device:
                yield with_nexthops(route, (nexthop,))
    else:
        yield with_nexthops(
            route, tuple(nexthop for nexthop in nexthops_of(route) if _is_on_host(nexthop, devices))
        )


def absent_nexthops(routes: Iterable[Route], devices: Collection[str]) -> tuple[str, ...]:
    """Return texts of the IPv4 routes with a nexthop over a device that is not on the host."""
    return tuple(
        f"{route.destination} without its nexthop over {nexthop.device}"
        for route in routes
        for nexthop in route.nexthops
        if ":" not in route.destination and not _is_on_host(nexthop, devices)
    )


def _is_on_host(nexthop: NextHop, devices: Collection[str]) -> bool:
    return not nexthop.device or nexthop.device in devices


# ------------------------------------------------------------------------- validity in the kernel


def is_accepted(route: Route, addresses: Sequence[Address], others: Iterable[Route]) -> bool:
    """Whether the kernel accepts the route on a link with these addresses and other routes."""
    own = {interface_of(address.cidr).ip for address in addresses}
    if route.source and ip_address(route.source) not in own:
        return False
    gateways = [
        nexthop.gateway for nexthop in nexthops_of(route) if nexthop.gateway and not nexthop.onlink
    ]
    if not gateways:
        return True
    direct = [route for address in addresses for route in connected(address)]
    direct += (route for route in others if _direct(route))
    on_link = [network_of(route.destination) for route in direct]
    return all(_reachable(gateway, on_link) for gateway in gateways)


def direct_first(routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes in an order that makes gateways reachable before their use.

    The scope does not suffice, because it is the same for all IPv6 routes.
    """
    return tuple(sorted(routes, key=lambda route: (not _direct(route), -route.scope)))


def _direct(route: Route) -> bool:
    return not route.gateway and not route.nexthops


def _reachable(gateway: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether the gateway is on link; fe80::/10 is on every link, 169.254.0.0/16 is not."""
    address = ip_address(gateway)
    everywhere = address.version == 6 and address.is_link_local
    return everywhere or any(address in network for network in networks)
