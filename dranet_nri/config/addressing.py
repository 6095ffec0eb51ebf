"""Parser of `addressing` of an interface, and of `dhcp`, dranet's former name of one value.

Rules:
1. Fields that contradict the addressing are refused, with the rules of dranet.
2. `dhcp: true` is `addressing: DHCP`, and `dhcp: false` is `addressing: Static`.
3. `Unnumbered` is the same as an empty list of addresses.
4. The reach of a gateway depends on all addresses and routes of the NIC, so it is checked on the
   result of every merge, not here.
5. The kernel adds a route only if its gateway is in the network of an address of the NIC, or in the
   destination of a route without a gateway (fib_check_nh, net/ipv4/fib_semantics.c;
   ip6_route_check_nh, net/ipv6/route.c). IPv6 link-local gateways are always reachable.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_interface, ip_network
from typing import Final

from dranet_nri.config.child import IPVLAN, PASSTHROUGH
from dranet_nri.config.json_cursor import Fields, Node, given, has_entries, show
from dranet_nri.config.link import MIN_MTU_IPV6, address_mode
from dranet_nri.model import Addressing, AddressMode, NetworkConfig

_OF_DHCP: Final[Mapping[bool | None, Addressing]] = {
    True: Addressing.DHCP,
    False: Addressing.STATIC,
}
_NO_BROADCAST: Final = 31  # networks of this length and longer have none (RFC 3021)


def read_addressing(node: Node, fields: Fields) -> Addressing | None:
    """Return the addressing of the interface, None if not set.

    Args:
        node: node of `interface`.
        fields: its fields.
    """
    word = given(fields, "addressing", lambda found: found.word(tuple(Addressing)))
    dhcp = given(fields, "dhcp", Node.boolean)
    if dhcp and "addressing" in fields:
        node.report("dhcp and addressing say the same; keep addressing")
    chosen = Addressing(word) if word else _OF_DHCP.get(dhcp)
    kind = fields["type"].value if "type" in fields else PASSTHROUGH
    match chosen:
        case Addressing.UNNUMBERED:
            _check_unnumbered(node, fields, kind)
        case Addressing.DHCP:
            _check_dhcp(node, fields, kind)
        case Addressing.SLAAC:
            _check_slaac(node, fields, kind)
    return chosen


def without_dhcp(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return valid parameters with `addressing` in place of `dhcp`; a merge has one field."""
    interface = parameters.get("interface")
    if not isinstance(interface, Mapping) or interface.get("dhcp") is None:
        return parameters
    rest = {name: value for name, value in interface.items() if name != "dhcp"}
    addressing = rest.get("addressing") or str(_OF_DHCP[interface["dhcp"]])
    return {**parameters, "interface": {**rest, "addressing": addressing}}


def _check_unnumbered(node: Node, fields: Fields, kind: object) -> None:
    if kind == PASSTHROUGH:
        rule = "Unnumbered is only possible with a child, as type IPVLAN; use addresses: []"
        node = fields["addressing"]
        report = node.report if "type" in fields else node.report_missing
        report(rule)
    if has_entries(fields, "addresses"):
        node.report("Unnumbered together with addresses is not possible; keep one")


def _check_dhcp(node: Node, fields: Fields, kind: object) -> None:
    given_as = "addressing" if "addressing" in fields else "dhcp"
    if "ipoib" in fields:
        fields[given_as].report("DHCP needs Ethernet, and ipoib makes InfiniBand; use Static")
    if kind == IPVLAN:
        fields[given_as].report("DHCP is not possible with type IPVLAN; use Static")
    if has_entries(fields, "addresses"):
        node.report("DHCP together with addresses is not possible; keep one")


def _check_slaac(node: Node, fields: Fields, kind: object) -> None:
    """Check fields that prevent addresses from router advertisements."""
    values = {name: found.value for name, found in fields.items()}
    addresses = values.get("addresses")
    if isinstance(addresses, list) and any(":" in str(address) for address in addresses):
        node.report("SLAAC together with IPv6 addresses is not possible; keep one")
    if values.get("acceptRA") == 0:
        fields["acceptRA"].report("SLAAC needs router advertisements; remove it, or use 2")
    if values.get("disableIPv6") is True:
        fields["disableIPv6"].report("SLAAC needs IPv6; remove one")
    mode = address_mode(values.get("addrGenMode"))
    if mode is AddressMode.NONE:
        rule = "SLAAC needs a link-local address to solicit routers; use random or eui64"
        fields["addrGenMode"].report(rule)
    if mode is AddressMode.EUI64 and kind == IPVLAN:
        rule = "with type IPVLAN it gives the parent's own addresses; use random"
        fields["addrGenMode"].report(rule)
    mtu = values.get("mtu")
    if isinstance(mtu, int) and mtu < MIN_MTU_IPV6:
        fields["mtu"].report(f"SLAAC needs {MIN_MTU_IPV6} or more; raise it, or remove one")
    block = values.get("ipvlan")
    if isinstance(block, dict) and block.get("mode") in {"L3", "L3S"}:
        fields["ipvlan"].report("SLAAC needs mode L2; the others receive no advertisements")


def gateway_violations(config: NetworkConfig) -> Iterator[str]:
    """Yield violations for the gateways of unreachable_gateways.

    Args:
        config: all parameters of the NIC, after every merge.
    """
    for index, reason in unreachable_gateways(config):
        yield f"routes[{index}].gateway: {show(config.routes[index].gateway)}: {reason}"


def unreachable_gateways(config: NetworkConfig) -> Iterator[tuple[int, str]]:
    """Yield (index of the route, reason) of gateways that no address or route of the NIC reaches.

    The kernel refuses the broadcast address of a network as a gateway too.

    Args:
        config: all parameters of the NIC, after every merge. Without `addresses` the NIC keeps
            those of the host, and with DHCP it gets one of the server. These are not known here.
    """
    interface = config.interface
    if interface.addresses is None or interface.addressing is Addressing.DHCP:
        return
    networks = [ip_interface(cidr.rpartition("-")[2]).network for cidr in interface.addresses]
    networks += (
        ip_network(route.destination, strict=False) for route in config.routes if not route.gateway
    )
    broadcasts = {
        network.broadcast_address
        for network in networks[: len(interface.addresses)]
        if network.version == 4 and network.prefixlen < _NO_BROADCAST
    }
    advertised = interface.is_dynamic or bool(interface.accept_ra)
    for index, route in enumerate(config.routes):
        if not route.gateway:
            continue
        gateway = ip_address(route.gateway)
        by_router = gateway.version == 6 and (gateway.is_link_local or advertised)
        if not by_router and not any(gateway in network for network in networks):
            yield (
                index,
                "is in no network of interface.addresses; correct it, or add a route to it with "
                "scope 253",
            )
        elif gateway in broadcasts:
            yield (
                index,
                "is the broadcast address of a network of interface.addresses; write the router's",
            )
