"""Manifest text becomes plain documents, as kubectl would send them."""

import pytest

from dra_shim.resourceapi.manifests import load_manifests
from dranet_nri.config import JsonObject
from dranet_nri.errors import ConfigError


def test_several_documents_are_read_without_empty_ones() -> None:
    assert load_manifests("a: 1\n---\n---\nb: [x, null, true, 1.5]\n") == (
        {"a": 1},
        {"b": ["x", None, True, 1.5]},
    )
    assert load_manifests("") == ()


def test_json_with_tabs_is_read() -> None:
    assert load_manifests('{\n\t"a": {"b": 1}}') == ({"a": {"b": 1}},)


def test_several_json_documents_are_read_as_yaml() -> None:
    assert load_manifests('{"a": 1}\n---\n{"b": 2}') == ({"a": 1}, {"b": 2})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("10:20:30:40:50:55", "10:20:30:40:50:55", id="a-mac-is-no-base-60-number"),
        pytest.param("1:20.5", "1:20.5", id="nor-a-base-60-fraction"),
        pytest.param("2001-12-14", "2001-12-14", id="a-date-stays-text"),
        pytest.param("0x10", 16, id="hexadecimal"),
        pytest.param("1_000", 1000, id="underscores"),
        pytest.param("1_0.5", 10.5, id="underscores-in-fractions"),
        pytest.param("yes", True, id="yes-is-true-as-in-kubectl"),
        pytest.param("=", "=", id="default-key"),
        pytest.param("~", None, id="null"),
        pytest.param("!!str 5", "5", id="explicit-text"),
    ],
)
def test_scalars_are_read_as_by_kubectl(text: str, value: object) -> None:
    assert load_manifests(f"x: {text}") == ({"x": value},)


def test_repeated_keys_are_recorded() -> None:
    (document,) = load_manifests("a: {b: 1, b: 2}")

    assert isinstance(document, dict)
    inner = document["a"]
    assert isinstance(inner, JsonObject)
    assert inner.repeated == ("b",)


def test_aliases_and_merge_keys_are_expanded() -> None:
    text = """
    base: &base {a: 1, b: 1}
    more: &more {b: 2, c: 2}
    one: {<<: *base, b: 9}
    two: {<<: [*base, *more]}
    same: *base
    """

    (document,) = load_manifests(text)

    assert document == {
        "base": {"a": 1, "b": 1},
        "more": {"b": 2, "c": 2},
        "one": {"a": 1, "b": 9},
        "two": {"a": 1, "b": 1, "c": 2},
        "same": {"a": 1, "b": 1},
    }


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "not valid YAML at line 1 column 5"),
        ("a: *x", "found undefined alias"),
        ("a: \x01", "not valid YAML"),
        ('{"a": 1', "not valid JSON at line 1"),
        ("{", "not valid YAML at line 1"),
        (BOMB, "more than 200000 values after expanding aliases"),
        ("a: &a [*a]", "an alias stands inside its own anchor"),
        ("a: !!set {x, y}", "tag tag:yaml.org,2002:set is not JSON"),
        ("a: !mine x", "'x' with tag !mine is not JSON"),
        ("a: .inf", "'.inf' with tag tag:yaml.org,2002:float is not JSON"),
        ("a: .nan", "is not JSON; put it in quotes"),
        ("a: !!binary aGk=", "is not JSON"),
        ("1: x", "a field name must be a string"),
        ("<<: 3", "<< takes a mapping or a list of mappings"),
        ("a: " + "9" * 5000, "is no usable number"),
        ("[" * 700, "nested too deeply"),
        ("#" * (4 << 20) + "#", "longer than 4194304 bytes; split it"),
    ],
    ids=lambda text: text[:24],
)
def test_text_without_a_json_form_is_refused_with_its_line(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_manifests(text)

    (line,) = caught.value.violations
    assert line.startswith("document: ")
    assert expected in line


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('x: !!float ""', id="fraction-of-nothing"),
        pytest.param("x: !!float abc", id="fraction-of-letters"),
        pytest.param('x: !!int ""', id="number-of-nothing"),
        pytest.param('x: !!int "+"', id="number-of-a-sign"),
        pytest.param("x: !!bool abc", id="truth-of-letters"),
        pytest.param("x: 0x" + "f" * 5000, id="more-digits-than-python-writes"),
        pytest.param('x: "\\U00110000"', id="no-unicode"),
        pytest.param('x: "\\UFFFFFFFF"', id="no-unicode-by-far"),
        pytest.param("%YAML 1." + "1" * 5000 + "\n---\nx: 1", id="version-of-thousands-of-digits"),
    ],
)
def test_text_that_crashes_the_yaml_library_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_manifests(text)
