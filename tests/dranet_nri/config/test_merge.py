"""Selection and merge of the configuration entries of a request."""

from collections.abc import Mapping

import pytest

from dranet_nri.config import ConfigEntry, ConfigSource, parse_network_config, select_config
from dranet_nri.errors import ConfigError
from dranet_nri.model import Addressing, InterfaceConfig, NetworkConfig, RouteConfig

CLASS, CLAIM = ConfigSource.CLASS, ConfigSource.CLAIM


def entry(
    source: ConfigSource,
    parameters: Mapping[str, object],
    requests: tuple[str, ...] = (),
    driver: str = "dra.net",
    path: str = "",
) -> ConfigEntry:
    return ConfigEntry(source, driver, parameters, requests, path)


def mtu(value: object) -> dict[str, object]:
    return {"interface": {"mtu": value}}


def chosen_mtu(entries: list[ConfigEntry], request: str = "nic", **switch: bool) -> int | None:
    return select_config(entries, request, **switch).interface.mtu


def test_default_is_selected_without_entries() -> None:
    assert select_config([], "nic") == NetworkConfig()


@pytest.mark.parametrize(
    ("entries", "request_name", "expected"),
    [
        pytest.param([entry(CLASS, mtu(1500)), entry(CLAIM, mtu(9000))], "nic", 9000,
                     id="the-claim-beats-the-class"),
        pytest.param([entry(CLAIM, mtu(9000)), entry(CLASS, mtu(1500))], "nic", 9000,
                     id="whatever-their-order"),
        pytest.param([entry(CLAIM, mtu(1500)), entry(CLAIM, mtu(9000))], "nic", 9000,
                     id="later-beats-earlier"),
        pytest.param([entry(CLAIM, mtu(9000)), entry(CLAIM, {})], "nic", 9000,
                     id="empty-parameters-say-nothing"),
        pytest.param([entry(CLAIM, mtu(9000)), entry(CLAIM, mtu(None))], "nic", 9000,
                     id="null-changes-nothing"),
        pytest.param([entry(CLAIM, {"x": 1}, driver="gpu.nvidia.com")], "nic", None,
                     id="another-drivers-parameters-are-not-read"),
        pytest.param([entry(CLAIM, mtu(9000), ("other",))], "nic", None,
                     id="another-requests-entry"),
        pytest.param([entry(CLAIM, mtu(9000), ("other", "nic"))], "nic", 9000,
                     id="one-of-the-named-requests"),
        pytest.param([entry(CLAIM, mtu(9000), ("nic",))], "nic/fast", 9000,
                     id="a-request-covers-its-subrequests"),
        pytest.param([entry(CLAIM, mtu(1400), ("nic/slow",))], "nic/fast", None,
                     id="another-subrequest"),
        pytest.param([entry(CLAIM, mtu(9000), ("nic/fast",)), entry(CLAIM, mtu(1500), ("nic",))],
                     "nic/fast", 9000, id="the-exact-subrequest-beats-its-request"),
        pytest.param([entry(CLASS, mtu(9000), ("nic/fast",)), entry(CLAIM, mtu(1500))],
                     "nic/fast", 1500, id="but-never-the-claim"),
    ],
)  # fmt: skip
def test_most_specific_entry_takes_precedence(
    entries: list[ConfigEntry], request_name: str, expected: int | None
) -> None:
    assert chosen_mtu(entries, request_name) == expected


def test_fields_are_merged_with_explicit_false_and_zero() -> None:
    base = {"interface": {"mtu": 9000, "forwarding": True, "arpIgnore": 1}}
    above = {"interface": {"forwarding": False, "arpIgnore": 0, "name": "net1"}}

    config = select_config([entry(CLASS, base), entry(CLAIM, above)], "nic")

    assert config.interface == InterfaceConfig(
        name="net1", mtu=9000, forwarding=False, arp_ignore=0
    )


STATIC = {"addressing": "Static", "addresses": ["10.0.0.5/24"]}


@pytest.mark.parametrize(
    ("of_class", "of_claim", "expected"),
    [
        ({"dhcp": True}, STATIC, STATIC),
        ({"dhcp": True}, {"addressing": "DHCP"}, {"addressing": "DHCP"}),
        ({"dhcp": True}, {"dhcp": False}, {"addressing": "Static"}),
        ({"addressing": "DHCP"}, {"dhcp": False}, {"addressing": "Static"}),
        (STATIC, {"mtu": 1500, "dhcp": None}, {**STATIC, "mtu": 1500}),
        ({"dhcp": True}, {"dhcp": False, "addressing": "SLAAC"}, {"addressing": "SLAAC"}),
    ],
)
def test_dhcp_and_addressing_are_merged_as_one_field(
    of_class: dict[str, object], of_claim: dict[str, object], expected: dict[str, object]
) -> None:
    entries = [entry(CLASS, {"interface": of_class}), entry(CLAIM, {"interface": of_claim})]

    merged = select_config(entries, "nic")

    assert merged == parse_network_config({"interface": expected})


def test_list_of_the_claim_replaces_that_of_the_class() -> None:
    base = {
        "interface": {"addresses": ["10.0.0.1/8"]},
        "routes": [{"destination": "10.0.0.0/8", "scope": 253}],
        "rules": [{"table": 5}],
    }
    above = {
        "interface": {"addresses": ["10.0.0.2/8"]},
        "routes": [{"destination": "11.0.0.0/8", "scope": 253}],
        "rules": [],
    }

    config = select_config([entry(CLASS, base), entry(CLAIM, above)], "nic")

    assert config.interface.addresses == ("10.0.0.2/8",)
    assert config.routes == (RouteConfig("11.0.0.0/8", scope=253),)
    assert config.rules == ()


def test_empty_list_of_the_claim_permits_what_the_list_of_the_class_excludes() -> None:
    base = {"interface": {"addresses": ["10.0.0.1/8"]}, "rules": [{"table": 5}]}
    above = {"interface": {"vrf": {"name": "blue"}, "dhcp": True, "addresses": []}, "rules": []}

    config = select_config([entry(CLASS, base), entry(CLAIM, above)], "nic")

    assert (config.interface.addressing, config.rules) == (Addressing.DHCP, ())


def test_merged_configuration_is_validated() -> None:
    entries = [
        entry(CLASS, mtu(1000)),
        entry(CLAIM, {"interface": {"addresses": ["2001:db8::1/64"]}}),
    ]

    with pytest.raises(ConfigError) as caught:
        select_config(entries, "nic")

    (line,) = caught.value.violations
    assert line.startswith("merged configuration of request nic.interface.mtu: 1000: IPv6")


INCOMPLETE: dict[str, dict[str, object]] = {
    "block": {"interface": {"ipvlan": {"mode": "L3"}}},
    "vlan": {"interface": {"vlan": {"id": 7}}},
    "type": {"interface": {"type": "VLAN"}},
    "vrf": {"interface": {"vrf": {"table": 100}}},
    "unnumbered": {"interface": {"addressing": "Unnumbered"}},
    "ipoib": {"interface": {"ipoib": {"pkey": "0x8001"}}},
}
MISSING: dict[str, dict[str, object]] = {
    "block": {"interface": {"type": "IPVLAN"}},
    "vlan": {"interface": {"type": "VLAN"}},
    "type": {"interface": {"vlan": {"id": 7}}},
    "vrf": {"interface": {"vrf": {"name": "blue"}}},
    "unnumbered": {"interface": {"type": "MACVLAN"}},
    "ipoib": {"interface": {"type": "IPoIB"}},
}


@pytest.mark.parametrize("kind", INCOMPLETE)
@pytest.mark.parametrize("sources", [(CLASS, CLAIM), (CLAIM, CLASS)], ids=str)
def test_entry_may_lack_what_another_one_has(
    kind: str, sources: tuple[ConfigSource, ConfigSource]
) -> None:
    lower, upper = sources
    incomplete = entry(lower, INCOMPLETE[kind], path="lower")

    select_config([incomplete, entry(upper, MISSING[kind])], "nic")

    for rest in ([], [entry(upper, mtu(9000))]):
        with pytest.raises(ConfigError) as caught:
            select_config([incomplete, *rest], "nic")
        (line,) = caught.value.violations
        assert line.startswith("merged configuration of request nic." if rest else "lower.")
    with pytest.raises(ConfigError):
        select_config([incomplete, entry(upper, MISSING[kind])], "nic", first_valid_wins=True)


def test_entry_of_another_type_than_its_block_is_refused() -> None:
    wrong = {"interface": {"type": "MACVLAN", "ipvlan": {}}}

    with pytest.raises(ConfigError):
        select_config([entry(CLASS, wrong), entry(CLAIM, MISSING["block"])], "nic")


def test_violations_of_all_entries_are_reported() -> None:
    entries = [entry(CLASS, mtu(1), path="class"), entry(CLAIM, mtu(2), path="claim")]

    with pytest.raises(ConfigError) as caught:
        select_config(entries, "nic")

    assert [line.split(":")[0] for line in caught.value.violations] == [
        "class.interface.mtu",
        "claim.interface.mtu",
    ]


def test_dranet_order_uses_only_the_first_entry() -> None:
    above = {"interface": {"mtu": 9000, "name": "net1"}}
    entries = [entry(CLASS, mtu(1500)), entry(CLAIM, above), entry(CLAIM, mtu(1))]

    config = select_config(entries, "nic", first_valid_wins=True)

    assert config.interface == InterfaceConfig(mtu=1500)


def test_dranet_order_fails_on_an_invalid_entry_before_the_first_valid_one() -> None:
    entries = [entry(CLASS, mtu(1)), entry(CLAIM, mtu(9000))]

    with pytest.raises(ConfigError):
        select_config(entries, "nic", first_valid_wins=True)


def test_dranet_order_fails_without_a_valid_entry() -> None:
    with pytest.raises(ConfigError):
        select_config([entry(CLASS, mtu(1))], "nic", first_valid_wins=True)


@pytest.mark.parametrize(
    ("entries", "request_name", "expected"),
    [
        pytest.param([entry(CLASS, {}), entry(CLAIM, mtu(9000))], "nic", None,
                     id="empty-parameters-count"),
        pytest.param([entry(CLAIM, mtu(9000), ("nic",)), entry(CLAIM, mtu(1500))], "nic/fast", 1500,
                     id="a-request-does-not-cover-its-subrequests"),
        pytest.param([entry(CLAIM, mtu(9000), ("nic/fast",)), entry(CLAIM, mtu(1500))],
                     "nic/fast", 9000, id="the-exact-subrequest"),
        pytest.param([entry(CLASS, {}, driver="gpu.nvidia.com"), entry(CLAIM, mtu(9000))],
                     "nic", 9000, id="another-drivers-parameters-do-not-count"),
    ],
)  # fmt: skip
def test_dranet_order_uses_the_first_entry_with_the_exact_request_name(
    entries: list[ConfigEntry], request_name: str, expected: int | None
) -> None:
    assert chosen_mtu(entries, request_name, first_valid_wins=True) == expected
