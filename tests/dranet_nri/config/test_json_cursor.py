"""The cursor over a document, where the network configuration does not already exercise it."""

import pytest

from dranet_nri.config import Node, Violations, did_you_mean, show
from dranet_nri.errors import ConfigError


def test_list_above_the_limit_is_reported_and_still_read() -> None:
    findings = Violations()

    items = Node([1, 2, 3], "xs", findings).items(most=2)

    assert [item.path for item in items] == ["xs[0]", "xs[1]", "xs[2]"]
    assert findings.lines() == ("xs: list of 3: has 3 entries; at most 2 are allowed",)


def test_repeated_violation_is_reported_once() -> None:
    findings = Violations()
    node = Node(1, "x", findings)

    node.text()
    node.text()

    assert len(findings.lines()) == 1


def test_violations_are_raised_together_in_document_order() -> None:
    findings = Violations()
    findings.raise_if_any()
    findings.add((1,), "second")
    findings.add((0,), "first")

    with pytest.raises(ConfigError) as caught:
        findings.raise_if_any()

    assert caught.value.violations == ("first", "second")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        pytest.param(2**2048 - 1, f"{str(2**2048 - 1)[:57]}...", id="long"),
        pytest.param(16**5000, "0x1" + "0" * 54 + "...", id="too long for decimal"),
        ("it's", '"it\'s"'),
        ("a\n", '"a\\n"'),
        ({"a": 1, "b": 2}, "object with a, b"),
        ([1], "list of 1"),
    ],
)
def test_values_are_shown_as_in_the_document(value: object, shown: str) -> None:
    assert show(value) == shown


def test_unprintable_field_name_is_escaped() -> None:
    findings = Violations()

    Node({"a\nb": 1, "": 2}, "x", findings).fields(("a",))

    assert [line.split(": unknown")[0] for line in findings.lines()] == [
        'x."a\\nb": 1',
        'x."": 2',
    ]
    assert show({"a\n": 1, 2: 3}) == "object with 'a\\n', 2"


def test_nearest_known_word_is_suggested_ignoring_case() -> None:
    assert did_you_mean("devicesclassname", ["deviceClassName", "count"]) == (
        ' (did you mean "deviceClassName"?)'
    )
    assert did_you_mean("zzz", ["deviceClassName"]) == ""
