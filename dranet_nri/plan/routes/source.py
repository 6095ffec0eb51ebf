"""Source-based routing of a child link: packets from its addresses leave through it.

Rules:
1. It is generated for a claim without routes and rules.
2. The routes are in their own table, derived from the interface's name: the network of each
   address, and the parent's default route if its gateway is reachable. The default route in table
   main stays the pod's.
3. Each address has a rule for that table, except link-local ones.

Table numbers and priority are those of dranet (pkg/driver, sub-interfaces).
"""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Final

from dranet_nri.model import Address, Route, Rule, table_of
from dranet_nri.plan.routes.comparison import RT_SCOPE_LINK, interface_of

PRIORITY: Final = 32000
RTPROT_STATIC: Final = 4


def source_based(
    name: str, addresses: Sequence[Address], parent: Sequence[Route], *, gateways: bool
) -> tuple[tuple[Route, ...], tuple[Rule, ...]]:
    """Return the routes and rules of a child.

    Args:
        name: name of the interface in the pod.
        addresses: its addresses there.
        parent: routes of its parent on the host.
        gateways: whether routes have gateways; an IPVLAN link in mode L3 resolves no neighbours.
    """
    table = table_of(name)
    own = [address for address in addresses if not interface_of(address.cidr).ip.is_link_local]
    routes = dict.fromkeys(
        route for address in own for route in _routes(address, parent, table, gateways=gateways)
    )
    return tuple(routes), tuple(_rule(address, table) for address in own)


def _routes(
    address: Address, parent: Sequence[Route], table: int, *, gateways: bool
) -> Iterator[Route]:
    interface = interface_of(address.cidr)
    every = "::/0" if interface.version == 6 else "0.0.0.0/0"
    alone = interface.network.prefixlen == interface.network.max_prefixlen
    if not alone:
        yield _route(str(interface.network), "", table)
    if not gateways:
        yield _route(every, "", table)
        return
    gateway = _gateway(every, parent)
    if not gateway:
        return
    if alone:  # as in clouds: each address is a network, and the router is on the link
        yield _route(f"{gateway}/{interface.network.max_prefixlen}", "", table)
    if alone or ip_address(gateway) in interface.network:
        yield _route(every, gateway, table)


def _route(destination: str, gateway: str, table: int) -> Route:
    scope = 0 if gateway or ":" in destination else RT_SCOPE_LINK
    return Route(destination, gateway, scope=scope, table=table, protocol=RTPROT_STATIC)


def _gateway(every: str, parent: Sequence[Route]) -> str:
    """Return the gateway of the parent's best default route in any table, "" if none."""
    found = [route for route in parent if route.destination == every and route.gateway]
    return min(found, key=lambda route: route.metric).gateway if found else ""


def _rule(address: Address, table: int) -> Rule:
    interface = interface_of(address.cidr)
    source = f"{interface.ip}/{interface.network.max_prefixlen}"
    return Rule(interface.version, PRIORITY, source, table=table, protocol=RTPROT_STATIC)
