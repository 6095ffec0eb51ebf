"""dranet_nri.state.validation: every text of a record has a rule, or is known to be free."""

import json
from dataclasses import fields, is_dataclass, replace
from types import NoneType
from typing import get_args, get_type_hints

import pytest

from dranet_nri.config import parse_network_config
from dranet_nri.model import (
    Allocation,
    AttachedDevice,
    Attachment,
    AttributeValue,
    Failure,
    Link,
    LinkState,
    NetworkConfig,
    Sysctl,
    Version,
)
from dranet_nri.state.json_codec import WHOLE
from dranet_nri.state.record import decode_allocation, encode_allocation
from dranet_nri.state.validation import RULES
from tests.dranet_nri.state.examples import ALLOCATION

# Said by the kernel or to people; no program uses them as a name or a path.
FREE = {
    (AttachedDevice, "warnings"),
    (Failure, "message"),
    (Failure, "reason"),
    (Link, "kind"),
    (Link, "operstate"),
    (LinkState, "unrestorable"),
    (NetworkConfig, "profile"),  # a webhook's own name for it
    (Sysctl, "value"),
}


def parts(hint: object) -> set[object]:
    """Return the types in a hint, however deep in tuples and unions."""
    if hint == AttributeValue:
        return set()
    inner = get_args(hint)
    return (
        set().union(*(parts(inner_hint) for inner_hint in inner))
        if inner
        else {hint} - {..., NoneType}
    )


def reachable(kind: type) -> set[type]:
    """Return the dataclasses of a record."""
    found = {kind}
    for hint in get_type_hints(kind).values():
        for part in parts(hint):
            if isinstance(part, type) and is_dataclass(part) and part is not Version:
                found |= reachable(part)
    return found


KINDS = sorted(reachable(Allocation) | reachable(Attachment), key=str)


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_of_a_record_has_a_rule_or_is_free(kind: type) -> None:
    hints = get_type_hints(kind)
    texts = {field.name for field in fields(kind) if str in parts(hints[field.name])}
    free = {name for owner, name in FREE if owner is kind}

    assert texts - {"attributes"} == (texts & RULES.get(kind, {}).keys()) | free


@pytest.mark.parametrize("kind", sorted(RULES, key=str))
def test_every_rule_belongs_to_a_field_of_a_record(kind: type) -> None:
    assert kind in KINDS
    assert RULES[kind].keys() - {WHOLE} <= {field.name for field in fields(kind)}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            {
                "interface": {
                    "name": "größe-öäü",
                    "addresses": ["1.2.3.4/0", "fe80::/0", "2001:DB8::1/128"],
                    "mtu": (1 << 31) - 1,
                    "hardwareAddr": "02-AB-cd-00-00-01",
                    "gsoMaxSize": 524280,
                    "groIPv4MaxSize": 1,
                    "arpIgnore": 8,
                    "arpAnnounce": 2,
                    "forwarding": True,
                }
            },
            id="interface",
        ),
        pytest.param({"interface": {"mtu": 68, "addresses": []}}, id="least"),
        pytest.param(
            {
                "routes": [
                    {"destination": "10.1.2.3/8", "scope": 253, "table": (1 << 32) - 1},
                    {"destination": "::/0", "gateway": "FE80::1", "source": "2001:db8::1"},
                ]
            },
            id="routes",
        ),
        pytest.param({"rules": [{"priority": 32767, "source": "10.0.0.0/8"}, {}]}, id="rules"),
        pytest.param(
            {"neighbors": [{"destination": "fe80::1", "hardwareAddr": ":".join(["0a"] * 20)}]},
            id="neighbours",
        ),
    ],
)
def test_claimable_configuration_can_be_recorded(document: object) -> None:
    config = parse_network_config(json.dumps(document))
    device = replace(ALLOCATION.devices[0], config=config)
    allocation = replace(ALLOCATION, devices=(device,))

    assert decode_allocation(encode_allocation(allocation)) == allocation
