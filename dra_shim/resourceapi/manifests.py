"""Manifest text → plain documents in the form that kubectl sends: YAML 1.1 reduced to JSON.

Rules:
1. Values that JSON lacks are rejected (tags, .nan). Types that only YAML 1.1 has stay strings:
   times, and base-60 numbers, which can look like a MAC or PCI address.
2. Repeated keys are stored (`JsonObject`) and reported where the object is read.
3. Aliases are expanded up to a limit, because a few lines can expand to billions of values.
"""

import re
from collections.abc import Iterator
from typing import Final

import yaml

from dranet_nri.config import JsonObject, load_json
from dranet_nri.errors import ConfigError

MAX_TEXT: Final = 4 << 20  # bytes of one file; etcd accepts 1.5 MiB for one object
MAX_VALUES: Final = 200_000  # in one document, after expanding aliases
# digits of an integer; the range of a double, and the limit of Python's conversion
MAX_BITS: Final = 1024

_NO_NUMBER: Final = "is no usable number; put it in quotes if it is text"
_TAG: Final = "tag:yaml.org,2002:"
_JSON_START: Final = re.compile(r"\s*\{\s*[\"}]")  # characters of YAML, without tabs


def load_manifests(text: str) -> tuple[object, ...]:
    """Return the documents of a file, without empty ones.

    Raises:
        ConfigError: the text is neither YAML nor JSON; the violation has the position.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_TEXT:
        raise ConfigError([f"document: longer than {MAX_TEXT} bytes; split it"])
    if _JSON_START.match(text) and "\n---" not in text:
        return (load_json(text),)
    try:
        nodes = yaml.compose_all(text, Loader=yaml.SafeLoader)
        documents = [_Reader().read(node) for node in nodes]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1} column {mark.column + 1}" if mark else ""
        reason = f"not valid YAML{where}: {error.problem}; correct the text there"
    except yaml.YAMLError as error:
        reason = f"not valid YAML: {str(error).splitlines()[0]}"
    except RecursionError:
        reason = "not usable YAML: nested too deeply; flatten it"
    except (ValueError, OverflowError) as error:
        # PyYAML raises these for escapes like "\\U00110000" and a %YAML with thousands of digits.
        reason = f"not valid YAML: {error}"
    else:
        return tuple(document for document in documents if document is not None)
    raise ConfigError([f"document: {reason}"])


class _Reader:
    """Converter of one document's node graph to plain values."""

    def __init__(self) -> None:
        self._left = MAX_VALUES
        self._open: set[int] = set()
        self._scalars = yaml.constructor.SafeConstructor()

    def read(self, node: yaml.Node) -> object:
        self._left -= 1
        if self._left < 0:
            raise _at(node, f"more than {MAX_VALUES} values after expanding aliases; write fewer")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
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
            if key_node.tag == f"{_TAG}merge":
                merged |= self._merged(value_node)
                continue
            key = self.read(key_node)
            if not isinstance(key, str):
                raise _at(key_node, "a field name must be a string; put it in quotes")
            own.append((key, self.read(value_node)))
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

    def _scalar(self, node: yaml.ScalarNode) -> object:
        text: str = node.value
        match node.tag.removeprefix(_TAG):
            case "str" | "timestamp" | "value":
                return text
            case "int" | "float" if ":" in text:
                return text
            case "null":
                return None
            case "bool" if text.lower() in self._scalars.bool_values:
                return self._scalars.construct_yaml_bool(node)
            case "int":
                return self._number(node)
            case "float" if not text.endswith(("f", "F", "n", "N")):
                return self._fraction(node)
        raise _at(node, f"{text!r} with tag {node.tag} is not JSON; put it in quotes")

    def _number(self, node: yaml.ScalarNode) -> int:
        try:
            number: int = self._scalars.construct_yaml_int(node)
        except (ValueError, IndexError):  # the latter where there is no digit
            raise _at(node, _NO_NUMBER) from None
        if number.bit_length() > MAX_BITS:
            raise _at(node, _NO_NUMBER)
        return number

    def _fraction(self, node: yaml.ScalarNode) -> float:
        try:
            return float(node.value.replace("_", ""))
        except ValueError:
            raise _at(node, _NO_NUMBER) from None


def _at(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
