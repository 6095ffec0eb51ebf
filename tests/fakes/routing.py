"""Equality of routes and rules in the kernel, for tests.fakes.world."""

from dataclasses import replace
from ipaddress import ip_network
from typing import Final

from dranet_nri.model import Route

DEFAULT_METRIC_V6: Final = 1024  # IP6_RT_PRIO_USER, linux/route.h


def is_v6(text: str) -> bool:
    """Whether an address or network in text form is IPv6."""
    return ":" in text


def single(route: Route) -> Route:
    """Return a multipath route with one leg as the ordinary route it is."""
    if len(route.nexthops) != 1:
        return route
    hop = route.nexthops[0]
    return replace(route, nexthops=(), gateway=hop.gateway, onlink=hop.onlink)


def stored(route: Route) -> Route:
    """Return the route as the kernel tells it back."""
    route = single(replace(route, destination=str(ip_network(route.destination))))
    if is_v6(route.destination):
        return replace(route, metric=route.metric or DEFAULT_METRIC_V6, scope=0)
    return replace(route, preference=0, expires_s=0)
