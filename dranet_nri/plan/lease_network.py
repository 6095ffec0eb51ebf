"""Network of a pod's device with the address, routes and MTU of a DHCP lease.

Rules:
1. Parameters of the claim have precedence. Routes of the lease are best effort, like inherited
   ones.
2. The default route of the cluster network precedes that of the lease, by its metric.
3. An MTU that is too small for IPv6 is not used for a network with IPv6, which it would remove.
"""

from ipaddress import ip_address, ip_network

from dranet_nri.component.replace import replace
from dranet_nri.dhcp import RTPROT_DHCP, Granted
from dranet_nri.model import Address, Link, Route
from dranet_nri.plan.inherit import is_v6
from dranet_nri.plan.pod_network import DEFAULT_METRIC, IPV6_MIN_MTU, PodNetwork
from dranet_nri.plan.routes.comparison import RT_SCOPE_LINK, direct_first, interface_of, network_of


def network_with_lease(network: PodNetwork, granted: Granted, link: Link) -> PodNetwork:
    """Return the network with address, routes and MTU of a lease.

    Args:
        network: the configuration by claim and host.
        granted: answer of the server.
        link: the link as observed in the pod.
    """
    taken = {(route.destination, route.table) for route in network.routes}
    address = Address(granted.lease.address)
    table = network.vrf.table if network.vrf else 0
    given = (replace(route, table=table or route.table) for route in _routes(granted, address))
    routes = tuple(route for route in given if (route.destination, route.table) not in taken)
    settings, warnings = network.settings, network.warnings
    if settings.mtu is None and link.min_mtu <= granted.mtu <= (link.max_mtu or granted.mtu):
        if 0 < granted.mtu < IPV6_MIN_MTU and _has_ipv6(network):
            warnings = (*warnings, f"MTU {granted.mtu} of the DHCP server is too small for IPv6")
        else:
            settings = replace(settings, mtu=granted.mtu or None)
    return replace(
        network,
        settings=settings,
        addresses=(*network.addresses, address),
        routes=direct_first((*network.routes, *routes)),
        inherited=network.inherited | frozenset(routes),
        warnings=warnings,
    )


def _has_ipv6(network: PodNetwork) -> bool:
    return any(
        (
            *(is_v6(address.cidr) for address in network.addresses),
            *(is_v6(route.destination) for route in network.routes),
            *(is_v6(neighbour.destination) for neighbour in network.neighbours),
        )
    )


def _routes(granted: Granted, address: Address) -> tuple[Route, ...]:
    """Return the routes of a lease, with link routes to gateways outside of its network.

    Clouds offer a /32 address and a default route with a gateway outside of it.
    """
    own = interface_of(address.cidr).network
    routes = [
        replace(route, metric=DEFAULT_METRIC if network_of(route.destination).prefixlen == 0 else 0)
        for route in granted.routes
        if network_of(route.destination) != own
    ]
    direct = [route.destination for route in routes if not route.gateway]
    on_link = [ip_network(network) for network in (own, *direct)]
    gateways = dict.fromkeys(route.gateway for route in routes if route.gateway)
    gateway_routes = (
        Route(f"{gateway}/32", scope=RT_SCOPE_LINK, protocol=RTPROT_DHCP)
        for gateway in gateways
        if not any(ip_address(gateway) in network for network in on_link)
    )
    return (*gateway_routes, *routes)
