"""Manifest text becomes plain documents, as kubectl would send them."""

import pytest

from dra_shim.resourceapi.manifests import MAX_EXPANDED, load_manifests
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


@pytest.mark.parametrize("between", ["", "\n", "\r\n\r\n", "\n---\n"])
def test_several_json_documents_are_read(between: str) -> None:
    text = f'\ufeff{{\n\t"a": 1}}{between}{{\n\t"b": 9e3}}\n'

    assert load_manifests(text) == ({"a": 1}, {"b": 9000})


@pytest.mark.parametrize(
    "text",
    ["a:\tb", "a: b\t", "a: b\t# why", "a: {\n\t'b':\t1\n}", "a: [\n\t1]", "- a:\n  - b\t"],
)  # fmt: skip
def test_tabs_are_read_where_kubectl_reads_them(text: str) -> None:
    (spaced,) = load_manifests(text.replace("\t", "  "))

    assert load_manifests(text) == (spaced,)


def test_tab_that_indents_a_block_is_refused() -> None:
    with pytest.raises(ConfigError, match="line 2 column 1"):
        load_manifests("a:\n\tb: 1")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("10:20:30:40:50:55", "10:20:30:40:50:55", id="a-mac-is-no-base-60-number"),
        pytest.param("1:20.5", "1:20.5", id="nor-a-base-60-fraction"),
        pytest.param("2001-12-14", "2001-12-14", id="a-date-stays-text"),
        pytest.param("0x10", 16, id="hexadecimal"),
        pytest.param("1_000", 1000, id="underscores"),
        pytest.param("1_0.5", 10.5, id="underscores-in-fractions"),
        pytest.param("0o17", 15, id="octal"),
        pytest.param("017", 15, id="octal-of-yaml-1.1"),
        pytest.param("-0b11", -3, id="binary"),
        pytest.param("09", 9, id="no-octal"),
        pytest.param("9e3", 9000, id="exponent"),
        pytest.param("9000.0", 9000, id="whole-fraction"),
        pytest.param("!!float 9000", 9000, id="explicit-fraction"),
        pytest.param("-.5", -0.5, id="fraction-without-a-first-digit"),
        pytest.param("1e21", 1e21, id="number-that-kubectl-writes-with-an-exponent"),
        pytest.param("1e400", "1e400", id="larger-than-a-double"),
        pytest.param("18446744073709551615", 2**64 - 1, id="largest-integer"),
        pytest.param("9" * 400, "9" * 400, id="too-many-digits"),
        pytest.param("0x" + "f" * 5000, "0x" + "f" * 5000, id="too-many-hexadecimal-digits"),
        pytest.param("18446744073709551616", 2**64, id="no-integer-of-go"),
        pytest.param("_1", "_1", id="underscore-first"),
        pytest.param('"9e3"', "9e3", id="number-in-quotes"),
        pytest.param("y", True, id="y-is-true-as-in-kubectl"),
        pytest.param("N", False, id="n-is-false-as-in-kubectl"),
        pytest.param("<<", "<<", id="merge-sign-as-a-value"),
        pytest.param("yes", True, id="yes-is-true-as-in-kubectl"),
        pytest.param("=", "=", id="default-key"),
        pytest.param("~", None, id="null"),
        pytest.param("!!str 5", "5", id="explicit-text"),
    ],
)
def test_scalars_are_read_as_by_kubectl(text: str, value: object) -> None:
    assert load_manifests(f"x: {text}") == ({"x": value},)


def test_field_names_that_are_no_strings_become_strings() -> None:
    text = "x: {80: a, 0x10: b, yes: c, off: d, 1.5: e, 1e3: f}"

    assert load_manifests(text) == (
        {"x": {"80": "a", "16": "b", "true": "c", "false": "d", "1.5": "e", "1000": "f"}},
    )


def test_text_of_more_values_than_aliases_may_repeat_is_read() -> None:
    ((items,),) = (list(load_manifests("[" + "x," * (MAX_EXPANDED + 1) + "]")),)

    assert items == ["x"] * (MAX_EXPANDED + 1)


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
        ("a: [", "not valid YAML at line 2 column 1"),
        ("a: *x", "found undefined alias"),
        (
            "{{- if .Values.x }}\na: b\n{{ end }}",
            "a template; render it first, as by helm template",
        ),
        ("a: {{ .Name }}", "a template; render it first, as by helm template"),
        ("a: \x01", "not valid YAML"),
        ('{"a": 1', "not valid JSON at line 1"),
        ("{", "not valid YAML at line 2"),
        (BOMB, "aliases repeat more than 200000 values"),
        ("a: &a [*a]", "an alias stands inside its own anchor"),
        ("a: !!set {x, y}", "tag tag:yaml.org,2002:set is not JSON"),
        ("a: !mine x", "'x' with tag !mine is not JSON"),
        ("a: -.inf", "'-.inf' is not JSON; put it in quotes"),
        ("a: .nan", "'.nan' is not JSON; put it in quotes"),
        ("a: !!binary aGk=", "is not JSON"),
        ("[a]: x", "a field name must be a string"),
        ("~: x", "a field name must be a string"),
        ("<<: 3", "<< takes a mapping or a list of mappings"),
        ("[" * 700 + "]" * 700, "nested too deeply"),
        ("a: \ud800", "not valid YAML: "),
        ("[" * 100_000, "exceeded maximum nesting depth"),
        ("- " * 100_000, "exceeded maximum nesting depth"),
        ('{"a": 1}{', "not valid JSON at line 1 column 10"),
        ("#" * (64 << 20) + "#", "longer than 67108864 bytes; split it"),
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
        pytest.param('x: "\\U00110000"', id="no-unicode"),
        pytest.param('x: "\\UFFFFFFFF"', id="no-unicode-by-far"),
        pytest.param("%YAML 1." + "1" * 5000 + "\n---\nx: 1", id="version-of-thousands-of-digits"),
    ],
)
def test_text_that_crashes_the_yaml_library_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_manifests(text)
