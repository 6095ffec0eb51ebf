"""Parameters of dranet: all fields are accepted; the limits page lists the refused values."""

from pathlib import Path
from typing import Final

import pytest

from dranet_nri.config import parse_network_config
from dranet_nri.config.addressing import gateway_violations
from dranet_nri.errors import ConfigError

LIMITS: Final = Path(__file__).parents[3] / "manifests/docs/limits.md"
NETWORK, ROUTER, OWN, NULL = "198.51.100.0/24", "192.0.2.1", "2001:db8::5", None
MAC: Final = "02:00:5e:10:00:01"


def interface(**fields: object) -> dict[str, object]:
    """Return a document with these fields of `interface`."""
    return {"interface": fields}


def child(**fields: object) -> dict[str, object]:
    """Return fields of an IPVLAN child."""
    return {"type": "IPVLAN", "addresses": ["192.0.2.5/24"], **fields}


def route(**fields: object) -> dict[str, object]:
    """Return a document with one route."""
    return {"routes": [{"destination": NETWORK, "gateway": ROUTER, **fields}]}


# Fields of kubernetes-sigs/dranet at v1.4.0, and interface.type to addrGenMode of October 2026.
ACCEPTED: Final[tuple[dict[str, object], ...]] = (
    {"profile": "ipam"},
    *(interface(name="net1"), interface(addresses=["192.0.2.5/24", f"{OWN}/64"])),
    *(interface(dhcp=True), interface(mtu=9000), interface(hardwareAddr=MAC)),
    *(interface(gsoMaxSize=1), interface(groMaxSize=1)),
    *(interface(gsoIPv4MaxSize=1), interface(groIPv4MaxSize=1)),
    *(interface(disableEbpfPrograms=True), interface(forwarding=True)),
    *(interface(arpIgnore=number) for number in (0, 1, 2, 3, 8)),
    *(interface(arpAnnounce=number) for number in (0, 1, 2)),
    *(interface(vrf={"name": "blue"}), interface(vrf={"name": "blue", "table": 7})),
    interface(vrf={"name": "blue"}) | {"rules": []},
    interface(dhcp=True, addresses=[]) | route(),
    *(interface(type="Passthrough"), interface(addressing="Static"), interface(addressing="DHCP")),
    interface(**child(ipvlan={"mode": "L2", "flag": "Bridge"})),
    interface(type="IPVLAN", addressing="Unnumbered"),
    interface(type="IPVLAN", addressing="Unnumbered", addresses=[]),
    *(interface(acceptRA=number) for number in (0, 1, 2)),
    *(interface(addrGenMode=number) for number in (0, 1, 3)),
    *(interface(disableIPv6=False), interface(dadTransmits=0), interface(addressing="SLAAC")),
    *(interface(routerSolicitationDelay=0), interface(routerSolicitationInterval=1)),
    interface(type="IPVLAN", addressing="SLAAC", addrGenMode=3),
    *(route(), route(source="192.0.2.5", table=7)),
    {"routes": [{"destination": NETWORK, "scope": 253}]},
    {"rules": [{"priority": 7, "source": NETWORK, "destination": NETWORK, "table": 7}]},
    {"neighbors": [{"destination": ROUTER, "hardwareAddr": MAC}]},
    {"ethtool": {"features": {"tso": False, "rx-gro": True}, "privateFlags": {"flag": True}}},
)  # fmt: skip

# By their row in the table.
REFUSED: Final[dict[str, tuple[dict[str, object], ...]]] = {
    "`interface.disableEbpfPrograms` of a child": (interface(**child(disableEbpfPrograms=True)),),
    "`ethtool` of a child": (
        {"interface": child(), "ethtool": {"features": {"tso": False}}},
    ),
    "`null` in `ethtool`, or as an entry of a list": (
        {"ethtool": {"features": {"tso": NULL}}},
        {"ethtool": {"privateFlags": {"flag": NULL}}},
        {"routes": [NULL]},
        {"rules": [NULL]},
        {"neighbors": [NULL]},
        interface(addresses=[NULL]),
    ),
    "a duplicate in `interface.addresses`": (interface(addresses=["192.0.2.5/24"] * 2),),
    "an IPv6 address with two prefix lengths": (interface(addresses=[f"{OWN}/64", f"{OWN}/128"]),),
    "a multicast, loopback or unspecified IPv6 address": tuple(
        interface(addresses=[f"{address}/64"]) for address in ("ff02::1", "::1", "::")
    ),
    "`0.0.0.0` or `255.255.255.255` as an address": tuple(
        interface(addresses=[f"{address}/32"]) for address in ("0.0.0.0", "255.255.255.255")
    ),
    "an IPv4-mapped address with a prefix length": (interface(addresses=["::ffff:192.0.2.5/120"]),),
    "IPv6 addresses, routes or neighbors with an `interface.mtu` below 1280": (
        interface(addresses=[f"{OWN}/64"], mtu=1279),
        {**interface(mtu=1279), **route(destination="2001:db8:1::/64", gateway=OWN)},
    ),
    "IPv6 addresses, routes or neighbors with `interface.disableIPv6`": (
        interface(addresses=[f"{OWN}/64"], disableIPv6=True),
        {**interface(disableIPv6=True), "neighbors": [{"destination": OWN, "hardwareAddr": MAC}]},
    ),
    "`all`, `default` or `lo` as `interface.name` or `vrf.name`": tuple(
        document
        for name in ("all", "default", "lo")
        for document in (interface(name=name), interface(vrf={"name": name}))
    ),
    "a name with a byte `0xa0` in UTF-8, such as `à`": (interface(name="à"),),
    "a `vrf.name` with a character that `interface.name` cannot have": (
        interface(vrf={"name": "blue+red"}),
    ),
    "`vrf.name` equal to `interface.name`": (interface(name="net1", vrf={"name": "net1"}),),
    "GSO and GRO sizes above 524280": tuple(
        interface(**{field: 524281})
        for field in ("gsoMaxSize", "groMaxSize", "gsoIPv4MaxSize", "groIPv4MaxSize")
    ),
    "a MAC of 8 bytes": (interface(hardwareAddr=f"{MAC}:00:00"),),
    "a multicast or zero MAC in `interface.hardwareAddr`": (
        interface(hardwareAddr="01:00:5e:10:00:01"),
        interface(hardwareAddr="00:00:00:00:00:00"),
    ),
    "an IPv4 `gateway` in a route with `scope` 253": (route(scope=253),),
    "an IPv6 `gateway` that is an address of the NIC": (
        {**interface(addresses=[f"{OWN}/64"]), **route(destination="2001:db8:1::/64", gateway=OWN)},
    ),
    "a multicast or loopback `gateway` or `source`": tuple(
        route(**{field: address})
        for field in ("gateway", "source")
        for address in ("224.0.0.1", "127.0.0.1")
        if (field, address) != ("source", "127.0.0.1")
    ),
    "a `gateway` that the NIC does not reach": (
        {**interface(addresses=["203.0.113.5/24"]), **route()},
    ),
    "a `gateway` that is the broadcast address of a network of the NIC": (
        {**interface(addresses=["192.0.2.5/24"]), **route(gateway="192.0.2.255")},
        {**interface(addresses=["192.0.2.1-192.0.2.2/30"]), **route(gateway="192.0.2.3")},
    ),
    "two values for two names of one ethtool feature": (
        {"ethtool": {"features": {"tso": True, "tcp-segmentation-offload": False}}},
    ),
    "a name in `ethtool` of 0 or more than 31 bytes": tuple(
        {"ethtool": {"privateFlags": {name: True}}} for name in ("", "x" * 32)
    ),
    "`interface.addrGenMode: 2`": (interface(addrGenMode=2),),
    "`interface.dadTransmits` above 100": (interface(dadTransmits=101),),
    "times of router solicitations above a day": (
        interface(routerSolicitationDelay=86401),
        interface(routerSolicitationInterval=86401),
    ),
    "a `profile` of more than 253 characters": ({"profile": "x" * 254},),
    "a `table` above 4294967295": (
        route(table=2**32),
        {"rules": [{"table": 2**32}]},
        interface(vrf={"name": "blue", "table": 2**32}),
    ),
}  # fmt: skip


def problems(document: dict[str, object]) -> tuple[str, ...]:
    """Return what Prepare finds."""
    try:
        return tuple(gateway_violations(parse_network_config(document)))
    except ConfigError as error:
        return error.violations


@pytest.mark.parametrize("document", ACCEPTED, ids=str)
def test_every_field_of_dranet_is_accepted(document: dict[str, object]) -> None:
    assert problems(document) == ()


@pytest.mark.parametrize("row", REFUSED)
def test_values_of_the_limits_page_are_refused(row: str) -> None:
    for document in REFUSED[row]:
        assert problems(document), document


def test_limits_page_lists_the_refused_values() -> None:
    table = LIMITS.read_text().partition("<!-- refused -->")[2].partition("<!-- end -->")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")]

    assert rows[2:] == list(REFUSED)
