"""Invalid parameters: valid ones with one change. The error names path, value and rule."""

from collections.abc import Iterator, Mapping
from copy import deepcopy

import pytest

from dranet_nri.config import parse_network_config
from dranet_nri.config.fields import (
    BLOCK_FIELDS,
    POLICY_FIELDS,
    TOP_FIELDS,
)
from dranet_nri.config.json_cursor import show
from dranet_nri.errors import ConfigError

Document = dict[str, object]
Path = tuple[str | int, ...]

PASSTHROUGH: Document = {
    "profile": "fast",
    "interface": {
        "name": "net1",
        "type": "Passthrough",
        "addressing": "Static",
        "addresses": ["10.0.0.5/24", "2001:db8::5/64"],
        "mtu": 9000,
        "hardwareAddr": "02:00:00:00:00:01",
        "gsoMaxSize": 65536,
        "groMaxSize": 65536,
        "gsoIPv4MaxSize": 65536,
        "groIPv4MaxSize": 65536,
        "arpIgnore": 1,
        "arpAnnounce": 2,
        "forwarding": True,
        "disableEbpfPrograms": True,
        "txQueueLen": 100,
        "altnames": ["rail0"],
        "disableIPv6": False,
        "addrGenMode": "none",
        "dadTransmits": 3,
        "acceptRA": 2,
        "routerSolicitations": -1,
        "routerSolicitationDelay": 5,
        "routerSolicitationInterval": 9,
        "routerSolicitationMaxInterval": 99,
    },
    "routes": [
        {
            "destination": "10.9.0.0/16",
            "gateway": "10.0.0.1",
            "source": "10.0.0.5",
            "scope": 0,
            "table": 100,
            "metric": 7,
        }
    ],
    "rules": [
        {"priority": 100, "source": "10.0.0.5/32", "destination": "10.9.0.0/16", "table": 100}
    ],
    "neighbors": [{"destination": "10.0.0.1", "hardwareAddr": "02:00:00:00:00:02"}],
    "ethtool": {
        "features": {"tso": False},
        "privateFlags": {"legacy-rx": True},
        "rings": {"rx": 512, "rxMini": 1, "rxJumbo": 1, "tx": 128},
        "channels": {"rx": 1, "tx": 1, "other": 0, "combined": 8},
        "coalesce": {
            "rxUsecs": 3,
            "rxFrames": 4,
            "rxUsecsIrq": 5,
            "rxFramesIrq": 6,
            "txUsecs": 7,
            "txFrames": 64,
            "txUsecsIrq": 8,
            "txFramesIrq": 9,
            "adaptiveRx": True,
            "adaptiveTx": False,
        },
        "pause": {"autoneg": False, "rx": True, "tx": True},
        "rss": {"weights": [1, 0, 3]},
    },
    "rdma": {"charDevices": ["uverbs", "rdma_cm"], "name": "mlx5_7"},
}
OTHERS: tuple[Document, ...] = (
    {"interface": {"vrf": {"name": "blue", "table": 77}}},
    {"interface": {"type": "IPoIB", "ipoib": {"pkey": "0x8001", "mode": "connected"}}},
    {"interface": {"type": "IPVLAN", "ipvlan": {"mode": "L3", "flag": "Private"}}},
    {"interface": {"type": "MACVLAN", "macvlan": {"mode": "VEPA"}}},
    {"interface": {"type": "VLAN", "vlan": {"id": 7, "protocol": "802.1ad"}}},
    {"ethtool": {"rss": {"equal": 4}}},
    {
        "policy": {
            "name": "tenants",
            "fields": ["interface.mtu"],
            "addresses": ["10.0.0.0/8"],
            "hardwareAddrs": ["02:42"],
        }
    },
)
# For a value of that type, others that no field takes in its place.
WRONG: Mapping[type, tuple[object, ...]] = {
    bool: ("true", 1, [], {}),
    int: (True, "12", 1.5, [], {}, -(10**12), 10**12),
    str: (7, True, ["x"], {}, "no such / value"),
    list: ({}, "x", 3),
    dict: ([], "x", 3),
}
# Any text is a profile or the name of a policy; a private flag may be anything that is printable.
FREE: frozenset[tuple[Path, object]] = frozenset(
    {
        (("profile",), "no such / value"),
        (("policy", "name"), "no such / value"),
        (("interface", "ipoib", "pkey"), 7),
    }
)


def nodes(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from nodes(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from nodes(inner, (*path, number))


def changed(document: Document, path: Path, value: object) -> Document:
    result = deepcopy(document)
    target: object = result
    for step in path[:-1]:
        target = target[step]  # type: ignore[index]  # it is there
    target[path[-1]] = value  # type: ignore[index]
    return result


def written(path: Path) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def cases() -> Iterator[tuple[str, Document, object]]:
    for document in (PASSTHROUGH, *OTHERS):
        for path, value in nodes(document):
            for wrong in WRONG[type(value)]:
                if isinstance(wrong, str | int) and (path, wrong) in FREE:
                    continue
                yield written(path), changed(document, path, wrong), wrong
            if isinstance(value, dict) and path not in (
                ("ethtool", "features"),
                ("ethtool", "privateFlags"),
            ):
                yield written((*path, "colour")), changed(document, (*path, "colour"), 7), 7


CASES = tuple(cases())


def test_sample_documents_have_every_field_and_are_valid() -> None:
    given = {
        tuple(step for step in path if isinstance(step, str))[-2:]
        for document in (PASSTHROUGH, *OTHERS)
        for path, _ in nodes(document)
    }
    blocks = {**TOP_FIELDS, **BLOCK_FIELDS, "policy": POLICY_FIELDS}

    assert {(block, name) for block, fields in blocks.items() for name in fields} <= given
    for document in (PASSTHROUGH, *OTHERS):
        parse_network_config(document)


def test_there_are_at_least_400_invalid_documents() -> None:
    assert len({(path, repr(document)) for path, document, _ in CASES}) >= 400


@pytest.mark.parametrize("part", range(8))
def test_invalid_document_is_refused_with_path_value_and_rule(part: int) -> None:
    for path, document, wrong in CASES[part::8]:
        with pytest.raises(ConfigError) as caught:
            parse_network_config(document)

        start = f"{path}: {show(wrong)}: "
        found = [line for line in caught.value.violations if line.startswith(start)]
        assert found, (path, wrong, caught.value.violations)
        assert all(len(line) > len(start) + 10 for line in found), found
