"""The network of a pod's device with what a DHCP server gave: address, routes and MTU.

Rules:
1. What the claim gives wins. Routes of the lease are best effort, as inherited ones are.
2. A default route of the lease is behind the cluster network's.
"""

from dataclasses import replace
from ipaddress import ip_address, ip_network

from dranet_nri.dhcp import RTPROT_DHCP, Granted
from dranet_nri.model import Address, Link, Route
from dranet_nri.plan.pod_network import DEFAULT_METRIC, PodNetwork
from dranet_nri.plan.routes import RT_SCOPE_LINK, direct_first, interface_of, network_of


def leased_network(network: PodNetwork, granted: Granted, link: Link) -> PodNetwork:
    """Return the network with what a DHCP server gave.

    Args:
        network: as the claim and the host have it.
        granted: what the server gave.
        link: the pod's link as it is now.
    """
    taken = {(route.destination, route.table) for route in network.routes}
    address = Address(granted.lease.address)
    table = network.vrf.table if network.vrf else 0
    given = (replace(route, table=table or route.table) for route in _routes(granted, address))
    routes = tuple(route for route in given if (route.destination, route.table) not in taken)
    settings = network.settings
    if settings.mtu is None and link.min_mtu <= granted.mtu <= (link.max_mtu or granted.mtu):
        settings = replace(settings, mtu=granted.mtu or None)
    return replace(
        network,
        settings=settings,
        addresses=(*network.addresses, address),
        routes=direct_first((*network.routes, *routes)),
        inherited=network.inherited | frozenset(routes),
    )


def _routes(granted: Granted, address: Address) -> tuple[Route, ...]:
    """Return the routes of a lease, with a way to each gateway outside of the address's network.

    A cloud gives an address of 32 bits, and its gateway as a default route only (RFC 3442).
    """
    own = interface_of(address.cidr).network
    routes = [
        replace(route, metric=DEFAULT_METRIC if network_of(route.destination).prefixlen == 0 else 0)
        for route in granted.routes
        if network_of(route.destination) != own
    ]
    direct = [route.destination for route in routes if not route.gateway]
    near = [ip_network(network) for network in (own, *direct)]
    gateways = dict.fromkeys(route.gateway for route in routes if route.gateway)
    far = (
        Route(f"{gateway}/32", scope=RT_SCOPE_LINK, protocol=RTPROT_DHCP)
        for gateway in gateways
        if not any(ip_address(gateway) in network for network in near)
    )
    return (*far, *routes)
