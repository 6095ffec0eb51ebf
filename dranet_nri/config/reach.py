"""Reach of gateways: routes that the kernel does not add to a NIC with the claimed addresses.

The kernel adds a route only if its gateway is in the network of an address of the NIC, or in the
destination of a route without a gateway (fib_check_nh, net/ipv4/fib_semantics.c;
ip6_route_check_nh, net/ipv6/route.c). IPv6 link-local gateways are always reachable.
"""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address, ip_interface, ip_network

from dranet_nri.model import InterfaceConfig, RouteConfig


def unreachable(routes: Sequence[RouteConfig], interface: InterfaceConfig) -> Iterator[int]:
    """Yield the indexes of routes whose gateway is out of reach.

    Args:
        routes: all routes of the claim; a destination is "" if it is invalid.
        interface: its addresses are all that the NIC will have, except by router advertisements.
    """
    networks = [ip_interface(cidr.rpartition("-")[2]).network for cidr in interface.addresses or ()]
    networks += (
        ip_network(route.destination, strict=False)
        for route in routes
        if route.destination and not route.gateway
    )
    advertised = interface.is_dynamic or bool(interface.accept_ra)
    for index, route in enumerate(routes):
        if not route.gateway:
            continue
        gateway = ip_address(route.gateway)
        by_router = gateway.version == 6 and (gateway.is_link_local or advertised)
        if not by_router and not any(gateway in network for network in networks):
            yield index
