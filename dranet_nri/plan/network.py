"""What a device's configuration in the pod shall be: the claim's parameters over the host's state.

Rules:
1. What the claim gives, wins. What it leaves out is inherited from the host.
2. A host route is inherited only where it still makes sense with the pod's addresses: its source
   is one of them and its gateway is on link. A default route of table main is never inherited,
   because the pod's default route is the cluster network's; list it in `routes` to have it. Nor is
   one that tunnels: where that leads is the host's affair.
3. The kernel takes IPv6 off a link of a small MTU. A claim whose device would lose an IPv6 address
   by that is refused.
4. Host rules follow the tables whose routes came along.
5. Several devices of a pod may want the same route, as the parameters of a request with a count do.
   The kernel has one slot for each metric, so the later ones get the next metrics: the first device
   is preferred, the others stand by. What is in the pod already keeps its slots.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    Address,
    LinkState,
    Neighbour,
    NetworkConfig,
    OffloadSizes,
    Route,
    Rule,
    Switches,
    Sysctl,
)
from dranet_nri.plan.features import features_of, private_flags_of
from dranet_nri.plan.ops import LinkSettings
from dranet_nri.plan.routes import Slot, legs_of, slot_of

UNIVERSE: Final = 0
LINK: Final = 253
MAIN: Final = 254
RTPROT_STATIC: Final = 4
# A rule without a priority gets one here, or a repeated plan would add it once more each time.
DEFAULT_PRIORITY: Final = 32765  # what the kernel gives the first one, right before main's
PARSED: Final = 1024  # texts whose meaning is remembered; plans of a device repeat them
IPV6_MIN_MTU: Final = 1280  # RFC 8200
IFA_F_NODAD: Final = 0x02  # linux/if_addr.h
IFA_F_TEMPORARY: Final = 0x01  # the same bit says "secondary" for IPv4


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """The state a device shall have in the pod."""

    name: str
    settings: LinkSettings = LinkSettings()
    sysctls: tuple[Sysctl, ...] = ()
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    features: Switches = Switches()
    private_flags: Switches = Switches()


def pod_network(config: NetworkConfig, host: LinkState) -> PodNetwork:
    """Resolve the claim's parameters against the device's state on the host.

    Raises:
        RefusedError: IPv6 is wanted, and the MTU is too small for it; or the device has no such
            feature or private flag.
    """
    families = {"ipv4", "ipv6"}
    if (config.interface.mtu or host.link.mtu) < IPV6_MIN_MTU:
        host, families = _without_ipv6(config, host), {"ipv4"}
    name = config.interface.name or host.link.name
    addresses = _addresses(config, host)
    configured = tuple(
        Route(
            destination=_prefix(route.destination),
            gateway=route.gateway,
            source=route.source,
            scope=route.scope,
            table=route.table or MAIN,
            protocol=RTPROT_STATIC,
        )
        for route in config.routes
    )
    inherited = _inherited_routes(host.routes, configured, addresses)
    return PodNetwork(
        name=name,
        settings=_settings(config),
        sysctls=tuple(each for each in _sysctls(config) if each.family in families),
        addresses=addresses,
        routes=direct_first((*configured, *inherited)),
        rules=(*_configured_rules(config), *_inherited_rules(host, inherited, name)),
        neighbours=_neighbours(config, host),
        features=features_of(config.ethtool, host),
        private_flags=private_flags_of(config.ethtool, host),
    )


def _without_ipv6(config: NetworkConfig, host: LinkState) -> LinkState:
    """Return the state without the routes and neighbours that a link without IPv6 can't have."""
    wanted = (
        *(each.cidr for each in _addresses(config, host)),
        *(each.destination for each in config.routes),
        *(each.destination for each in config.neighbors),
    )
    ipv6 = next(filter(_is_v6, wanted), None)
    if ipv6 is not None:
        raise RefusedError(
            f"device {host.link.name} with interface.mtu {config.interface.mtu or host.link.mtu}"
            f" can't have {ipv6}: IPv6 needs {IPV6_MIN_MTU}; set interface.mtu to that or more,"
            " or give interface.addresses, routes and neighbors without IPv6"
        )
    return replace(
        host,
        routes=tuple(each for each in host.routes if not _is_v6(each.destination)),
        neighbours=tuple(each for each in host.neighbours if not _is_v6(each.destination)),
    )


def _prefix(text: str) -> str:
    """Return the prefix without host bits, as the kernel stores it; "" stays ""."""
    return str(ip_network(text, strict=False)) if text else ""


def _settings(config: NetworkConfig) -> LinkSettings:
    interface = config.interface
    return LinkSettings(
        mtu=interface.mtu,
        mac=interface.hardware_addr,
        sizes=OffloadSizes(
            gso=interface.gso_max_size,
            gro=interface.gro_max_size,
            gso_ipv4=interface.gso_ipv4_max_size,
            gro_ipv4=interface.gro_ipv4_max_size,
        ),
    )


def _sysctls(config: NetworkConfig) -> tuple[Sysctl, ...]:
    interface = config.interface
    wanted: list[Sysctl] = []
    if interface.arp_ignore is not None:
        wanted.append(Sysctl("ipv4", "arp_ignore", str(interface.arp_ignore)))
    if interface.arp_announce is not None:
        wanted.append(Sysctl("ipv4", "arp_announce", str(interface.arp_announce)))
    if interface.forwarding is not None:
        value = str(int(interface.forwarding))
        wanted += (Sysctl("ipv4", "forwarding", value), Sysctl("ipv6", "forwarding", value))
    return tuple(wanted)


def _addresses(config: NetworkConfig, host: LinkState) -> tuple[Address, ...]:
    """Return the claim's addresses, or the host's global ones as permanent ones.

    IPv6 addresses skip duplicate address detection: they are usable at once, and the host that
    had them gives them up in the same moment.
    """
    cidrs = config.interface.addresses
    if cidrs is not None:
        return tuple(Address(cidr, flags=_flags(cidr)) for cidr in dict.fromkeys(cidrs))
    return tuple(
        Address(address.cidr, peer=address.peer, flags=_flags(address.cidr), metric=address.metric)
        for address in host.addresses
        if address.scope == UNIVERSE and not _temporary(address)
    )


def _flags(cidr: str) -> int:
    return IFA_F_NODAD if _is_v6(cidr) else 0


def _is_v6(cidr: str) -> bool:
    return ":" in cidr


def _temporary(address: Address) -> bool:
    return _is_v6(address.cidr) and bool(address.flags & IFA_F_TEMPORARY)


def _inherited_routes(
    host: tuple[Route, ...], configured: tuple[Route, ...], addresses: tuple[Address, ...]
) -> tuple[Route, ...]:
    taken = {(route.destination, route.table) for route in configured}
    interfaces = tuple(interface_of(address.cidr) for address in addresses)
    inherited: list[Route] = []
    for route in direct_first(host):
        if (route.destination, route.table) in taken:
            continue
        if route.table == MAIN and _network_of(route.destination).prefixlen == 0:
            continue
        if route.encap or any(hop.device for hop in route.nexthops):
            continue  # Legs over other devices stay on the host, and so does the whole.
        if fits(route, interfaces, (*configured, *inherited)):
            inherited.append(replace(route, expires_s=0))
    return tuple(inherited)


def beside_each_other(
    networks: Sequence[PodNetwork], now: Iterable[Iterable[Route]]
) -> tuple[PodNetwork, ...]:
    """Return the networks of one pod's devices with routes that can stand beside each other.

    Args:
        networks: what the devices shall have, the preferred one first.
        now: the routes that each of these devices has in the pod, then those of its other ones.
    """
    owners = {slot_of(route): owner for owner, own in enumerate(now) for route in own}
    given: set[Slot] = set()
    return tuple(
        replace(
            network, routes=tuple(_placed(each, number, owners, given) for each in network.routes)
        )
        for number, network in enumerate(networks)
    )


def _placed(route: Route, number: int, owners: Mapping[Slot, int], given: set[Slot]) -> Route:
    """Return the route with the next metric that no other one of its destination has.

    Args:
        route: of the device of that number.
        number: of the device.
        owners: the device whose route is in a slot now.
        given: the slots of routes that were placed already; this one's is added.
    """
    slot = slot_of(route)
    while slot in given or owners.get(slot, number) != number:
        slot = (*slot[:3], slot[3] + 1)
    given.add(slot)
    return route if slot == slot_of(route) else replace(route, metric=slot[3])


@lru_cache(PARSED)
def interface_of(cidr: str) -> IPv4Interface | IPv6Interface:
    """Parse an address with its prefix length."""
    return ip_interface(cidr)


@lru_cache(PARSED)
def _network_of(prefix: str) -> IPv4Network | IPv6Network:
    return ip_network(prefix)


def fits(
    route: Route,
    interfaces: tuple[IPv4Interface | IPv6Interface, ...],
    others: tuple[Route, ...],
) -> bool:
    """Whether the kernel will take the route on a link with these addresses and other routes."""
    if route.source and ip_address(route.source) not in {each.ip for each in interfaces}:
        return False
    gateways = [leg.gateway for leg in legs_of(route) if leg.gateway and not leg.onlink]
    if not gateways:
        return True
    on_link = [each.network for each in interfaces]
    on_link += [_network_of(each.destination) for each in others if _direct(each)]
    return all(_reachable(gateway, on_link) for gateway in gateways)


def direct_first(routes: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes in an order to add them in: one may make another's gateway reachable.

    The scope alone does not tell, because the kernel gives every IPv6 route the same.
    """
    return tuple(sorted(routes, key=lambda route: (not _direct(route), -route.scope)))


def _direct(route: Route) -> bool:
    return not route.gateway and not route.nexthops


def _reachable(gateway: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether the kernel will take the gateway; fe80::/10 is on every link, 169.254.0.0/16 not."""
    address = ip_address(gateway)
    everywhere = address.version == 6 and address.is_link_local
    return everywhere or any(address in network for network in networks)


def _configured_rules(config: NetworkConfig) -> tuple[Rule, ...]:
    return tuple(
        rule
        for each in config.rules
        for rule in _by_family(
            Rule(
                family=4,
                priority=each.priority or DEFAULT_PRIORITY,
                source=_prefix(each.source),
                destination=_prefix(each.destination),
                table=each.table or MAIN,
                protocol=RTPROT_STATIC,
            )
        )
    )


def _by_family(rule: Rule) -> tuple[Rule, ...]:
    """Return the rule in its prefixes' family, or in both where it names no prefix."""
    prefix = rule.source or rule.destination
    if not prefix:
        return rule, replace(rule, family=6)
    return (replace(rule, family=6 if _is_v6(prefix) else 4),)


def _inherited_rules(host: LinkState, routes: tuple[Route, ...], name: str) -> tuple[Rule, ...]:
    tables = {route.table for route in routes}
    own = host.link.name
    return tuple(
        replace(
            rule,
            iif=name if rule.iif == own else rule.iif,
            oif=name if rule.oif == own else rule.oif,
        )
        for rule in host.rules
        if rule.table in tables and {rule.iif, rule.oif} <= {"", own}
    )


def _neighbours(config: NetworkConfig, host: LinkState) -> tuple[Neighbour, ...]:
    configured = {each.destination: each for each in config.neighbors}
    inherited = (each for each in host.neighbours if each.destination not in configured)
    return (
        *(Neighbour(each.destination, each.hardware_addr) for each in configured.values()),
        *inherited,
    )
