# ruff: noqa: E501  one broken rule per line reads as a table
"""The ethtool block."""

import pytest

from dranet_nri.config import (
    ConfigEntry,
    ConfigSource,
    network_config_to_object,
    parse_network_config,
    select_config,
)
from dranet_nri.errors import ConfigError
from dranet_nri.model import DriverSetting, EthtoolConfig, RssConfig, Switches


def features(**states: object) -> dict[str, object]:
    return {"ethtool": {"features": {name.replace("_", "-"): on for name, on in states.items()}}}


def test_feature_names_and_aliases_are_kept() -> None:
    document = features(tso=False, rx_gro=True) | {"interface": {"mtu": 4321}}

    config = parse_network_config(document)

    assert config.ethtool == EthtoolConfig(Switches(("rx-gro",), ("tso",)))
    assert network_config_to_object(config) == document


def test_private_flags_keep_the_spelling_of_the_driver() -> None:
    document = {"ethtool": {"privateFlags": {"rx_cqe moder": True, "legacy-rx": False}}}

    config = parse_network_config(document)

    assert config.ethtool.private_flags == Switches(("rx_cqe moder",), ("legacy-rx",))
    assert parse_network_config(network_config_to_object(config)) == config


DRIVER = {
    "rings": {"rx": 512, "tx": 128},
    "channels": {"combined": 0},
    "coalesce": {"rxUsecs": 20, "adaptiveRx": False},
    "pause": {"autoneg": False, "rx": True},
    "rss": {"weights": [1, 0, 3]},
}


def test_driver_settings_keep_explicit_false_and_zero() -> None:
    config = parse_network_config({"ethtool": DRIVER})

    assert config.ethtool.settings == (
        DriverSetting("rings.rx", 512),
        DriverSetting("rings.tx", 128),
        DriverSetting("channels.combined", 0),
        DriverSetting("coalesce.rxUsecs", 20),
        DriverSetting("coalesce.adaptiveRx", 0),
        DriverSetting("pause.autoneg", 0),
        DriverSetting("pause.rx", 1),
    )
    assert config.ethtool.rss == RssConfig(weights=(1, 0, 3))
    assert config.ethtool.groups == {*DRIVER}
    assert network_config_to_object(config) == {"ethtool": DRIVER}


@pytest.mark.parametrize("of_claim", [{"equal": 4}, {"weights": [1, 2]}], ids=str)
def test_rss_of_the_claim_replaces_that_of_the_class(of_claim: dict[str, object]) -> None:
    other = {"weights": [1]} if "equal" in of_claim else {"equal": 8}
    entries = (
        ConfigEntry(ConfigSource.CLASS, "dra.net", {"ethtool": {"rss": other}}),
        ConfigEntry(ConfigSource.CLAIM, "dra.net", {"ethtool": {"rss": of_claim}}),
    )

    config = select_config(entries, "nic")

    assert network_config_to_object(config) == {"ethtool": {"rss": of_claim}}


@pytest.mark.parametrize(
    "empty",
    [{}, {"rings": {}, "rss": {}}, {"features": {}}, {"features": None, "privateFlags": {}}],
)
def test_empty_ethtool_block_changes_nothing(empty: object) -> None:
    config = parse_network_config({"ethtool": empty})

    assert not config.ethtool
    assert network_config_to_object(config) == {}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (features(tso="off"), 'ethtool.features.tso: "off": must be true or false'),
        (features(tso=None), "ethtool.features.tso: null: must be true or false"),
        ({"ethtool": {"features": []}}, "ethtool.features: list of 0: must be an object"),
        ({"ethtool": {"flags": {}}}, "ethtool.flags: object with no fields: unknown field"),
        ({"ethtool": {"features": {"": True}}}, "its name must have 1 to 31 printable ASCII characters"),
        ({"ethtool": {"features": {"x" * 32: True}}}, "its name must have 1 to 31 printable ASCII characters"),
        ({"ethtool": {"privateFlags": {"a\nb": True}}}, "its name must have 1 to 31 printable ASCII characters"),
        ({"ethtool": {"privateFlags": {"ü": True}}}, "its name must have 1 to 31 printable ASCII characters"),
        (features(tso=True, tcp_segmentation_offload=False), "tso and tcp-segmentation-offload are the same feature; keep one"),
        ({"ethtool": {"rings": {"rx": 0}}}, "ethtool.rings.rx: 0: must be 1 to 2147483647"),
        ({"ethtool": {"rings": {"Rx": 1}}}, 'ethtool.rings.Rx: 1: unknown field (did you mean "rx"?)'),
        ({"ethtool": {"channels": {"rx": True}}}, "ethtool.channels.rx: true: must be a whole number"),
        ({"ethtool": {"coalesce": {"adaptiveRx": 1}}}, "ethtool.coalesce.adaptiveRx: 1: must be true or false"),
        ({"ethtool": {"pause": {"rx": "on"}}}, 'ethtool.pause.rx: "on": must be true or false'),
        ({"ethtool": {"rss": {"equal": 0}}}, "ethtool.rss.equal: 0: must be 1 to 1024"),
        ({"ethtool": {"rss": {"weights": [0, 0]}}}, "ethtool.rss.weights: list of 2: needs a share above 0"),
        ({"ethtool": {"rss": {"weights": [1, -1]}}}, "ethtool.rss.weights[1]: -1: must be 0 to"),
        ({"ethtool": {"rss": {"equal": 1, "weights": [1]}}}, "ethtool.rss.weights: list of 1: not possible with equal"),
        (features(tso=True) | {"interface": {"type": "IPoIB"}}, "ethtool: object with features: not possible with interface.type IPoIB"),
    ],
)  # fmt: skip
def test_invalid_ethtool_block_is_refused_with_path_value_and_remedy(
    document: object, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_network_config(document)

    assert any(expected in line for line in caught.value.violations), caught.value.violations


def test_alias_with_the_same_value_is_no_conflict() -> None:
    config = parse_network_config(features(gro=True, generic_receive_offload=True))

    assert config.ethtool.features.on == ("generic-receive-offload", "gro")


def test_features_of_the_claim_override_those_of_the_class_by_name() -> None:
    entries = (
        ConfigEntry(ConfigSource.CLASS, "dra.net", features(tso=False, gro=False)),
        ConfigEntry(ConfigSource.CLAIM, "dra.net", features(tso=True)),
    )

    config = select_config(entries, "nic")

    assert config.ethtool.features == Switches(("tso",), ("gro",))
