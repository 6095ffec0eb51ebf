"""Assignment of one address of a range to each device."""

from collections.abc import Iterable

import pytest

from dranet_nri.config import (
    assign_addresses,
    network_config_to_object,
    parse_network_config,
)
from dranet_nri.errors import ConfigError, OwnedError, RefusedError
from dranet_nri.model import NetworkConfig


def config(*addresses: str) -> NetworkConfig:
    return parse_network_config({"interface": {"addresses": list(addresses)}})


def leased(configs: Iterable[NetworkConfig], *taken: str) -> list[tuple[str, ...] | None]:
    return [address.interface.addresses for address in assign_addresses(tuple(configs), taken)]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.9.1.16-10.9.1.63/24", "10.9.1.16-10.9.1.63/24"),
        ("10.9.1.16-10.9.1.16/32", "10.9.1.16-10.9.1.16/32"),
        ("10.0.0.0-10.0.255.255/8", "10.0.0.0-10.0.255.255/8"),
        ("2001:DB8::1-2001:db8::F/64", "2001:db8::1-2001:db8::f/64"),
    ],
)
def test_address_range_is_canonicalized(text: str, canonical: str) -> None:
    document = {"interface": {"addresses": [canonical]}}

    assert config(text).interface.addresses == (canonical,)
    assert network_config_to_object(config(text)) == document


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1-", "must be an IP address"),
        ("-10.0.0.1/24", "must be an IP address"),
        ("10.0.0.1/24-10.0.0.9/24", "without a prefix length"),
        ("10.0.0.1-10.0.0.9", 'must be in CIDR notation; write "10.0.0.9/32"'),
        ("10.0.0.1-10.0.0.5-10.0.0.9/24", "must be an IP address"),
        ("10.0.0.1-2001:db8::1/64", "begins as IPv4 and ends as IPv6"),
        ("10.0.0.9-10.0.0.1/24", "ends before it begins; write the lower address first"),
        ("10.0.0.1-10.0.1.9/24", "10.0.0.1 is not in the network of 10.0.1.9/24; correct one"),
        ("10.0.0.0-10.1.0.0/8", "holds more than 65536 addresses; use a part of it"),
    ],
)
def test_invalid_address_range_is_refused(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(text)

    (line,) = caught.value.violations
    assert line.startswith(f'interface.addresses[0]: "{text}": ')
    assert expected in line


def test_ipv6_address_range_requires_the_ipv6_minimum_mtu() -> None:
    addresses = ["2001:db8::1-2001:db8::f/64"]

    with pytest.raises(ConfigError, match="IPv6 addresses need 1280"):
        parse_network_config({"interface": {"addresses": addresses, "mtu": 1279}})


def test_device_gets_the_first_free_address_of_the_range() -> None:
    span = "10.9.1.16-10.9.1.20/24"
    configs = (config(span), config("10.9.1.18/32"), config(span), NetworkConfig())

    assert leased(configs, "10.9.1.16/16", "10.9.1.99/24") == [
        ("10.9.1.17/24",),
        ("10.9.1.18/32",),
        ("10.9.1.19/24",),
        None,
    ]


@pytest.mark.parametrize(
    ("span", "assigned"),
    [
        ("10.9.1.0-10.9.1.255/24", "10.9.1.1/24"),
        ("2001:db8::-2001:db8::f/64", "2001:db8::1/64"),
        ("10.9.1.0-10.9.1.1/31", "10.9.1.0/31"),
        ("2001:db8::-2001:db8::1/127", "2001:db8::/127"),
        ("10.9.0.255-10.9.1.9/16", "10.9.0.255/16"),
    ],
)
def test_address_that_no_host_can_have_is_not_assigned(span: str, assigned: str) -> None:
    assert leased([config(span)]) == [(assigned,)]


def test_last_address_of_an_ipv4_network_is_not_assigned() -> None:
    with pytest.raises(RefusedError, match="has fewer addresses"):
        leased([config("10.9.1.255-10.9.1.255/24")])


def test_address_of_a_gateway_or_neighbor_is_not_assigned() -> None:
    span = "10.9.1.1-10.9.1.9/24"
    document = {
        "interface": {"addresses": [span]},
        "routes": [{"destination": "10.7.0.0/16", "gateway": "10.9.1.1"}],
        "neighbors": [{"destination": "10.9.1.2", "hardwareAddr": "02:00:00:00:00:02"}],
    }

    assert leased([parse_network_config(document)]) == [("10.9.1.3/24",)]


def test_ranges_are_combined_with_addresses_and_may_be_repeated() -> None:
    span = "2001:db8::1-2001:db8::2/64"

    assert leased([config("10.0.0.1/8", span, span)]) == [
        ("10.0.0.1/8", "2001:db8::1/64", "2001:db8::2/64")
    ]


def test_configuration_without_a_range_is_unchanged() -> None:
    before = parse_network_config({"interface": {"addresses": [], "mtu": 9000}})

    assert assign_addresses([before], ["10.0.0.1/8"]) == (before,)


def test_exhausted_range_is_refused_with_the_remedy() -> None:
    span = "10.9.1.16-10.9.1.17/24"

    with pytest.raises(OwnedError) as caught:
        leased([config(span)] * 2, "10.9.1.16/24")

    assert str(caught.value) == (
        f"interface.addresses: pods of this node use every address of {span}; "
        "delete one of them, or widen the range"
    )


@pytest.mark.parametrize("taken", [(), ("10.9.1.16/24",)])
def test_range_smaller_than_the_requests_is_refused_permanently(taken: tuple[str, ...]) -> None:
    span = "10.9.1.16-10.9.1.17/24"

    with pytest.raises(RefusedError) as caught:
        leased([config(span), config(span), config("10.9.1.17/24")], *taken)

    assert type(caught.value) is RefusedError, "no wait is worth it"
    assert str(caught.value) == (
        f"interface.addresses: {span} has fewer addresses than these devices request; "
        "widen the range"
    )
