"""Network configuration of a device in the pod: claim parameters merged over the host's state.

Rules:
1. A claim's parameters take precedence and are required: without them the pod does not start.
   Claimed IPv6 is switched on for the link.
2. The rest is inherited from the host, best effort: see plan.inherit.
3. The kernel removes IPv6 from a link with a small MTU, so claimed IPv6 is refused there.
4. The defaults of `addressing: SLAAC` are those of dranet, except duplicate address detection: a
   child shares its parent's link with other pods, so its addresses are checked.
"""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_network
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    Address,
    Addressing,
    AddressMode,
    ChildConfig,
    DriverSetting,
    InterfaceConfig,
    IpvlanConfig,
    IpvlanMode,
    Link,
    LinkState,
    Neighbour,
    NetworkConfig,
    OffloadSizes,
    Route,
    RouteConfig,
    Rule,
    Switches,
    Sysctl,
    VrfConfig,
)
from dranet_nri.plan.inherit import MAIN, Inherited, inherited_state, is_v6, without_detection
from dranet_nri.plan.ops import LinkSettings
from dranet_nri.plan.routes.comparison import direct_first, interface_of
from dranet_nri.plan.routes.source import source_based
from dranet_nri.plan.settings.driver import rss_table_of_claim, settings_of_claim
from dranet_nri.plan.settings.offloads import features_of, private_flags_of

RTPROT_STATIC: Final = 4
# A rule needs a priority: without one, each repetition of a plan would add it again.
DEFAULT_PRIORITY: Final = 32765  # the kernel's first choice, before the rule of table main
IPV6_MIN_MTU: Final = 1280  # RFC 8200
# Default routes from router advertisements follow that of the pod's cluster network.
DEFAULT_METRIC: Final = 2048
MAX_KNOWN: Final = 16  # results; most pods with a NIC claim the same
MAX_ROUTES: Final = 64  # of a state by which results are cached
# The kernel creates addresses from advertisements, and default routes with this metric.
AUTOCONFIGURED: Final = (
    Sysctl("ipv6", "autoconf", "1"),
    Sysctl("ipv6", "accept_ra_pinfo", "1"),
    Sysctl("ipv6", "ra_defrtr_metric", str(DEFAULT_METRIC)),
)


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """Desired configuration of a device in the pod.

    Attributes:
        driver: settings of its driver.
        rss_table: indirection table of receive-side scaling, () to keep the host's.
        disable_ebpf: disable the host's tc and TCX programs of the device.
        inherited: unclaimed addresses, routes, rules and neighbours.
        warnings: warnings for the claim status, one line each.
        rate: limit of sent traffic in bit/s, 0 without a limit.
        addressing: source of its other addresses.
    """

    name: str
    settings: LinkSettings = LinkSettings()
    sysctls: tuple[Sysctl, ...] = ()
    altnames: tuple[str, ...] = ()
    vrf: VrfConfig | None = None
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    features: Switches = Switches()
    private_flags: Switches = Switches()
    driver: tuple[DriverSetting, ...] = ()
    rss_table: tuple[int, ...] = ()
    disable_ebpf: bool = False
    inherited: frozenset[Inherited] = frozenset()
    warnings: tuple[str, ...] = ()
    rate: int = 0
    addressing: Addressing = Addressing.STATIC

    @property
    def is_dynamic(self) -> bool:
        """Whether it gets addresses by DHCP or SLAAC."""
        return self.addressing in {Addressing.DHCP, Addressing.SLAAC}


def pod_network(config: NetworkConfig, host: LinkState, *, shared: bool = False) -> PodNetwork:
    """Resolve the claim's parameters against the device's state on the host.

    Args:
        config: the claim's parameters.
        host: state of the device on the host.
        shared: whether other pods and the host use the link, so that IPv6 addresses are checked.

    Raises:
        RefusedError: the MTU is too small for claimed IPv6, or the device does not have a claimed
            feature or private flag.
    """
    resolve = _known if len(host.routes) <= MAX_ROUTES else _resolved
    return resolve(config, host, shared=shared)


def _resolved(config: NetworkConfig, host: LinkState, *, shared: bool) -> PodNetwork:
    name = config.interface.name or host.link.name
    if config.interface.addressing is Addressing.SLAAC:
        config = replace(config, interface=_with_slaac_defaults(config.interface, shared=shared))
    possible = _families(config, host)
    families = possible - ({"ipv6"} if config.interface.disable_ipv6 else set())
    claimed = tuple(map(_route, config.routes))
    rules = _configured_rules(config)
    of_host = inherited_state(config, host, claimed, families)
    addresses = _claimed_addresses(config, shared=shared)
    neighbours = tuple(
        Neighbour(neighbour.destination, neighbour.hardware_addr)
        for neighbour in {entry.destination: entry for entry in config.neighbors}.values()
    )
    network = PodNetwork(
        name=name,
        settings=_settings(config),
        sysctls=tuple(sysctl for sysctl in _sysctls(config) if sysctl.family in possible),
        altnames=config.interface.altnames or (),
        vrf=config.interface.vrf,
        addresses=(*addresses, *of_host.addresses),
        routes=direct_first((*claimed, *of_host.routes)),
        rules=(*rules, *of_host.rules),
        neighbours=(*neighbours, *of_host.neighbours),
        features=features_of(config.ethtool, host),
        private_flags=private_flags_of(config.ethtool, host),
        driver=settings_of_claim(config.ethtool, host),
        rss_table=rss_table_of_claim(config.ethtool, host),
        disable_ebpf=bool(config.interface.disable_ebpf),
        inherited=of_host.values - frozenset[Inherited](rules),
        warnings=of_host.left_out,
        addressing=config.interface.addressing or Addressing.STATIC,
    )
    return _in_vrf(network) if network.vrf else network


_known: Final = lru_cache(MAX_KNOWN)(_resolved)


def child_network(config: NetworkConfig, link: ChildConfig, parent: LinkState) -> PodNetwork:
    """Resolve the claim's parameters for a child, which inherits its parent's name and MTU.

    Raises:
        RefusedError: the MTU is too small for claimed IPv6.
    """
    inherited = Link(parent.link.index, parent.link.name, mtu=parent.link.mtu)
    network = pod_network(config, LinkState(inherited), shared=True)
    if config.routes or config.rules:
        return network
    l3 = isinstance(link, IpvlanConfig) and link.mode is not IpvlanMode.L2
    routes, rules = source_based(network.name, network.addresses, parent.routes, gateways=not l3)
    network = replace(network, routes=routes, rules=rules)
    return _in_vrf(network) if network.vrf else network


def _in_vrf(network: PodNetwork) -> PodNetwork:
    """Return the network with all routes in the table of its VRF.

    The kernel adds the VRF's rule, and the connected routes of the addresses.
    """
    assert network.vrf is not None
    table = network.vrf.table
    connected = {str(interface_of(address.cidr).network) for address in network.addresses}
    routes = dict.fromkeys(
        replace(route, table=table)
        for route in network.routes
        if route.gateway or route.nexthops or route.destination not in connected
    )
    inherited = frozenset(
        replace(value, table=table) if isinstance(value, Route) else value
        for value in network.inherited
    )
    return replace(network, routes=tuple(routes), rules=(), inherited=inherited)


def _route(config: RouteConfig) -> Route:
    return Route(
        destination=_prefix(config.destination),
        gateway=config.gateway,
        source=config.source,
        scope=config.scope,
        table=config.table or MAIN,
        metric=config.metric,
        protocol=RTPROT_STATIC,
    )


def _families(config: NetworkConfig, host: LinkState) -> frozenset[str]:
    """Return the address families in the pod: IPv6 needs an MTU of IPV6_MIN_MTU."""
    mtu = config.interface.mtu or host.link.mtu
    if mtu >= IPV6_MIN_MTU:
        return frozenset({"ipv4", "ipv6"})
    if ipv6 := _claimed_ipv6(config):
        raise RefusedError(
            f"device {host.link.name} with interface.mtu {mtu} cannot have {ipv6}: IPv6 needs"
            f" {IPV6_MIN_MTU}; set interface.mtu to that or more, or give interface.addresses,"
            " addressing, routes and neighbors without IPv6"
        )
    return frozenset({"ipv4"})


def _claimed_ipv6(config: NetworkConfig) -> str:
    """Return the claim's first IPv6 value, "" without one."""
    claimed = (
        *(config.interface.addresses or ()),
        *(route.destination for route in config.routes),
        *(neighbour.destination for neighbour in config.neighbors),
    )
    if config.interface.addressing is Addressing.SLAAC:
        return "addressing SLAAC"
    accepted = f"acceptRA {config.interface.accept_ra}" if config.interface.accept_ra else ""
    return next(filter(is_v6, claimed), accepted)


def _prefix(text: str) -> str:
    """Return the prefix without host bits, as the kernel stores it; "" for ""."""
    return str(ip_network(text, strict=False)) if text else ""


def _settings(config: NetworkConfig) -> LinkSettings:
    interface = config.interface
    return LinkSettings(
        mtu=interface.mtu,
        mac=interface.hardware_addr,
        txqlen=interface.tx_queue_len,
        sizes=OffloadSizes(
            gso=interface.gso_max_size,
            gro=interface.gro_max_size,
            gso_ipv4=interface.gso_ipv4_max_size,
            gro_ipv4=interface.gro_ipv4_max_size,
        ),
    )


def _sysctls(config: NetworkConfig) -> tuple[Sysctl, ...]:
    interface = config.interface
    sysctls: list[Sysctl] = []
    if interface.disable_ipv6 is not None:
        sysctls.append(Sysctl("ipv6", "disable_ipv6", str(int(interface.disable_ipv6))))
    elif _claimed_ipv6(config):  # a CNI plugin may have disabled IPv6
        sysctls.append(Sysctl("ipv6", "disable_ipv6", "0"))
    if interface.arp_ignore is not None:
        sysctls.append(Sysctl("ipv4", "arp_ignore", str(interface.arp_ignore)))
    if interface.arp_announce is not None:
        sysctls.append(Sysctl("ipv4", "arp_announce", str(interface.arp_announce)))
    if interface.forwarding is not None:
        value = str(int(interface.forwarding))
        sysctls += (Sysctl("ipv4", "forwarding", value), Sysctl("ipv6", "forwarding", value))
    if interface.addr_gen_mode is not None:
        sysctls.append(Sysctl("ipv6", "addr_gen_mode", str(interface.addr_gen_mode.number)))
    numbers = {
        "dad_transmits": interface.dad_transmits,
        "accept_ra": interface.accept_ra,
        "router_solicitations": interface.router_solicitations,
        "router_solicitation_delay": interface.router_solicitation_delay,
        "router_solicitation_interval": interface.router_solicitation_interval,
        "router_solicitation_max_interval": interface.router_solicitation_max_interval,
    }
    sysctls += (
        Sysctl("ipv6", key, str(value)) for key, value in numbers.items() if value is not None
    )
    if interface.addressing is Addressing.SLAAC:
        sysctls += AUTOCONFIGURED
    return tuple(sysctls)


def _with_slaac_defaults(claimed: InterfaceConfig, *, shared: bool) -> InterfaceConfig:
    """Return the interface with the defaults of SLAAC, which shorten the wait for an address."""
    own = not shared and claimed.hardware_addr is None  # the host had the same address
    defaults: dict[str, object] = {
        "disable_ipv6": False,
        "accept_ra": 2,
        "router_solicitation_delay": 0,
        "router_solicitation_interval": 1,
        "dad_transmits": 0 if own else None,
        # With the parent's MAC address, EUI-64 would derive the parent's IPv6 address.
        "addr_gen_mode": AddressMode.RANDOM if claimed.ipvlan else None,
    }
    missing = {name: value for name, value in defaults.items() if getattr(claimed, name) is None}
    return replace(claimed, **missing)  # type: ignore[arg-type]  # fields and values are those above


def _claimed_addresses(config: NetworkConfig, *, shared: bool) -> tuple[Address, ...]:
    cidrs = dict.fromkeys(config.interface.addresses or ())
    return tuple(Address(cidr, flags=0 if shared else without_detection(cidr)) for cidr in cidrs)


def _configured_rules(config: NetworkConfig) -> tuple[Rule, ...]:
    return tuple(
        rule
        for entry in config.rules
        for rule in _by_family(
            Rule(
                family=4,
                priority=entry.priority or DEFAULT_PRIORITY,
                source=_prefix(entry.source),
                destination=_prefix(entry.destination),
                table=entry.table or MAIN,
                protocol=RTPROT_STATIC,
            )
        )
    )


def _by_family(rule: Rule) -> tuple[Rule, ...]:
    """Return the rule in its prefix's family, or in both without a prefix."""
    prefix = rule.source or rule.destination
    if not prefix:
        return rule, replace(rule, family=6)
    return (replace(rule, family=6 if is_v6(prefix) else 4),)
