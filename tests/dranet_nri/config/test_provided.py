"""Parameters of clouds and profiles below those of class and claim."""

from collections.abc import Mapping

import pytest

from dranet_nri.config import (
    Provided,
    SelectedParameters,
    network_config_to_object,
    parse_network_config,
    with_provided,
)
from dranet_nri.errors import ConfigError

PROFILE = 'profile "fast", device eth1'
CLOUD = "cloud AZURE, device eth1"


def merged(
    own: Mapping[str, object], *layers: tuple[str, Mapping[str, object]]
) -> dict[str, object]:
    given = [Provided(origin, parameters) for origin, parameters in layers]
    return network_config_to_object(
        with_provided(given, SelectedParameters(parse_network_config(own), own))
    )


def test_claim_takes_precedence_over_cloud_and_cloud_over_profile() -> None:
    own = {"interface": {"mtu": 1500}}
    cloud = {"interface": {"mtu": 4000, "forwarding": False}}
    profile = {"interface": {"mtu": 9000, "forwarding": True, "name": "net1"}}

    assert merged(own, (PROFILE, profile), (CLOUD, cloud)) == {
        "interface": {"name": "net1", "mtu": 1500, "forwarding": False}
    }


def test_explicit_false_of_the_claim_takes_precedence() -> None:
    given = merged(
        {"interface": {"forwarding": False}}, (PROFILE, {"interface": {"forwarding": True}})
    )

    assert given == {"interface": {"forwarding": False}}


@pytest.mark.parametrize("of_provider", [{"dhcp": True}, {"addressing": "DHCP"}])
def test_claim_without_dhcp_takes_precedence(of_provider: dict[str, object]) -> None:
    own = {"interface": {"dhcp": False, "addresses": ["10.0.0.5/24"]}}

    given = merged(own, (CLOUD, {"interface": of_provider}))

    assert given == {"interface": {"addressing": "Static", "addresses": ["10.0.0.5/24"]}}


L3: dict[str, object] = {"type": "IPVLAN", "ipvlan": {"mode": "L3", "flag": "VEPA"}}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param({"mtu": 1500}, {"mtu": 1500, **L3}, id="no type"),
        pytest.param({"type": ""}, L3, id="blank type"),
        pytest.param({"type": "IPVLAN"}, L3, id="the same type"),
        pytest.param({"type": "IPVLAN", "ipvlan": {"mode": ""}}, L3, id="blank mode"),
        pytest.param({"type": "Passthrough"}, {}, id="Passthrough"),
        pytest.param({"type": "MACVLAN"}, {"type": "MACVLAN"}, id="another type"),
        pytest.param(
            {"type": "IPVLAN", "ipvlan": {"mode": "L2"}},
            {"type": "IPVLAN", "ipvlan": {"flag": "VEPA"}},
            id="default mode",
        ),
    ],
)
def test_explicit_type_and_mode_take_precedence(
    own: dict[str, object], expected: dict[str, object]
) -> None:
    given = merged({"interface": own}, (CLOUD, {"interface": L3}))

    assert given.get("interface", {}) == expected


def test_explicit_type_of_the_cloud_takes_precedence_over_the_profile() -> None:
    cloud = {"interface": {"type": "Passthrough"}}

    assert merged({}, (PROFILE, {"interface": L3}), (CLOUD, cloud)) == {}


@pytest.mark.parametrize(
    ("own", "provided"), [({"equal": 2}, {"weights": [1, 3]}), ({"weights": [1, 3]}, {"equal": 2})]
)
def test_rss_of_the_claim_replaces_that_of_the_cloud(
    own: dict[str, object], provided: dict[str, object]
) -> None:
    given = merged({"ethtool": {"rss": own}}, (CLOUD, {"ethtool": {"rss": provided}}))

    assert given == {"ethtool": {"rss": own}}


def test_lists_are_joined_and_the_entry_of_higher_precedence_is_kept() -> None:
    own = {
        "interface": {"addresses": ["10.0.0.1/24"]},
        "routes": [{"destination": "10.9.0.0/16", "gateway": "10.0.0.9"}],
    }
    profile: dict[str, object] = {
        "interface": {"addresses": ["10.0.0.1/24", "10.0.0.2/24"]},
        "routes": [
            {"destination": "10.9.0.0/16", "gateway": "10.0.0.8"},
            {"destination": "10.8.0.0/16", "gateway": "10.0.0.8"},
        ],
        "rules": [{"source": "10.0.0.0/24", "table": 101}],
        "neighbors": [{"destination": "10.0.0.8", "hardwareAddr": "02:00:00:00:00:08"}],
    }

    given = merged(own, (PROFILE, profile))

    assert given["interface"] == {"addresses": ["10.0.0.2/24", "10.0.0.1/24"]}
    assert [(route["destination"], route["gateway"]) for route in given["routes"]] == [  # type: ignore[attr-defined]
        ("10.8.0.0/16", "10.0.0.8"),
        ("10.9.0.0/16", "10.0.0.9"),
    ]
    assert len(given["rules"]) == len(given["neighbors"]) == 1  # type: ignore[arg-type]


def test_neighbours_and_rules_of_both_sources_are_joined() -> None:
    near = {"destination": "10.0.0.8", "hardwareAddr": "02:00:00:00:00:08"}
    own = {"rules": [{"source": "10.1.0.0/24", "table": 7}], "neighbors": [near]}
    far = {"destination": "10.0.0.8", "hardwareAddr": "02:00:00:00:00:09"}

    given = merged(
        own, (PROFILE, {"rules": [{"source": "10.0.0.0/24", "table": 7}], "neighbors": [far]})
    )

    assert len(given["rules"]) == 2  # type: ignore[arg-type]
    assert given["neighbors"] == [near]


def test_parameters_of_the_claim_are_kept_without_providers() -> None:
    written = {"profile": "fast"}
    own = SelectedParameters(parse_network_config(written), written)

    assert with_provided([Provided(CLOUD, {})], own) is own.config


def test_violation_of_a_provider_names_the_provider() -> None:
    with pytest.raises(ConfigError) as raised:
        merged({}, (PROFILE, {"interface": {"mtu": 3}}), (CLOUD, {"x": 1}))

    assert [line.partition(":")[0] for line in raised.value.violations] == [
        f"{PROFILE}.interface.mtu",
        f"{CLOUD}.x",
    ]


AZURE: dict[str, object] = {
    "rules": [{"source": "10.0.0.0/24", "table": 101}, {"source": "fd00::5/128", "table": 101}],
    "routes": [
        {"destination": "0.0.0.0/0", "gateway": "10.0.0.1", "table": 101},
        {"destination": "::/0", "gateway": "fe80::1234:5678:9abc", "table": 101},
    ],
}


def test_rules_of_a_provider_do_not_apply_with_a_vrf() -> None:
    given = merged({"interface": {"vrf": {"name": "blue"}}}, (CLOUD, AZURE))

    assert "rules" not in given
    assert len(given["routes"]) == 2  # type: ignore[arg-type]


def test_rules_of_a_claim_with_a_vrf_are_a_violation() -> None:
    own = {"rules": [{"source": "10.0.0.0/24", "table": 7}]}

    with pytest.raises(ConfigError, match="rules together with vrf"):
        merged(own, (PROFILE, {"interface": {"vrf": {"name": "blue"}}}))


@pytest.mark.parametrize("interface", [{"disableIPv6": True}, {"mtu": 1279}])
def test_ipv6_of_a_provider_does_not_apply_without_ipv6(interface: dict[str, object]) -> None:
    given = merged({"interface": interface}, (CLOUD, AZURE))

    assert [rule["source"] for rule in given["rules"]] == ["10.0.0.0/24"]  # type: ignore[attr-defined]
    assert [route["destination"] for route in given["routes"]] == ["0.0.0.0/0"]  # type: ignore[attr-defined]


ELSEWHERE = ["192.168.7.5/24"]


@pytest.mark.parametrize(
    "interface",
    [
        {"addresses": ELSEWHERE},
        {"addresses": []},
        {"type": "IPVLAN", "addresses": ELSEWHERE},
        {"type": "VLAN", "vlan": {"id": 5}, "addresses": ELSEWHERE},
    ],
)
def test_routing_of_a_cloud_does_not_apply_out_of_reach(interface: dict[str, object]) -> None:
    own = {
        "interface": interface,
        "routes": [{"destination": "10.3.0.0/16", "gateway": "10.0.0.1"}],
        "rules": [{"priority": 7, "table": 101}],
    }

    given = merged(own, (CLOUD, AZURE))

    assert given["routes"] == [AZURE["routes"][1], *own["routes"]]  # type: ignore[index]
    assert given["rules"] == [AZURE["rules"][1], *own["rules"]]  # type: ignore[index]


@pytest.mark.parametrize(
    ("addresses", "of_profile"),
    [(["10.0.0.5/24"], []), (["10.0.0.5-10.0.0.9/24"], []), (ELSEWHERE, ["10.0.0.5/24"])],
    ids=["claim", "range", "profile"],
)
def test_routing_of_a_cloud_applies_within_reach(
    addresses: list[str], of_profile: list[str]
) -> None:
    own = {"interface": {"addresses": addresses}}

    given = merged(own, (PROFILE, {"interface": {"addresses": of_profile}}), (CLOUD, AZURE))

    assert (given["routes"], given["rules"]) == (AZURE["routes"], AZURE["rules"])


def test_joined_parameters_are_validated() -> None:
    own = {"interface": {"mtu": 1000}}

    with pytest.raises(ConfigError, match="parameters with those of profile"):
        merged(own, (PROFILE, {"interface": {"addresses": ["2001:db8::1/64"]}}))
