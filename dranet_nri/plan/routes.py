"""Which routes are the same, and what of them is missing.

Rules:
1. Linux keeps routes of equal destination and metric beside each other. IPv4 keeps each as it was
   given; IPv6 makes those that have a gateway the legs of one multipath route.
2. The order of legs does not make a route another one, nor do protocol and lifetime.
3. On the host a device restores its own legs of an IPv6 route: others come with their own devices.
   An IPv4 route is one value; it is restored over those of its legs whose devices are on the host.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_network
from typing import Final

from dranet_nri.model import NextHop, Route

IP6_RT_PRIO_USER: Final = 1024  # linux/ipv6_route.h, for IPv6 routes without a metric
PARSED: Final = 1024  # prefixes that are remembered; plans of a device repeat them

Slot = tuple[str, int, int, int]  # destination, table, TOS and metric of a route


def slot_of(route: Route) -> Slot:
    """Return what two routes share that the kernel keeps beside each other."""
    return _canonical(route.destination), route.table, route.tos, effective_metric(route)


@lru_cache(PARSED)
def _canonical(prefix: str) -> str:
    return str(ip_network(prefix))


def effective_metric(route: Route) -> int:
    """Return the metric the kernel gives the route."""
    return route.metric or (IP6_RT_PRIO_USER if ":" in route.destination else 0)


def legs_of(route: Route) -> tuple[NextHop, ...]:
    """Return the legs of a route; an ordinary one has one."""
    return route.nexthops or (NextHop(route.gateway, onlink=route.onlink),)


def over(route: Route, legs: tuple[NextHop, ...]) -> Route:
    """Return the route over these legs, written as an ordinary one where the kernel does so."""
    if len(legs) == 1 and legs[0].weight == 1 and not legs[0].device:
        return replace(route, nexthops=(), gateway=legs[0].gateway, onlink=legs[0].onlink)
    return replace(route, nexthops=legs, gateway="", onlink=False)


def same_route(route: Route) -> tuple[object, ...]:
    """Return what makes two routes the same one to us.

    The kernel does not tell the weight of an only leg.
    """
    legs = legs_of(route)
    if len(legs) == 1:
        legs = (replace(legs[0], weight=1),)
    return (
        slot_of(route),
        frozenset((leg.gateway, leg.device, leg.weight) for leg in legs),
        route.source,
        route.type,
        route.encap,
    )


def missing_routes(wanted: Iterable[Route], now: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes that are not there yet."""
    present = {same_route(each) for each in now}
    return tuple(each for each in wanted if same_route(each) not in present)


def lost_routes(
    before: Iterable[Route], now: Iterable[Route], devices: Collection[str]
) -> tuple[Route, ...]:
    """Return the routes to add so that the host has again what a device had there.

    Args:
        before: the routes through the device.
        now: those that it has.
        devices: names of the other links on the host.
    """
    wanted = (part for route in before for part in _own_parts(route, devices))
    present = [part for route in now for part in _own_parts(route, devices)]
    return missing_routes(wanted, present)


def _own_parts(route: Route, devices: Collection[str]) -> Iterator[Route]:
    """Yield what of a route a device restores on the host, see rule 3."""
    if ":" in route.destination:
        for leg in legs_of(route):
            if not leg.device:
                yield over(route, (leg,))
    else:
        yield over(route, tuple(leg for leg in legs_of(route) if _is_there(leg, devices)))


def absent_legs(routes: Iterable[Route], devices: Collection[str]) -> tuple[str, ...]:
    """Return, in words, the IPv4 routes that have a leg over a device that is not on the host."""
    return tuple(
        f"{route.destination} without its leg over {leg.device}"
        for route in routes
        for leg in route.nexthops
        if ":" not in route.destination and not _is_there(leg, devices)
    )


def _is_there(leg: NextHop, devices: Collection[str]) -> bool:
    return not leg.device or leg.device in devices
