"""A configuration written as JSON reads back as the same value."""

import json
from dataclasses import replace
from ipaddress import ip_address

from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.config import (
    network_config_to_json,
    network_config_to_object,
    parse_network_config,
)
from dranet_nri.model import (
    TENANT_PKEY,
    AddressMode,
    CharKind,
    ChildFlag,
    InterfaceConfig,
    IpoibConfig,
    IpoibMode,
    IpvlanConfig,
    IpvlanMode,
    MacvlanConfig,
    NeighbourConfig,
    NetworkConfig,
    RdmaConfig,
    RouteConfig,
    RuleConfig,
    VlanConfig,
    VlanProtocol,
)

Text = st.SearchStrategy[str]

int32 = st.integers(1, 2**31 - 1)
sizes = st.integers(1, 524280)
table = st.integers(0, 2**32 - 1)
v4 = st.ip_addresses(v=4).map(str)
v6 = st.ip_addresses(v=6).map(str).filter(lambda text: not text.startswith("::ffff:"))
net4 = st.tuples(v4, st.integers(0, 32)).map(lambda pair: f"{pair[0]}/{pair[1]}")
net6 = st.tuples(v6, st.integers(0, 128)).map(lambda pair: f"{pair[0]}/{pair[1]}")


def is_of_a_host(text: str) -> bool:
    address = ip_address(text)
    narrow = address.is_multicast or address.is_loopback or address.is_unspecified
    return not narrow and text != "255.255.255.255"


host4, host6 = v4.filter(is_of_a_host), v6.filter(is_of_a_host)
own4 = st.tuples(host4, st.integers(0, 32)).map(lambda pair: f"{pair[0]}/{pair[1]}")
own6 = st.tuples(host6, st.integers(0, 128)).map(lambda pair: f"{pair[0]}/{pair[1]}")
mac = st.binary(min_size=6, max_size=6).map(lambda raw: b"\x02" + raw[1:]).map(lambda b: b.hex(":"))


def canonical_network(cidr: str) -> str:
    return parse_network_config({"rules": [{"source": cidr}]}).rules[0].source


def routes(address: Text, net: Text) -> st.SearchStrategy[RouteConfig]:
    return st.one_of(
        st.builds(
            RouteConfig,
            destination=net.map(canonical_network),
            gateway=address,
            source=address | st.just(""),
            table=table,
            metric=st.integers(0, 2**31 - 1),
        ),
        st.builds(
            RouteConfig, destination=net.map(canonical_network), scope=st.just(253), table=table
        ),
    )


names = st.from_regex(r"[a-z][a-z0-9._-]{3,10}", fullmatch=True).filter(lambda n: n != "default")
pkeys = st.integers(0x8001, 0xFFFF) | st.just(TENANT_PKEY)
ipoibs = st.builds(IpoibConfig, pkey=st.none() | pkeys, mode=st.sampled_from(IpoibMode))
ipvlans = st.builds(IpvlanConfig, st.sampled_from(IpvlanMode), st.sampled_from(ChildFlag))
macvlans = st.builds(MacvlanConfig, st.sampled_from(ChildFlag))
vlans = st.builds(VlanConfig, st.integers(1, 4094), st.sampled_from(VlanProtocol))
interfaces = st.builds(
    InterfaceConfig,
    name=st.none() | names,
    addresses=st.none()
    | st.lists(own4 | own6, unique_by=lambda cidr: cidr.partition("/")[0], max_size=4).map(tuple),
    mtu=st.none() | st.integers(1280, 4092),
    gso_max_size=st.none() | sizes,
    gro_max_size=st.none() | sizes,
    gso_ipv4_max_size=st.none() | sizes,
    gro_ipv4_max_size=st.none() | sizes,
    arp_ignore=st.none() | st.sampled_from([0, 1, 2, 3, 8]),
    arp_announce=st.none() | st.integers(0, 2),
    forwarding=st.none() | st.booleans(),
    tx_queue_len=st.none() | st.integers(0, 9000),
    altnames=st.none() | st.lists(names, unique=True, max_size=3).map(tuple),
    addr_gen_mode=st.none() | st.sampled_from(AddressMode),
    dad_transmits=st.none() | st.integers(0, 100),
    accept_ra=st.none() | st.integers(0, 2),
    router_solicitations=st.none() | st.integers(-1, 9),
    router_solicitation_delay=st.none() | st.integers(0, 9),
    router_solicitation_interval=st.none() | st.integers(0, 9),
    router_solicitation_max_interval=st.none() | st.integers(0, 9),
)  # fmt: skip
interfaces = st.one_of(
    st.builds(replace, interfaces, hardware_addr=st.none() | mac),
    st.builds(replace, interfaces, ipoib=ipoibs),
    st.builds(replace, interfaces, ipvlan=ipvlans),
    st.builds(replace, interfaces, hardware_addr=st.none() | mac, macvlan=macvlans),
    st.builds(replace, interfaces, hardware_addr=st.none() | mac, vlan=vlans),
)
rdmas = st.builds(
    RdmaConfig,
    char_devices=st.none() | st.lists(st.sampled_from(CharKind), unique=True).map(tuple),
    name=st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", fullmatch=True),
)
rules = st.one_of(
    *(
        st.builds(
            RuleConfig,
            priority=st.integers(0, 32767),
            source=st.just("") | net.map(canonical_network),
            destination=st.just("") | net.map(canonical_network),
            table=table,
        )
        for net in (net4, net6)
    )
)
configs = st.builds(
    NetworkConfig,
    interface=interfaces,
    routes=st.lists(routes(host4, net4) | routes(host6, net6), max_size=4).map(tuple),
    rules=st.lists(rules, max_size=3).map(tuple),
    neighbors=st.lists(st.builds(NeighbourConfig, v4 | v6, mac), max_size=3).map(tuple),
    rdma=rdmas,
).filter(
    lambda config: {route.gateway for route in config.routes}.isdisjoint(
        cidr.partition("/")[0] for cidr in config.interface.addresses or ()
    )
)


@given(configs)
def test_encoded_configuration_is_decoded_unchanged(config: NetworkConfig) -> None:
    assert parse_network_config(network_config_to_json(config)) == config
    assert parse_network_config(network_config_to_object(config)) == config


def test_vrf_and_disable_ipv6_are_decoded_unchanged() -> None:
    document = {"interface": {"disableIPv6": False, "vrf": {"name": "blue"}}}
    config = parse_network_config(document)

    assert parse_network_config(network_config_to_json(config)) == config
    assert '"disableIPv6":false,"vrf":{"name":"blue","table":1541}' in network_config_to_json(
        config
    )


def test_encoded_text_is_canonical_and_omits_unset_fields() -> None:
    config = parse_network_config(
        ' {"rules": [{"table": 5, "priority": 0}], "interface": {"forwarding": false, "mtu": 1500}}'
    )

    text = network_config_to_json(config)

    assert text == '{"interface":{"mtu":1500,"forwarding":false},"rules":[{"table":5}]}'
    assert network_config_to_object(config) == json.loads(text)
    assert network_config_to_json(NetworkConfig()) == "{}"


def test_infiniband_blocks_are_encoded_in_the_documented_form() -> None:
    document = {
        "interface": {"type": "IPoIB", "ipoib": {"pkey": "0x8001", "mode": "connected"}},
        "rdma": {"charDevices": ["uverbs", "umad"], "name": "hca0"},
    }
    tenant = {"interface": {"type": "IPoIB", "ipoib": {"pkey": "tenant"}}}
    least = {"interface": {"type": "IPoIB"}, "rdma": {"charDevices": []}}

    for written in (document, tenant, least):
        assert network_config_to_object(parse_network_config(written)) == written
