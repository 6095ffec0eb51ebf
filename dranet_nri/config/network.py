"""Parser of the opaque parameters of driver dra.net: a `NetworkConfig`, or every violation.

Rules:
1. Fields, types and limits are those of dranet, so that existing claims work unchanged.
2. Values that the kernel always refuses at attach are refused here.
3. A field that this version does not apply is refused, not ignored.
4. `addresses: []` differs from absent `addresses`: it requests an interface without addresses.
"""

from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Final, TypeVar

from dranet_nri.component.replace import replace
from dranet_nri.config.address_ranges import parse_address_or_range
from dranet_nri.config.addressing import read_addressing
from dranet_nri.config.child import read_child
from dranet_nri.config.ethtool import ETHTOOL, read_ethtool
from dranet_nri.config.fields import (
    INTERFACE_FIELDS,
    NEIGHBOUR_FIELDS,
    ROUTE_FIELDS,
    RULE_FIELDS,
    TOP_FIELDS,
)
from dranet_nri.config.json_cursor import (
    INT32,
    Fields,
    Node,
    Violations,
    given,
    has_entries,
    required,
    without_blank,
)
from dranet_nri.config.json_text import load_json
from dranet_nri.config.link import MIN_MTU_IPV6, read_link
from dranet_nri.config.policy import POLICY, read_policy
from dranet_nri.config.rdma import read_rdma
from dranet_nri.config.scalars import (
    IpAddress,
    IpNetwork,
    parse_address,
    parse_gateway,
    parse_ifname,
    parse_mac,
    parse_network,
    parse_own_mac,
    parse_source,
)
from dranet_nri.errors import ConfigError
from dranet_nri.model import (
    Addressing,
    EthtoolConfig,
    InterfaceConfig,
    NeighbourConfig,
    NetworkConfig,
    RdmaConfig,
    RouteConfig,
    RuleConfig,
)

T = TypeVar("T")

# Longest raw parameters the API server stores (OpaqueParametersMaxLength, k8s.io/api/resource).
MAX_PARAMETERS: Final = 10 * 1024

MAX_PROFILE: Final = 253
_MIN_MTU: Final = 68  # IPv4, RFC 791
_SCOPE_UNIVERSE: Final = 0  # RT_SCOPE_*, linux/rtnetlink.h
_SCOPE_LINK: Final = 253
_SCOPE_NAMES: Final = {"global": _SCOPE_UNIVERSE, "link": _SCOPE_LINK}  # as in ip-route(8)
_MAX_TABLE: Final = 2**32 - 1  # RTA_TABLE and FRA_TABLE are 32 bits wide
_TABLE_NAMES: Final = {"default": 253, "main": 254, "local": 255}  # RT_TABLE_*
_MAX_PRIORITY: Final = 32767  # that of the rule for table "default", net/ipv4/fib_rules.c
_ARP_IGNORE: Final = (0, 1, 2, 3, 8)  # Documentation/networking/ip-sysctl.rst
_ARP_ANNOUNCE: Final = (0, 1, 2)

_MAX_SIZE: Final = 8 * 65535  # GSO_MAX_SIZE and GRO_MAX_SIZE, linux/netdevice.h
_SIZES: Final = ("gsoMaxSize", "groMaxSize", "gsoIPv4MaxSize", "groIPv4MaxSize")


def parse_network_config(document: object, path: str = "", *, entry: bool = False) -> NetworkConfig:
    """Return the validated configuration.

    Args:
        document: JSON text, or the object parsed from it.
        path: path of the document in a larger one, a prefix of each violation.
        entry: the document is one of several that are merged, so that another one may have the
            fields that it lacks.

    Raises:
        ConfigError: all violations of the document.
    """
    if isinstance(document, str):
        if len(document.encode(errors="surrogatepass")) > MAX_PARAMETERS:
            where = path or "document"
            raise ConfigError([f"{where}: longer than {MAX_PARAMETERS} bytes; shorten it"])
        document = load_json(document, path)
    findings = Violations(partial=entry)
    config = _network(Node(document, path, findings))
    findings.raise_if_any()
    return config


def _items(fields: Fields, name: str, read: Callable[[Node], T]) -> tuple[T, ...]:
    return tuple(map(read, fields[name].items())) if name in fields else ()


def _one_of(node: Node, allowed: tuple[int, ...]) -> int | None:
    rule = f"must be one of {', '.join(map(str, allowed))}"
    value = node.integer(allowed[0], allowed[-1], rule, _SCOPE_NAMES)
    if value is None or value in allowed:
        return value
    node.report(rule)
    return None


def _network(node: Node) -> NetworkConfig:
    fields = without_blank(node.fields((*TOP_FIELDS, "profile"), (POLICY,)), "profile")
    given(fields, POLICY, read_policy)  # checked here, applied by the merge
    read_interface = partial(_interface, has_rules=has_entries(fields, "rules"))
    interface = given(fields, "interface", read_interface) or InterfaceConfig()
    ethtool = given(fields, ETHTOOL, read_ethtool) or EthtoolConfig()
    if ethtool and interface.child is not None:
        kind = interface.child.kind
        rule = f"not possible with interface.type {kind}, whose parent other pods use; remove it"
        fields[ETHTOOL].report(rule)
    return NetworkConfig(
        interface=interface,
        routes=_items(fields, "routes", partial(_route, interface=interface)),
        rules=_items(fields, "rules", _rule),
        neighbors=_items(fields, "neighbors", partial(_neighbour, interface=interface)),
        rdma=given(fields, "rdma", read_rdma) or RdmaConfig(),
        ethtool=ethtool,
        profile=given(fields, "profile", _profile) or "",
    )


def _profile(node: Node) -> str | None:
    text = node.text()
    if text is not None and len(text) > MAX_PROFILE:
        node.report(f"longer than {MAX_PROFILE} characters; shorten it")
    return text


# --------------------------------------------------------------------------- interface


def _interface(node: Node, *, has_rules: bool) -> InterfaceConfig:
    fields = without_blank(node.fields(INTERFACE_FIELDS, ("dhcp",)), "name", "type", "addressing")
    addressing = read_addressing(node, fields)
    sizes = [given(fields, name, lambda found: found.integer(1, _MAX_SIZE)) for name in _SIZES]
    child_and_link = read_link(fields, read_child(fields), has_rules=has_rules)
    unnumbered = addressing is Addressing.UNNUMBERED
    config = replace(
        child_and_link,
        name=given(fields, "name", lambda found: found.parsed(parse_ifname)),
        addresses=() if unnumbered else given(fields, "addresses", _addresses),
        addressing=None if unnumbered else addressing,
        mtu=given(fields, "mtu", partial(_at_least, low=_MIN_MTU)),
        hardware_addr=given(fields, "hardwareAddr", lambda found: found.parsed(parse_own_mac)),
        gso_max_size=sizes[0],
        gro_max_size=sizes[1],
        gso_ipv4_max_size=sizes[2],
        gro_ipv4_max_size=sizes[3],
        arp_ignore=given(fields, "arpIgnore", partial(_one_of, allowed=_ARP_IGNORE)),
        arp_announce=given(fields, "arpAnnounce", partial(_one_of, allowed=_ARP_ANNOUNCE)),
        forwarding=given(fields, "forwarding", Node.boolean),
        disable_ebpf=given(fields, "disableEbpfPrograms", Node.boolean),
    )
    if config.disable_ebpf and config.child is not None:
        rule = f"not possible with type {config.child.kind}, whose parent other pods use; remove it"
        fields["disableEbpfPrograms"].report(rule)
    ipv6 = any(":" in cidr for cidr in config.addresses or ())
    if ipv6 and config.mtu is not None and config.mtu < MIN_MTU_IPV6:
        rule = f"IPv6 addresses need {MIN_MTU_IPV6} or more; raise it, or remove them"
        fields["mtu"].report(rule)
    if ipv6 and config.disable_ipv6:
        fields["disableIPv6"].report("IPv6 addresses need IPv6; remove one")
    return config


def _addresses(node: Node) -> tuple[str, ...]:
    found: list[str] = []
    for item in node.items():
        cidr = item.parsed(parse_address_or_range)
        if cidr is None:
            continue
        if "-" not in cidr:
            _check_once(item, cidr, found)
        found.append(cidr)
    return tuple(found)


def _check_once(node: Node, cidr: str, before: list[str]) -> None:
    """Report a repeated address; for IPv6 also with another prefix length."""
    address = cidr.partition("/")[0]
    if cidr in before:
        node.report("given twice; keep one")
    elif ":" in cidr and address in {other.partition("/")[0] for other in before}:
        node.report("given with another prefix length before; keep one of the two")


def _hosts(interface: InterfaceConfig) -> frozenset[str]:
    return frozenset(cidr.partition("/")[0] for cidr in interface.addresses or ())


def _at_least(node: Node, low: int) -> int | None:
    return node.integer(low, INT32[1])


# --------------------------------------------------------------------------- routes and the rest


def _route(node: Node, interface: InterfaceConfig) -> RouteConfig:
    fields = without_blank(node.fields(ROUTE_FIELDS), "gateway", "source")
    destination = _required(node, fields, "destination", parse_network)
    _check_family(fields, destination, interface)
    version = destination.version if destination else 0
    scope = _one_of(fields["scope"], (_SCOPE_UNIVERSE, _SCOPE_LINK)) if "scope" in fields else 0
    gateway = given(fields, "gateway", partial(_address_of, parser=parse_gateway, version=version))
    source = given(fields, "source", partial(_address_of, parser=parse_source, version=version))
    if "gateway" not in fields and scope == _SCOPE_UNIVERSE:
        node.report(f"needs gateway, or scope {_SCOPE_LINK} if reached without one")
    if isinstance(gateway, IPv4Address) and int(gateway) and scope == _SCOPE_LINK:
        # fib_check_nh, net/ipv4/fib_semantics.c: a gateway is never in scope link.
        fields["gateway"].report(f"not possible with scope {_SCOPE_LINK} (link); remove one")
    if isinstance(gateway, IPv6Address) and str(gateway) in _hosts(interface):
        # ip6_validate_gw, net/ipv6/route.c; IPv4 accepts it.
        fields["gateway"].report("is the NIC's own address; write the router's")
    if gateway and not int(gateway):
        scope = _SCOPE_LINK
    return RouteConfig(
        destination=_text(destination),
        gateway=_text(gateway if gateway and int(gateway) else None),
        source=_text(source if source and int(source) else None),
        scope=scope or 0,
        table=given(fields, "table", _table) or 0,
        metric=given(fields, "metric", lambda found: found.integer(0, INT32[1])) or 0,
    )


def _rule(node: Node) -> RuleConfig:
    fields = without_blank(node.fields(RULE_FIELDS), "source", "destination")
    source = _network_of(fields, "source")
    destination = _network_of(fields, "destination")
    if source and destination and source.version != destination.version:
        fields["destination"].report(
            f"is IPv{destination.version} but source is IPv{source.version}; use one family"
        )
    priority = given(fields, "priority", lambda found: found.integer(0, _MAX_PRIORITY))
    return RuleConfig(
        priority=priority or 0,
        source=_text(source),
        destination=_text(destination),
        table=given(fields, "table", _table) or 0,
    )


def _neighbour(node: Node, interface: InterfaceConfig) -> NeighbourConfig:
    fields = node.fields(NEIGHBOUR_FIELDS, ("ipAddress",))
    if "ipAddress" in fields:  # as in dranet's published documentation
        node.report("the address of a neighbor is called destination; rename ipAddress")
        fields.setdefault("destination", fields["ipAddress"])
    destination = _required(node, fields, "destination", parse_address)
    _check_family(fields, destination, interface)
    mac = _required(node, fields, "hardwareAddr", parse_mac)
    return NeighbourConfig(destination=_text(destination), hardware_addr=mac or "")


def _check_family(
    fields: Fields, destination: IpNetwork | IpAddress | None, interface: InterfaceConfig
) -> None:
    """Report an IPv6 destination if the interface cannot have IPv6."""
    if destination is None or destination.version == 4:
        return
    if interface.disable_ipv6:
        fields["destination"].report("not possible with interface.disableIPv6; remove one")
    elif interface.mtu is not None and interface.mtu < MIN_MTU_IPV6:
        rule = f"needs interface.mtu {MIN_MTU_IPV6} or more; raise it, or remove one"
        fields["destination"].report(rule)


def _required(node: Node, fields: Fields, name: str, parser: Callable[[str], T]) -> T | None:
    found = required(node, fields, name)
    if found is None:
        return None
    if found.value == "":
        found.report("must not be empty")
        return None
    return found.parsed(parser)


def _address_of(node: Node, parser: Callable[[str], IpAddress], version: int) -> IpAddress | None:
    """Return an address; report one whose family is not `version` (0: any)."""
    address = node.parsed(parser)
    if address and version not in {0, address.version}:
        node.report(f"is IPv{address.version} but destination is IPv{version}; use one family")
    return address


def _network_of(fields: Fields, name: str) -> IpNetwork | None:
    return fields[name].parsed(parse_network) if name in fields else None


def _table(node: Node) -> int | None:
    return node.integer(0, _MAX_TABLE, names=_TABLE_NAMES)


def _text(value: object | None) -> str:
    return "" if value is None else str(value)
