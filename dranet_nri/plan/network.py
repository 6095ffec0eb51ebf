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
5. What is inherited is best effort: what the pod cannot have is left out and told. What is claimed
   is strict.
"""

from dataclasses import dataclass, replace
from ipaddress import (
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
from dranet_nri.plan.routes import direct_first, fits, network_of

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


Inherited = Address | Route | Rule | Neighbour


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """The state a device shall have in the pod.

    Attributes:
        inherited: what of the addresses, routes, rules and neighbours was not claimed.
        told: what the pod should know of what it gets, one line each.
    """

    name: str
    settings: LinkSettings = LinkSettings()
    sysctls: tuple[Sysctl, ...] = ()
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    features: Switches = Switches()
    private_flags: Switches = Switches()
    inherited: frozenset[Inherited] = frozenset()
    told: tuple[str, ...] = ()


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
            metric=route.metric,
            protocol=RTPROT_STATIC,
        )
        for route in config.routes
    )
    inherited = _inherited_routes(host.routes, configured, addresses)
    routes = direct_first((*configured, *inherited))
    rules = _configured_rules(config)
    of_host = _inherited_rules(host, inherited, name)
    return PodNetwork(
        name=name,
        settings=_settings(config),
        sysctls=tuple(each for each in _sysctls(config) if each.family in families),
        addresses=addresses,
        routes=routes,
        rules=(*rules, *of_host),
        neighbours=_neighbours(config, host),
        features=features_of(config.ethtool, host),
        private_flags=private_flags_of(config.ethtool, host),
        inherited=frozenset(inherited),
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


def _inherited_routes(
    host: tuple[Route, ...], configured: tuple[Route, ...], addresses: tuple[Address, ...]
) -> tuple[Route, ...]:
    taken = {(route.destination, route.table) for route in configured}
    inherited: list[Route] = []
    for route in direct_first(host):
        if (route.destination, route.table) in taken:
            continue
        if route.table == MAIN and network_of(route.destination).prefixlen == 0:
            continue
        if route.encap or any(hop.device for hop in route.nexthops):
            continue  # Legs over other devices stay on the host, and so does the whole.
        if fits(route, addresses, (*configured, *inherited)):
            inherited.append(replace(route, expires_s=0))
    return tuple(inherited)


def _temporary(address: Address) -> bool:
    return _is_v6(address.cidr) and bool(address.flags & IFA_F_TEMPORARY)


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
