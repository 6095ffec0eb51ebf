# ruff: noqa: E501  one broken rule per line reads as a table
"""Policy of a class: limits on the parameters of its claims."""

from collections.abc import Mapping

import pytest

from dranet_nri.config import (
    ConfigEntry,
    ConfigSource,
    network_config_to_object,
    parse_network_config,
    select_config,
)
from dranet_nri.errors import ConfigError

POLICY: dict[str, object] = {
    "name": "tenants",
    "fields": ["interface.addresses", "interface.hardwareAddr", "routes", "ethtool.features"],
    "addresses": ["10.20.0.0/16", "fd20::/32"],
    "hardwareAddrs": ["02:42", "06"],
}
CLASS: dict[str, object] = {"interface": {"mtu": 9000}}


def entries(
    claim: Mapping[str, object], policy: object = POLICY, path: str = ""
) -> tuple[ConfigEntry, ...]:
    return (
        ConfigEntry(ConfigSource.CLASS, "dra.net", CLASS | {"policy": policy}),
        ConfigEntry(ConfigSource.CLAIM, "dra.net", claim, path=path),
    )


def refused(claim: Mapping[str, object], policy: object = POLICY, path: str = "") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        select_config(entries(claim, policy, path), "nic")
    return list(caught.value.violations)


@pytest.mark.parametrize(
    "claim",
    [
        {},
        {"interface": {"addresses": ["10.20.3.4/24", "fd20::5/64"], "hardwareAddr": "0242.0000.0001"}},
        {"interface": {"addresses": ["10.20.3.4-10.20.3.9/24"], "hardwareAddr": "06:00:00:00:00:01"}},
        {"interface": {"addresses": []}},
        {"routes": [{"destination": "0.0.0.0/0", "gateway": "10.20.3.1"}]},
        {"ethtool": {"features": {"tso": False}}},
        {"interface": {"mtu": None, "name": ""}, "profile": "", "rdma": {}},
    ],
)  # fmt: skip
def test_parameters_allowed_by_the_policy_are_merged_over_the_class(
    claim: Mapping[str, object],
) -> None:
    config = select_config(entries(claim), "nic")

    assert config.interface.mtu == 9000
    assert "policy" not in network_config_to_object(config)


@pytest.mark.parametrize(
    ("claim", "start"),
    [
        ({"interface": {"mtu": 1500}}, "interface.mtu: 1500: not allowed"),
        ({"interface": {"disableIPv6": False}}, "interface.disableIPv6: false: not allowed"),
        ({"interface": {"dadTransmits": 0}}, "interface.dadTransmits: 0: not allowed"),
        ({"interface": {"vrf": {"name": "blue"}}}, 'interface.vrf.name: "blue": not allowed'),
        ({"rules": []}, "rules: list of 0: not allowed"),
        ({"profile": "fast"}, 'profile: "fast": not allowed'),
        ({"ethtool": {"privateFlags": {"x": True}}}, "ethtool.privateFlags.x: true: not allowed"),
        ({"interface": {"addresses": ["10.20.0.1/16", "10.21.0.1/16"]}}, 'interface.addresses[1]: "10.21.0.1/16": must lie in 10.20.0.0/16, fd20::/32'),
        ({"interface": {"addresses": ["10.20.255.250-10.21.0.5/15"]}}, 'interface.addresses[0]: "10.20.255.250-10.21.0.5/15": must lie in'),
        ({"interface": {"hardwareAddr": "02:43:00:00:00:01"}}, 'interface.hardwareAddr: "02:43:00:00:00:01": must begin with 02:42, 06'),
    ],
)  # fmt: skip
def test_parameter_forbidden_by_the_policy_is_refused_with_the_policy_name(
    claim: Mapping[str, object], start: str
) -> None:
    (line,) = refused(claim)

    assert line.startswith(start), line
    assert 'by policy "tenants" of the device class; remove it, or ask the administrator' in line


def test_policy_violation_has_the_path_in_the_claim() -> None:
    lines = refused({"interface": {"mtu": 1500, "name": "net1"}}, path="config[1].parameters")

    assert [line.partition(":")[0] for line in lines] == [
        "config[1].parameters.interface.mtu",
        "config[1].parameters.interface.name",
    ]


def test_policy_without_bounds_allows_all_and_empty_bounds_allow_nothing() -> None:
    claim = {"interface": {"addresses": ["10.9.0.1/24"], "hardwareAddr": "02:00:00:00:00:01"}}
    nothing = {"name": "none", "addresses": [], "hardwareAddrs": []}

    assert select_config(entries(claim, {"name": "any"}), "nic").interface.addresses
    lines = refused(claim, nothing)
    assert "must lie in no network" in lines[0]
    assert "must begin with nothing" in lines[1]
    assert refused({"routes": []}, {"name": "none", "fields": []})


def test_policy_applies_only_to_the_requests_of_its_class() -> None:
    claim = ConfigEntry(ConfigSource.CLAIM, "dra.net", {"interface": {"mtu": 1500}})
    free = ConfigEntry(ConfigSource.CLASS, "dra.net", {"policy": {"name": "free"}}, ("nic",))
    bound = ConfigEntry(ConfigSource.CLASS, "dra.net", {"policy": POLICY}, ("other",))

    assert select_config((free, bound, claim), "nic").interface.mtu == 1500
    with pytest.raises(ConfigError, match="tenants"):
        select_config((free, bound, claim), "other")


@pytest.mark.parametrize(("path", "where"), [("", "policy"), ("parameters", "parameters.policy")])
def test_policy_in_a_claim_is_refused(path: str, where: str) -> None:
    entry = ConfigEntry(ConfigSource.CLAIM, "dra.net", {"policy": {"name": "mine"}}, path=path)

    with pytest.raises(ConfigError) as caught:
        select_config((entry,), "nic")

    assert caught.value.violations == (
        f"{where}: object with name: only a DeviceClass can have a policy; remove it",
    )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, "policy: object with no fields: needs name; add it"),
        ({"name": ""}, "policy: object with name: needs name; add it"),
        ({"name": "x", "colour": 1}, "policy.colour: 1: unknown field"),
        ({"name": "x", "fields": ["interface.mtv"]}, 'policy.fields[0]: "interface.mtv": is no path of a field of a claim, such as interface.mtu (did you mean "interface.mtu"?); correct it'),
        ({"name": "x", "fields": [7]}, "policy.fields[0]: 7: must be a string"),
        ({"name": "x", "addresses": ["10.0.0.5"]}, 'policy.addresses[0]: "10.0.0.5":'),
        ({"name": "x", "hardwareAddrs": ["2:42"]}, 'policy.hardwareAddrs[0]: "2:42": must be the first bytes of a MAC address'),
        ([], "policy: list of 0: must be an object"),
    ],
)  # fmt: skip
def test_invalid_policy_is_refused(policy: object, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_network_config({"policy": policy})

    assert any(line.startswith(expected) for line in caught.value.violations), (
        caught.value.violations
    )


def test_policy_can_name_every_field_of_a_claim() -> None:
    names = [
        "profile",
        "rdma",
        "interface.vrf.table",
        "ethtool.features.tso",
        "ethtool.privateFlags.x",
    ]

    assert parse_network_config({"policy": {"name": "x", "fields": names}}) == parse_network_config(
        {}
    )
