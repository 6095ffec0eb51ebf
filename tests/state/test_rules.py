"""dranet_nri.state.rules: every text of a record has a rule, or is known to be free."""

from dataclasses import fields, is_dataclass
from types import NoneType
from typing import get_args, get_type_hints

import pytest

from dranet_nri.model import (
    Address,
    Allocation,
    Attachment,
    AttributeValue,
    Failure,
    Link,
    Sysctl,
    Version,
)
from dranet_nri.state.codec import WHOLE
from dranet_nri.state.rules import RULES

# Said by the kernel or to people; no program uses them as a name or a path.
FREE = {
    (Address, "label"),
    (Failure, "message"),
    (Failure, "reason"),
    (Link, "alias"),
    (Link, "altnames"),
    (Link, "kind"),
    (Link, "operstate"),
    (Sysctl, "value"),
}


def parts(hint: object) -> set[object]:
    """Return the types in a hint, however deep in tuples and unions."""
    if hint == AttributeValue:
        return set()
    inner = get_args(hint)
    return set().union(*(parts(each) for each in inner)) if inner else {hint} - {..., NoneType}


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
def test_every_rule_is_of_a_field_that_records_have(kind: type) -> None:
    assert kind in KINDS
    assert RULES[kind].keys() - {WHOLE} <= {field.name for field in fields(kind)}
