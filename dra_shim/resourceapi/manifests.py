"""Manifest text → plain documents in the form that kubectl sends: YAML 1.1 reduced to JSON.

Rules:
1. The parser is libyaml, of which that of kubectl is a port. Plain scalars have the types that
   kubectl gives them (go.yaml.in/yaml/v2, resolve.go): "1e3" and "y" are no strings, times and
   base-60 numbers, which can look like a MAC or PCI address, are.
2. Values that JSON lacks are rejected (tags, .nan). Numbers have the JSON form of kubectl: 9e3 and
   9000.0 are 9000. A field name that is a number or boolean becomes a string.
3. Repeated keys are stored (`JsonObject`) and reported where the object is read.
4. Aliases are expanded up to a limit, because a few lines can expand to billions of values.
"""

import math
import re
from collections.abc import Iterator
from typing import Final

import yaml

from dranet_nri.config import JsonObject, load_json_stream
from dranet_nri.errors import ConfigError

MAX_TEXT: Final = 64 << 20  # bytes of one file; the slices of a cluster in one List take megabytes
MAX_EXPANDED: Final = 200_000  # values of one document that aliases repeat

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = f"{_TAG}plain"  # without quotes and tag
_JSON_START: Final = re.compile(r"\s*\{\s*[\"}]")

_VALUES: Final[dict[str, bool | None]] = {
    "null": None, "y": True, "yes": True, "true": True, "on": True,
    "n": False, "no": False, "false": False, "off": False,
}  # fmt: skip
_WORDS: Final = {"": None, "~": None} | {
    form: value
    for word, value in _VALUES.items()
    for form in (word, word.capitalize(), word.upper())
}
_NO_JSON: Final = re.compile(r"\.(?:nan|NaN|NAN)|[+-]?\.(?:inf|Inf|INF)")
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)"
    r"|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_MAX_DIGITS: Final = 64  # of the longest integer, in base 2
_FRACTION: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INTEGERS: Final = range(-(2**63), 2**64)
_MIN_EXPONENT: Final = 1e21  # from here on, Go writes a float with an exponent
# Types of the values that a tag allows.
_TAGGED: Final[dict[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}


def load_manifests(text: str) -> tuple[object, ...]:
    """Return the documents of a file, without empty ones.

    Raises:
        ConfigError: the text is neither YAML nor JSON; the violation has the position.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_TEXT:
        raise ConfigError([f"document: longer than {MAX_TEXT} bytes; split it"])
    text = text.removeprefix("\ufeff")
    if _JSON_START.match(text) and "\n---" not in text:
        return load_json_stream(text, _fraction)
    try:
        nodes = yaml.compose_all(text, Loader=_Loader)
        documents = [_Reader(len(text)).read(node) for node in nodes]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1} column {mark.column + 1}" if mark else ""
        remedy = "correct the text there"
        if "{{" in text:
            remedy = "this is a template; render it first, as by helm template"
        reason = f"not valid YAML{where}: {error.problem}; {remedy}"
    except yaml.YAMLError as error:
        reason = f"not valid YAML: {str(error).splitlines()[0]}"
    except RecursionError:
        reason = "not usable YAML: nested too deeply; flatten it"
    except ValueError as error:  # a lone surrogate
        reason = f"not valid YAML: {error}"
    else:
        return tuple(document for document in documents if document is not None)
    raise ConfigError([f"document: {reason}"])


class _Loader(yaml.CSafeLoader):
    """Parser whose plain scalars have a tag of their own."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: object) -> str:
        """Return the tag of a node without one."""
        if kind is yaml.ScalarNode and isinstance(implicit, tuple) and implicit[0]:
            return _PLAIN
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return tag


class _Reader:
    """Converter of one document's node graph to plain values."""

    def __init__(self, most: int) -> None:
        """Set the largest number of values that the document can have without aliases."""
        self._left = most + MAX_EXPANDED
        self._open: set[int] = set()

    def read(self, node: yaml.Node) -> object:
        self._left -= 1
        if self._left < 0:
            raise _at(node, f"aliases repeat more than {MAX_EXPANDED} values; write fewer")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self._open:
            raise _at(node, "an alias stands inside its own anchor; write the value out")
        self._open.add(id(node))
        value: object
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            value = [self.read(item) for item in node.value]
        elif isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            value = JsonObject(list(self._pairs(node)))
        else:
            raise _at(node, f"tag {node.tag} is not JSON; remove it")
        self._open.discard(id(node))
        return value

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[str, object]]:
        """Yield the pairs of a mapping, after those of its merge key that are not overridden."""
        merged: dict[str, object] = {}
        own: list[tuple[str, object]] = []
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                merged |= self._merged(value_node)
                continue
            own.append((_field_name(key_node, self.read(key_node)), self.read(value_node)))
        names = {key for key, _ in own}
        yield from ((key, value) for key, value in merged.items() if key not in names)
        yield from own

    def _merged(self, node: yaml.Node) -> dict[str, object]:
        value = self.read(node)
        sources = value if isinstance(value, list) else [value]
        merged: dict[str, object] = {}
        for source in sources:
            if not isinstance(source, dict):
                raise _at(node, "<< takes a mapping or a list of mappings")
            merged = source | merged
        return merged


def _field_name(node: yaml.Node, key: object) -> str:
    match key:
        case str():
            return key
        case bool():
            return str(key).lower()
        case int() | float():
            return f"{key:g}" if isinstance(key, float) else str(key)
    raise _at(node, "a field name must be a string; put it in quotes")


def _scalar(node: yaml.ScalarNode) -> object:
    text: str = node.value
    tag = node.tag.removeprefix(_TAG)
    if tag in {"str", "timestamp", "value"}:
        return text
    value = _plain(text)
    if node.tag == _PLAIN and not _NO_JSON.fullmatch(text):
        return value
    if type(value) in _TAGGED.get(tag, ()):
        return value
    given = f"{text!r} with tag {node.tag}" if node.tag != _PLAIN else repr(text)
    raise _at(node, f"{given} is not JSON; put it in quotes")


def _plain(text: str) -> object:
    """Return the value of a plain scalar, text if it is no other."""
    if text in _WORDS:
        return _WORDS[text]
    digits = text.replace("_", "") if text[0] in "+-0123456789" else text
    found = _INTEGER.fullmatch(digits)
    if found and (base := found.lastgroup) and len(found[base]) <= _MAX_DIGITS:
        number = int(found["sign"] + found[base], _BASES[base])
        if number in _INTEGERS:
            return number
    if _FRACTION.fullmatch(digits) and math.isfinite(float(digits)):
        return _fraction(digits)
    return text


def _fraction(text: str) -> int | float:
    """Return a number as kubectl writes it."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _MIN_EXPONENT else number


def _at(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
