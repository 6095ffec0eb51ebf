# ruff: noqa: E501  one broken rule per line reads as a table
"""The opaque parameters: what is accepted, and each rule of the contract with its message."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.config import MAX_PARAMETERS, parse_network_config
from dranet_nri.errors import ConfigError
from dranet_nri.model import (
    InterfaceConfig,
    NeighbourConfig,
    NetworkConfig,
    RouteConfig,
    RuleConfig,
)

FULL = {
    "interface": {
        "name": "gpu0rdma0",
        "addresses": ["192.168.1.5/32", "2001:DB8::5/64"],
        "mtu": 8896,
        "hardwareAddr": "02-00-5E-10-00-01",
        "gsoMaxSize": 65536,
        "groMaxSize": 65537,
        "gsoIPv4MaxSize": 65538,
        "groIPv4MaxSize": 65539,
        "arpIgnore": 8,
        "arpAnnounce": 2,
        "forwarding": False,
    },
    "routes": [
        {"destination": "192.168.1.1/32", "scope": 253},
        {"destination": "192.168.0.7/16", "gateway": "192.168.1.1", "source": "192.168.1.5"},
        {"destination": "::/0", "gateway": "fe80::1", "table": 100, "metric": 300},
        {"destination": "2001:DB8::7/32", "scope": 253},
    ],
    "rules": [{"priority": 100, "source": "192.168.1.5/32", "table": 100}, {}],
    "neighbors": [{"destination": "192.168.1.1", "hardwareAddr": "0200.5e10.0002"}],
}


def violations(document: object, path: str = "") -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_network_config(document, path)
    return caught.value.violations


def test_every_supported_field_is_parsed_into_its_canonical_form() -> None:
    config = parse_network_config(json.dumps(FULL))

    assert config == NetworkConfig(
        interface=InterfaceConfig(
            name="gpu0rdma0",
            addresses=("192.168.1.5/32", "2001:db8::5/64"),
            mtu=8896,
            hardware_addr="02:00:5e:10:00:01",
            gso_max_size=65536,
            gro_max_size=65537,
            gso_ipv4_max_size=65538,
            gro_ipv4_max_size=65539,
            arp_ignore=8,
            arp_announce=2,
            forwarding=False,
        ),
        routes=(
            RouteConfig("192.168.1.1/32", scope=253),
            RouteConfig("192.168.0.0/16", gateway="192.168.1.1", source="192.168.1.5"),
            RouteConfig("::/0", gateway="fe80::1", table=100, metric=300),
            RouteConfig("2001:db8::/32", scope=253),
        ),
        rules=(RuleConfig(100, "192.168.1.5/32", "", 100), RuleConfig()),
        neighbors=(NeighbourConfig("192.168.1.1", "02:00:5e:10:00:02"),),
    )


@pytest.mark.parametrize(
    "document",
    [
        pytest.param("{}", id="nothing-given"),
        pytest.param({"interface": None, "routes": None}, id="null-is-not-given"),
        pytest.param({"interface": {"name": "", "mtu": None}}, id="blank-name-keeps-the-hosts"),
        pytest.param({"profile": "", "routes": [], "rules": []}, id="blank-profile-empty-lists"),
        pytest.param({"interface": {"type": "Passthrough"}}, id="defaults-spelt-out"),
        pytest.param({"interface": {"type": "", "addressing": ""}}, id="blank-defaults"),
    ],
)
def test_document_without_settings_gives_the_default(document: object) -> None:
    assert parse_network_config(document) == NetworkConfig()


@pytest.mark.parametrize(("dhcp", "addressing"), [(True, "DHCP"), (False, "Static")])
def test_dhcp_is_a_value_of_addressing(dhcp: bool, addressing: str) -> None:  # noqa: FBT001 a case
    assert parse_network_config({"interface": {"dhcp": dhcp}}) == parse_network_config(
        {"interface": {"addressing": addressing}}
    )


def test_empty_address_list_gives_an_interface_without_addresses() -> None:
    assert parse_network_config({"interface": {"addresses": []}}).interface.addresses == ()


@pytest.mark.parametrize(
    "name",
    ["eth0", "net_1.100-a", "žluť", "A" * 15, "ж" * 7],
)
def test_valid_interface_name_is_kept(name: str) -> None:
    assert parse_network_config({"interface": {"name": name}}).interface.name == name


@pytest.mark.parametrize(
    ("mac", "canonical"),
    [
        ("02:00:5E:10:00:01", "02:00:5e:10:00:01"),
        ("02-00-5e-10-00-01", "02:00:5e:10:00:01"),
        ("0200.5e10.0001", "02:00:5e:10:00:01"),
        ("02005E100001", "02:00:5e:10:00:01"),
        ("80" + ":01" * 19, "80" + ":01" * 19),
        ("80" + "01" * 19, "80" + ":01" * 19),
    ],
)
def test_mac_address_of_six_or_twenty_bytes_is_kept(mac: str, canonical: str) -> None:
    config = parse_network_config({"interface": {"hardwareAddr": mac}})

    assert config.interface.hardware_addr == canonical


@pytest.mark.parametrize(
    ("route", "parsed"),
    [
        (
            {"destination": "10.9.0.0/024", "gateway": "::ffff:10.0.0.1"},
            RouteConfig("10.9.0.0/24", "10.0.0.1"),
        ),
        (
            {"destination": "10.9.0.0/24", "gateway": "0.0.0.0", "scope": 253},
            RouteConfig("10.9.0.0/24", scope=253),
        ),
        (
            {"destination": "10.9.0.0/24", "gateway": "0.0.0.0"},
            RouteConfig("10.9.0.0/24", scope=253),
        ),
        (
            {"destination": "2001:db8::/0064", "source": "::", "scope": 253},
            RouteConfig("2001:db8::/64", scope=253),
        ),
        (
            {"destination": "10.9.0.0/24", "source": "127.0.0.1", "scope": 253},
            RouteConfig("10.9.0.0/24", source="127.0.0.1", scope=253),
        ),
    ],
    ids=["mapped-and-padded", "no-gateway", "no-gateway-universe", "no-source", "loopback-source"],
)
def test_route_forms_of_dranet_and_the_kernel_are_accepted(
    route: dict[str, object], parsed: RouteConfig
) -> None:
    assert parse_network_config({"routes": [route]}).routes == (parsed,)


def test_ipv4_mapped_neighbour_becomes_an_ipv4_neighbour() -> None:
    entry = {"destination": "::ffff:10.0.0.9", "hardwareAddr": "020000000009"}

    (parsed,) = parse_network_config({"neighbors": [entry]}).neighbors

    assert parsed == NeighbourConfig("10.0.0.9", "02:00:00:00:00:09")


def test_addresses_that_the_kernel_combines_are_accepted() -> None:
    addresses = ["10.0.0.1/24", "10.0.0.1/16", "224.0.0.1/24", "fe80::5/64", "2001:db8::/64"]

    config = parse_network_config({"interface": {"addresses": addresses}})

    assert config.interface.addresses == tuple(addresses)


@pytest.mark.parametrize(
    "document",
    [
        {
            "interface": {"addresses": ["10.0.0.5/24", "10.9.0.1-10.9.0.9/24"]},
            "gateway": "10.9.0.77",
        },
        {
            "interface": {"addresses": ["10.9.0.5/24"]},
            "direct": "10.0.0.1/32",
            "gateway": "10.0.0.1",
        },
        {"interface": {"addresses": ["10.9.0.5/24"]}, "gateway": "fe80::1"},
        {"interface": {"addresses": ["10.9.0.5/24"], "acceptRA": 2}, "gateway": "2001:db8::1"},
        {"interface": {"addressing": "SLAAC"}, "gateway": "2001:db8::1"},
        {"interface": {"name": "net1"}, "gateway": "10.0.0.1"},
        {"interface": {"addresses": ["10.9.0.5/24"]}, "profile": "fast", "gateway": "10.0.0.1"},
    ],
    ids=["network", "route", "link-local", "RA", "SLAAC", "addresses of the host", "profile"],
)
def test_gateway_that_may_be_reachable_is_accepted(document: dict[str, object]) -> None:
    gateway, direct = document.pop("gateway"), document.pop("direct", None)
    destination = "::/0" if ":" in str(gateway) else "0.0.0.0/0"
    routes = [{"destination": destination, "gateway": gateway}]
    routes += [{"destination": direct, "scope": 253}] if direct else []

    assert parse_network_config({**document, "routes": routes}).routes[0].gateway == gateway


def interface(**fields: object) -> dict[str, object]:
    return {"interface": fields}


def route(**fields: object) -> dict[str, object]:
    return {"routes": [{"destination": "10.0.0.0/8", "gateway": "10.0.0.1"} | fields]}


def rule(**fields: object) -> dict[str, object]:
    return {"rules": [fields]}


def neighbour(**fields: object) -> dict[str, object]:
    return {
        "neighbors": [{"destination": "10.0.0.1", "hardwareAddr": "02:00:00:00:00:01"} | fields]
    }


V6_ROUTE = {"routes": [{"destination": "2001:db8::/32", "gateway": "fe80::1"}]}
V6_NEIGHBOR = {"neighbors": [{"destination": "fd00::1", "hardwareAddr": "02:00:00:00:00:01"}]}

BROKEN = [
    # the document
    ([], "document: list of 0: must be an object"),
    (interface(adresses=[]), 'interface.adresses: list of 0: unknown field (did you mean "addresses"?)'),
    (interface(vrff=1), 'interface.vrff: 1: unknown field (did you mean "vrf"?); remove it or use one of: acceptRA, addrGenMode, addresses,'),
    (interface(MTU=9000), 'interface.MTU: 9000: unknown field (did you mean "mtu"?)'),
    ({"xyz": 1}, "interface, neighbors, profile, rdma, routes, rules"),
    ({"interface": []}, "interface: list of 0: must be an object"),
    ({"interface": {1: 2}}, "interface: object with 1: field name 1 must be a string"),
    ({"routes": {}}, "routes: object with no fields: must be a list; put it in [ ]"),
    # interface
    (interface(name=7), "interface.name: 7: must be a string"),
    (interface(name="a" * 16), f'interface.name: "{"a" * 16}": is 16 bytes long; at most 15 fit'),
    (interface(name="ж" * 8), f'interface.name: "{"ж" * 8}": is 16 bytes long; at most 15 fit'),
    (interface(name="a/b"), 'interface.name: "a/b": must hold only letters, digits, - _ .; remove \'/\''),
    (interface(name="a b"), "remove ' '"),
    (interface(name="a:b"), "remove ':'"),
    (interface(name="a\ud800"), "interface.name: \"a\\ud800\": must hold only letters"),
    (interface(name="."), 'interface.name: ".": must not be "." or ".."'),
    (interface(name=".."), "they are directory names"),
    (interface(name="default"), "is taken in every pod; choose another name"),
    (interface(name="à"), "which is white space to the kernel; remove it"),
    (interface(addresses="10.0.0.1/24"), 'interface.addresses: "10.0.0.1/24": must be a list'),
    (interface(addresses=["10.0.0.1"]), 'interface.addresses[0]: "10.0.0.1": must be in CIDR notation; write "10.0.0.1/32" for one address'),
    (interface(addresses=["fe80::1%eth0/64"]), "without a zone"),
    (interface(addresses=["10.0.0.1/33"]), "prefix length must be 0 to 32"),
    (interface(addresses=["10.0.0.1/08"]), "prefix length must be 0 to 32"),
    (interface(addresses=["10.0.0.1/255.0.0.0"]), "prefix length must be 0 to 32"),
    (interface(addresses=["10.0.0.01/8"]), "must be an IP address"),
    (interface(addresses=["::ffff:10.0.0.1/96"]), 'must not be IPv4-mapped; write "10.0.0.1"'),
    (interface(addresses=["2001:db8::1/64", "2001:DB8::1/64"]), "interface.addresses[1]: \"2001:DB8::1/64\": given twice"),
    (interface(addresses=["10.0.0.1/024"]), "prefix length must be 0 to 32"),
    (interface(addresses=["10.0.0.1/-1"]), '"10.0.0.1/-1": prefix length must be 0 to 32'),
    (interface(addresses=["ff02::5/64"]), 'interface.addresses[0]: "ff02::5/64": is a multicast address, which no NIC can have; write a unicast address'),
    (interface(addresses=["::/64"]), "is the unspecified address, which no NIC can have"),
    (interface(addresses=["::1/128"]), "is a loopback address, which no NIC can have"),
    (interface(addresses=["::-::5/64"]), "is the unspecified address"),
    (interface(addresses=["0.0.0.0/24"]), 'is the unspecified address, which no NIC can have; write a unicast address such as "192.0.2.5/24"'),
    (interface(addresses=["255.255.255.255/32"]), "is the broadcast address, which no NIC can have"),
    (interface(addresses=["feff::-ff02::5/0"]), "is a multicast address"),
    (interface(addresses=["2001:db8::1/64", "2001:DB8::1/48"]), 'interface.addresses[1]: "2001:DB8::1/48": given with another prefix length before; keep one'),
    (interface(mtu=67), "interface.mtu: 67: must be 68 to 2147483647"),
    (interface(mtu=2**31), "must be 68 to 2147483647"),
    (interface(mtu="9000"), 'interface.mtu: "9000": must be a whole number'),
    (interface(mtu=True), "interface.mtu: true: must be a whole number"),
    (interface(mtu=9000.0), "interface.mtu: 9000.0: must be a whole number"),
    (interface(mtu=1279, addresses=["10.0.0.1/8", "2001:db8::1/64"]), "interface.mtu: 1279: IPv6 addresses need 1280"),
    (interface(hardwareAddr="02:00:00:00:00"), "must be a MAC address"),
    (interface(hardwareAddr="02:00-00:00:00:01"), "must be a MAC address"),
    (interface(hardwareAddr=""), 'interface.hardwareAddr: "": must be a MAC address'),
    (interface(hardwareAddr="01:00:5e:00:00:01"), "must be a unicast address"),
    (interface(hardwareAddr="00:00:00:00:00:00"), "must be a unicast address"),
    (interface(hardwareAddr="02:00:5e:10:00:01:02:03"), "must be a MAC address such as \"02:00:5e:10:00:01\" (6 bytes, or 20 of InfiniBand)"),
    (interface(hardwareAddr="02005e10000"), "must be a MAC address"),
    (interface(gsoMaxSize=0), "interface.gsoMaxSize: 0: must be 1 to 524280"),
    (interface(groMaxSize=-1), "interface.groMaxSize: -1: must be 1 to"),
    (interface(gsoIPv4MaxSize=0), "interface.gsoIPv4MaxSize: 0: must be 1 to"),
    (interface(groIPv4MaxSize=0), "interface.groIPv4MaxSize: 0: must be 1 to"),
    (interface(arpIgnore=4), "interface.arpIgnore: 4: must be one of 0, 1, 2, 3, 8"),
    (interface(arpIgnore=9), "interface.arpIgnore: 9: must be one of 0, 1, 2, 3, 8"),
    (interface(arpAnnounce=3), "interface.arpAnnounce: 3: must be one of 0, 1, 2"),
    (interface(forwarding="yes"), 'interface.forwarding: "yes": must be true or false'),
    # routes
    ({"routes": [{"gateway": "10.0.0.1"}]}, "routes[0]: object with gateway: needs destination; add it"),
    (route(destination=""), 'routes[0].destination: "": must not be empty'),
    (route(destination="10.0.0.1"), 'write "10.0.0.1/32" for one address'),
    (route(scope=254), "routes[0].scope: 254: must be one of 0, 253"),
    (route(scope="link"), 'routes[0].scope: "link": must be a number; write 253'),
    (route(scope=100), "routes[0].scope: 100: must be one of 0, 253"),
    (route(scope=256), "routes[0].scope: 256: must be one of 0, 253"),
    (route(gateway="gw"), 'routes[0].gateway: "gw": must be an IP address'),
    (route(gateway="10.0.0.1/8"), "must be an IP address without a prefix length"),
    (route(gateway="fe80::1"), 'routes[0].gateway: "fe80::1": is IPv6 but destination is IPv4'),
    (route(gateway=""), "needs gateway, or scope 253"),
    (route(scope=253), 'routes[0].gateway: "10.0.0.1": not possible with scope 253'),
    (route(gateway="224.0.0.1"), 'routes[0].gateway: "224.0.0.1": is a multicast address, which cannot be a gateway; write the router'),
    (route(gateway="127.0.0.1"), "is a loopback address, which cannot be a gateway"),
    (route(gateway="255.255.255.255"), "is the broadcast address, which cannot be a gateway"),
    (route(destination="::/0", gateway="::"), "is the unspecified address, which cannot be a gateway"),
    (route(destination="::/0", gateway="0.0.0.0"), "is IPv4 but destination is IPv6"),
    (route(source="239.0.0.1"), "is a multicast address, which cannot be a source; write an address of the NIC"),
    (route(destination="::/0", gateway="fe80::1", source="::1"), "is a loopback address, which cannot be a source"),
    (route(destination="::ffff:10.0.0.0/104"), 'must not be IPv4-mapped; write "10.0.0.0" with a prefix length of 0 to 32'),
    (interface(addresses=["2001:db8::1/64"]) | route(destination="::/0", gateway="2001:db8::1"), "routes[0].gateway: \"2001:db8::1\": is the NIC's own address; write the router's"),
    (route(source="fe80::1"), 'routes[0].source: "fe80::1": is IPv6 but destination is IPv4'),
    (route(table=-1), "routes[0].table: -1: must be 0 to 4294967295"),
    (route(table="main"), 'routes[0].table: "main": must be a number; write 254'),
    (route(table="mine"), 'routes[0].table: "mine": must be a whole number'),
    (route(destination="default"), 'destination: "default": must be in CIDR notation; write "0.0.0.0/0" or "::/0"'),
    (route(metric=-1), "routes[0].metric: -1: must be 0 to 2147483647"),
    (route(metric=2**31), "routes[0].metric: 2147483648: must be 0 to 2147483647"),
    (route(priority=1), "routes[0].priority: 1: unknown field"),
    # rules
    (rule(priority=-1), "rules[0].priority: -1: must be 0 to 32767"),
    (rule(priority=32768), "rules[0].priority: 32768: must be 0 to 32767"),
    (rule(table=-1), "rules[0].table: -1: must be 0 to"),
    (rule(source="10.0.0.1"), 'rules[0].source: "10.0.0.1": must be in CIDR notation'),
    (rule(source="10.0.0.0/8", destination="::/0"), 'rules[0].destination: "::/0": is IPv6 but source is IPv4'),
    # neighbors
    (neighbour(destination=""), 'neighbors[0].destination: "": must not be empty'),
    (neighbour(destination="x"), "must be an IP address"),
    (neighbour(hardwareAddr=""), 'neighbors[0].hardwareAddr: "": must not be empty'),
    (neighbour(hardwareAddr="02:xx"), "must be a MAC address"),
    (neighbour(hardwareAddr="02:00:00:00:00:00:00:01"), "must be a MAC address"),
    ({"rules": [None]}, "rules[0]: null: must be an object"),
    ({"ethtool": {"features": {"tso": None}}}, "ethtool.features.tso: null: must be true or false"),
    ({"neighbors": [{"ipAddress": "10.0.0.1", "hardwareAddr": "02:00:00:00:00:01"}]}, "is called destination; rename ipAddress"),
    ({"neighbors": ["10.0.0.1"]}, 'neighbors[0]: "10.0.0.1": must be an object'),
    # fields that this version refuses, held to their rules
    ({"profile": "p" * 254}, "longer than 253 characters; shorten it"),
    ({"profile": 1}, "profile: 1: must be a string"),
    (interface(dhcp=1), "interface.dhcp: 1: must be true or false"),
    (interface(dhcp=True, addresses=["10.0.0.1/8"]), "DHCP together with addresses is not possible"),
    (interface(dhcp=True, addressing="DHCP"), "dhcp and addressing say the same; keep addressing"),
    (
        interface(disableEbpfPrograms=True, type="MACVLAN"),
        "interface.disableEbpfPrograms: true: not possible with type MACVLAN, whose parent",
    ),
    (interface(addressing="DHCP", ipoib={"pkey": "0x8001"}), 'interface.addressing: "DHCP": DHCP needs Ethernet'),
    (interface(addressing="dhcp"), 'interface.addressing: "dhcp": must be one of Static, DHCP, SLAAC, Unnumbered'),
    (interface(addressing="SLAAC", addresses=["10.0.0.1/24", "2001:db8::1/64"]), "SLAAC together with IPv6 addresses is not possible; keep one"),
    (interface(addressing="SLAAC", acceptRA=0), "interface.acceptRA: 0: SLAAC needs router advertisements; remove it, or use 2"),
    (interface(addressing="SLAAC", disableIPv6=True), "interface.disableIPv6: true: SLAAC needs IPv6; remove one"),
    (interface(addressing="SLAAC", addrGenMode="none"), 'interface.addrGenMode: "none": SLAAC needs a link-local address'),
    (interface(addressing="SLAAC", addrGenMode=1), "interface.addrGenMode: 1: SLAAC needs a link-local address"),
    (interface(addressing="SLAAC", type="IPVLAN", addrGenMode="eui64"), 'interface.addrGenMode: "eui64": with type IPVLAN it gives'),
    (interface(addressing="SLAAC", type="IPVLAN", addrGenMode=0), "interface.addrGenMode: 0: with type IPVLAN it gives"),
    (interface(addressing="SLAAC", mtu=1279), "interface.mtu: 1279: SLAAC needs 1280 or more; raise it, or remove one"),
    (interface(addressing="SLAAC", type="IPVLAN", ipvlan={"mode": "L3S"}), "SLAAC needs mode L2"),
    (interface(addressing=1), "interface.addressing: 1: must be a string"),
    (interface(addressing="Unnumbered"), "Unnumbered is only possible with a child, as type IPVLAN"),
    (interface(type="IPVLAN", addressing="DHCP"), "DHCP is not possible with type IPVLAN"),
    (interface(type="IPVLAN", addressing="Unnumbered", addresses=["10.0.0.1/24"]), "Unnumbered together with addresses is not possible"),
    (interface(type="IPVLAN", hardwareAddr="02:00:00:00:00:01"), "not possible with type IPVLAN, which has the address of its parent; remove it"),
    (interface(type="IPVLAN", ipvlan={"mode": "L4"}), 'interface.ipvlan.mode: "L4": must be one of L2, L3, L3S'),
    (interface(type="IPVLAN", ipvlan={"flag": "vepa"}), 'interface.ipvlan.flag: "vepa": must be one of Bridge, Private, VEPA'),
    (interface(type="IPVLAN") | {"ethtool": {"features": {"tso": True}}}, "not possible with interface.type IPVLAN, whose parent other pods use; remove it"),
    (interface(ipvlan={}), "interface.ipvlan: object with no fields: only possible with type IPVLAN"),
    (interface(macvlan={}), "interface.macvlan: object with no fields: only possible with type MACVLAN; set it, or remove this"),
    (interface(type="MACVLAN", macvlan={"mode": "Passthru"}), 'interface.macvlan.mode: "Passthru": must be one of Bridge, Private, VEPA'),
    (interface(type="MACVLAN", vlan={"id": 7}), "interface.vlan: object with id: only possible with type VLAN; set it, or remove this"),
    (interface(type="VLAN"), 'interface.type: "VLAN": needs vlan.id; add it'),
    (interface(type="VLAN", vlan={}), "interface.vlan: object with no fields: needs id; add it"),
    (interface(type="VLAN", vlan={"id": 4095}), "interface.vlan.id: 4095: must be 1 to 4094"),
    (interface(type="VLAN", vlan={"id": 7, "protocol": "802.1x"}), 'interface.vlan.protocol: "802.1x": must be one of 802.1Q, 802.1ad'),
    (interface(type="IPvlan"), 'interface.type: "IPvlan": must be one of Passthrough, IPVLAN, MACVLAN, VLAN, IPoIB (did you mean "IPVLAN"?)'),
    (interface(vrf={}), "interface.vrf: object with no fields: needs name; add it"),
    (interface(vrf={"name": ""}), 'interface.vrf.name: "": must not be empty'),
    (interface(vrf={"name": "b", "table": 0}), "interface.vrf.table: 0: must be 1 to"),
    (interface(vrf={"name": "b", "table": 254}), "interface.vrf.table: 254: 253, 254 and 255 belong to the system"),
    (interface(vrf={"name": "b"}) | {"rules": [{}]}, "rules together with vrf are not possible"),
    (interface(acceptRA=3), "interface.acceptRA: 3: must be 0 to 2"),
    (interface(acceptRA=1, mtu=1000), "interface.acceptRA: 1: needs mtu 1280 or more"),
    (interface(dadTransmits=0, mtu=1000), "interface.dadTransmits: 0: needs mtu 1280 or more"),
    (interface(addrGenMode=3, mtu=1000), "interface.addrGenMode: 3: needs mtu 1280 or more"),
    (interface(acceptRA=1, disableIPv6=True), "interface.acceptRA: 1: not possible with disableIPv6; remove one"),
    (interface(disableIPv6=True, addresses=["fd00::1/64"]), "interface.disableIPv6: true: IPv6 addresses need IPv6; remove one"),
    (interface(disableIPv6=True) | V6_ROUTE, 'routes[0].destination: "2001:db8::/32": not possible with interface.disableIPv6; remove one'),
    (interface(disableIPv6=True) | V6_NEIGHBOR, 'neighbors[0].destination: "fd00::1": not possible with interface.disableIPv6'),
    (interface(mtu=1279) | V6_ROUTE, 'routes[0].destination: "2001:db8::/32": needs interface.mtu 1280 or more; raise it, or remove one'),
    (interface(disableIPv6=1), "interface.disableIPv6: 1: must be true or false"),
    (interface(vrf={"name": "a/b"}), "interface.vrf.name"),
    (interface(name="net1", vrf={"name": "net1"}), "interface.vrf: object with name: has a name of the interface; choose another"),
    (interface(altnames=["a", "b"], vrf={"name": "b"}), "interface.vrf: object with name: has a name of the interface; choose another"),
    (interface(altnames=[""]), 'interface.altnames[0]: "": must not be empty; write a name, or remove it'),
    (interface(gsoMaxSize=524281), "interface.gsoMaxSize: 524281: must be 1 to 524280"),
    (interface(txQueueLen=-1), "interface.txQueueLen: -1: must be 0 to"),
    (interface(altnames=["a", "a"]), 'interface.altnames[1]: "a": given twice; keep one'),
    (interface(altnames=["a/b"]), 'interface.altnames[0]: "a/b": must hold only letters'),
    (interface(addrGenMode="stable_secret"), 'interface.addrGenMode: "stable_secret": must be one of eui64, none, random'),
    (interface(addrGenMode=2), "interface.addrGenMode: 2: must be one of eui64, none, random, or 0, 1, 3; 2 needs a secret"),
    (interface(addrGenMode=True), "interface.addrGenMode: true: must be one of eui64"),
    (interface(dadTransmits=101), "interface.dadTransmits: 101: must be 0 to 100"),
    (interface(routerSolicitations=-2), "interface.routerSolicitations: -2: must be -1 to"),
    (interface(routerSolicitationDelay=-1), "interface.routerSolicitationDelay: -1: must be 0 to 86400"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), BROKEN, ids=[line[:60] for _, line in BROKEN])
def test_invalid_field_is_refused_with_path_value_and_remedy(
    document: object, expected: str
) -> None:
    assert any(expected in line for line in violations(document)), violations(document)


WRONG_TYPES: list[tuple[dict[str, object], str]] = [
    ({"routes": [None]}, "routes[0]: null: must be an object with named fields"),
    ({"neighbors": [7]}, "neighbors[0]: 7: must be an object with named fields"),
    (interface(vrf="blue"), 'interface.vrf: "blue": must be an object with named fields'),
    (interface(addresses="10.0.0.1/8"), 'interface.addresses: "10.0.0.1/8": must be a list; put it in [ ]'),
    ({"ethtool": {"rss": {"weights": 3}}}, "ethtool.rss.weights: 3: must be a list; put it in [ ]"),
    (interface(name=7), "interface.name: 7: must be a string; put it in quotes"),
    (interface(addresses=[None]), "interface.addresses[0]: null: must be a string; write one, or remove this"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "line"), WRONG_TYPES, ids=[line for _, line in WRONG_TYPES])
def test_value_of_a_wrong_type_has_one_violation(document: object, line: str) -> None:
    assert violations(document) == (line,)


def test_suggestions_contain_no_refused_value() -> None:
    reported = violations({"x": 1, "interface": {"x": 1, "type": "x", "addressing": "x"}})
    words = {word for line in reported for word in line.replace(",", "").split()}

    assert {"interface", "mtu", "Passthrough", "Static"} <= words
    assert "dhcp" not in words


def test_violations_are_reported_together_in_document_order_with_the_path() -> None:
    document = {
        "routes": [{"destination": "10.0.0.0/8"}],
        "interface": {"mtu": 1, "nam": "x", "name": "a/b"},
    }

    lines = violations(document, "spec.devices.config[0].opaque.parameters")

    prefix = "spec.devices.config[0].opaque.parameters."
    assert [line.removeprefix(prefix).split(":")[0] for line in lines] == [
        "routes[0]",
        "interface.mtu",
        "interface.nam",
        "interface.name",
    ]
    assert all(line.startswith(prefix) for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"interface": {"mtu": 1500, "mtu": 9000}}', "interface.mtu: 9000: given more than once"),
        ('{"routes": [], "routes": []}', "routes: list of 0: given more than once; keep one"),
        ("{", "document: not valid JSON at line 1 column 2"),
        ('{"interface": {"mtu": NaN}}', "NaN is not JSON"),
        ("[" * 5000, "nested too deeply"),
        ('{"interface": {"mtu": 1' + "0" * 5000 + "}}", "not valid JSON"),
        ('{"profile": "' + "x" * MAX_PARAMETERS + '"}', "longer than 10240 bytes"),
    ],
    ids=["twice", "list-twice", "cut", "nan", "deep", "huge-number", "too-long"],
)
def test_invalid_json_text_is_refused(text: str, expected: str) -> None:
    (line,) = violations(text)

    assert expected in line


def test_long_value_is_truncated_in_the_message() -> None:
    (line,) = violations({"interface": {"name": "n" * 500}})

    assert len(line) < 150
    assert "..." in line


def test_value_of_no_json_type_is_shown() -> None:
    (line,) = violations({"interface": {"name": {1, 2}}})

    assert line.startswith("interface.name: {1, 2}: must be a string")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
known = st.sampled_from(
    [
        "interface",
        "routes",
        "rules",
        "neighbors",
        "vrf",
        "name",
        "addresses",
        "mtu",
        "gateway",
        "destination",
        "source",
        "table",
        "scope",
        "type",
        "addressing",
        "dhcp",
        "ethtool",
        "rdma",
        "charDevices",
        "ipoib",
        "pkey",
        "mode",
    ]
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(known | st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(anything)
def test_any_json_gives_a_value_or_a_config_error(document: object) -> None:
    if isinstance(document, str):
        document = json.dumps(document)
    with suppress(ConfigError):
        assert isinstance(parse_network_config(document), NetworkConfig)


@given(st.text(max_size=60) | st.binary(max_size=40).map(lambda raw: raw.decode("latin-1")))
def test_any_text_gives_a_value_or_a_config_error(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(parse_network_config(text), NetworkConfig)


@pytest.mark.parametrize("name", ["gpu0rdma2.100", "a23456789012345", "net9", "eth0", "é0"])
def test_c13_interface_name_that_the_kernel_accepts_is_accepted(name: str) -> None:
    assert parse_network_config({"interface": {"name": name}}).interface.name == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("lo", "is taken in every pod; choose another name"),
        ("all", "is taken in every pod; choose another name"),
        ("default", "is taken in every pod; choose another name"),
        ("net%d", "remove '%'"),
        ("nic1:1", "remove ':'"),
        ("..", 'must not be "." or ".."'),
        ("rail-of-rack-12-port-0-very-long", "is 32 bytes long; at most 15 fit"),
    ],
)
def test_c13_interface_name_impossible_in_a_pod_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_network_config({"interface": {"name": name}})

    (violation,) = refused.value.violations
    assert violation.startswith(f'interface.name: "{name}": ')
    assert reason in violation
