"""JSON cursor: reads a document and collects all violations.

Rules:
1. Values are not coerced: "9000" is not 9000, true is not 1, 1.0 is not 1.
2. A field with value null is absent, as in the Go decoders of Kubernetes.
3. A violation reads "path: value: rule and remedy"; `Violations.lines` puts them in document order.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple, TypeVar

from dranet_nri.config.json_text import JsonObject
from dranet_nri.errors import ConfigError, InvalidValueError

T = TypeVar("T")

MAX_SHOWN: Final = 60  # characters of a value in a message; a line stays readable
# YAML may hold longer numbers in hexadecimal, which Python may refuse to write in decimal
# (str_digits_check_threshold of sys.int_info).
_MAX_BITS: Final = 2048
_NO_NAMES: Final[Mapping[str, int]] = {}
INT32: Final = (-(2**31), 2**31 - 1)


def show(value: object) -> str:
    """Return the JSON text of a value, unprintable parts in ASCII, truncated to MAX_SHOWN."""
    match value:
        case str():
            body = (
                repr(value)[1:-1].replace("\\'", "'") if value.isprintable() else ascii(value)[1:-1]
            )
            text = f'"{body}"'
        case int() if value.bit_length() > _MAX_BITS:
            text = hex(value)
        case None | bool() | int() | float():
            text = json.dumps(value)
        case Mapping():
            names = (
                key if isinstance(key, str) and key.isprintable() else ascii(key) for key in value
            )
            text = f"object with {', '.join(names) or 'no fields'}"
        case list():
            text = f"list of {len(value)}"
        case _:
            text = ascii(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def did_you_mean(word: str, allowed: Collection[str]) -> str:
    """Return ' (did you mean "x"?)' for the closest known word, or ''."""
    by_lower = {name.lower(): name for name in allowed}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f' (did you mean "{by_lower[close[0]]}"?)' if close else ""


class Violations:
    """The violations of one document."""

    def __init__(self, *, newer: bool = False, partial: bool = False) -> None:
        """Start without violations.

        Args:
            newer: skip unknown fields: a program wrote the document, maybe for a newer API.
            partial: skip missing fields: another document that is merged with it may have them.
        """
        self.newer = newer
        self.partial = partial
        self.mistyped: set[str] = set()  # paths of values of a wrong type
        self._found: list[tuple[tuple[int, ...], str]] = []

    def add(self, position: tuple[int, ...], line: str) -> None:
        """Add a violation; position is its order in the document."""
        self._found.append((position, line))

    def lines(self) -> tuple[str, ...]:
        """Return the distinct violations in document order."""
        ordered = sorted(self._found, key=lambda found: found[0])
        return tuple(dict.fromkeys(line for _, line in ordered))

    def raise_if_any(self) -> None:
        """Raise the violations, if any.

        Raises:
            ConfigError: at least one violation was found.
        """
        if self._found:
            raise ConfigError(self.lines())


class Node(NamedTuple):
    """One value of the document, with its path and the collector of violations."""

    value: object
    path: str
    findings: Violations
    position: tuple[int, ...] = ()

    def report(self, rule: str) -> None:
        """Add a violation of this value, unless one of its type is recorded already."""
        if self.path not in self.findings.mistyped:
            line = f"{self.path or 'document'}: {show(self.value)}: {rule}"
            self.findings.add(self.position, line)

    def report_type(self, rule: str) -> None:
        """Add a violation of the type of this value."""
        self.report(rule)
        self.findings.mistyped.add(self.path)

    def report_missing(self, rule: str) -> None:
        """Add a violation of this value, which lacks something, unless the document is partial."""
        if not self.findings.partial:
            self.report(rule)

    def child(self, name: str, value: object, order: int) -> "Node":
        """Return the node of a field of this object."""
        step = name if name and name.isprintable() else show(name)
        path = f"{self.path}.{step}" if self.path else step
        return Node(value, path, self.findings, (*self.position, order))

    def fields(self, allowed: Collection[str], refused: Collection[str] = ()) -> dict[str, "Node"]:
        """Return the present fields by name; report unknown and repeated ones.

        Args:
            allowed: allowed names, listed in the violation of an unknown name.
            refused: names that are also returned, for their own violation, and not listed.
        """
        found: dict[str, Node] = {}
        for name, node in self.entries().items():
            if name not in allowed and name not in refused:
                if self.findings.newer:
                    continue
                listed = ", ".join(sorted(allowed))
                hint = did_you_mean(name, allowed)
                node.report(f"unknown field{hint}; remove it or use one of: {listed}")
            elif node.value is not None:
                found[name] = node
        return found

    def entries(self) -> dict[str, "Node"]:
        """Return all entries of an object; report repeated ones."""
        if not isinstance(self.value, Mapping):
            self.report_type("must be an object with named fields")
            return {}
        found: dict[str, Node] = {}
        for order, (name, value) in enumerate(self.value.items()):
            if not isinstance(name, str):
                self.report(f"field name {show(name)} must be a string; put it in quotes")
                continue
            found[name] = self.child(name, value, order)
        if isinstance(self.value, JsonObject):
            for name in self.value.repeated:
                found[name].report("given more than once; keep one")
        return found

    def present(self) -> dict[str, "Node"]:
        """Return the entries of an object that are not null."""
        return {name: node for name, node in self.entries().items() if node.value is not None}

    def items(self, most: int | None = None) -> list["Node"]:
        """Return the elements of a list; report other values, and a list longer than `most`."""
        if not isinstance(self.value, list | tuple):
            self.report_type("must be a list; put it in [ ]")
            return []
        if most is not None and len(self.value) > most:
            self.report(f"has {len(self.value)} entries; at most {most} are allowed")
        return [
            Node(value, f"{self.path}[{index}]", self.findings, (*self.position, index))
            for index, value in enumerate(self.value)
        ]

    def text(self) -> str | None:
        """Return a string; report other values and return None."""
        if isinstance(self.value, str):
            return self.value
        scalar = isinstance(self.value, bool | int | float)
        remedy = "put it in quotes" if scalar else "write one, or remove this"
        self.report_type(f"must be a string; {remedy}")
        return None

    def word(self, allowed: Collection[str], refused: Collection[str] = ()) -> str | None:
        """Return a string that is in `allowed` or `refused`; report others.

        Args:
            allowed: allowed words, listed in the violation of another word.
            refused: words that are also returned, see fields.
        """
        text = self.text()
        if text is None or text in allowed or text in refused:
            return text
        listed = f"{'one of ' if len(allowed) > 1 else ''}{', '.join(allowed)}"
        self.report(f"must be {listed}{did_you_mean(text, allowed)}")
        return None

    def boolean(self) -> bool | None:
        """Return a boolean; report other values and return None."""
        if isinstance(self.value, bool):
            return self.value
        self.report("must be true or false, without quotes")
        return None

    def integer(
        self, low: int, high: int, rule: str = "", names: Mapping[str, int] = _NO_NAMES
    ) -> int | None:
        """Return an integer of low..high; report other values (with `rule`) and return None.

        Args:
            low, high: limits.
            rule: text for a value beyond them.
            names: numbers that users may know by name, as in iproute2; a name is not accepted.
        """
        if isinstance(self.value, str) and self.value in names:
            self.report(f"must be a number; write {names[self.value]}")
            return None
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.report("must be a whole number, without quotes or a fraction")
            return None
        if low <= self.value <= high:
            return self.value
        self.report(rule or f"must be {low} to {high}")
        return None

    def parsed(self, parser: Callable[[str], T]) -> T | None:
        """Return the parsed string; report the parser's error and return None."""
        text = self.text()
        if text is None:
            return None
        try:
            return parser(text)
        except InvalidValueError as error:
            self.report(str(error))
            return None


Fields = Mapping[str, Node]


def given(fields: Fields, name: str, read: Callable[[Node], T | None]) -> T | None:
    """Return the named field as read by `read`, None if absent."""
    return read(fields[name]) if name in fields else None


def text_of(fields: Fields, name: str, parser: Callable[[str], str] = str) -> str:
    """Return the named field as a parsed string, "" if it is absent or invalid."""
    return given(fields, name, lambda node: node.parsed(parser)) or ""


def items_of(fields: Fields, name: str, most: int | None = None) -> list[Node]:
    """Return the elements of the named list, none if it is absent."""
    return fields[name].items(most) if name in fields else []


def has_entries(fields: Fields, name: str) -> bool:
    """Whether the named list has entries; an empty one has no effect beside another field."""
    return name in fields and bool(fields[name].value)


def object_of(fields: Fields, name: str) -> dict[str, Node]:
    """Return the entries of the named object that are not null, none if it is absent."""
    return fields[name].present() if name in fields else {}


def distinct(nodes: Iterable[Node], read: Callable[[Node], T | None]) -> tuple[T, ...]:
    """Return the elements as read by `read`, without None; report one that is given twice."""
    found: list[T] = []
    for node in nodes:
        value = read(node)
        if value in found:
            node.report("given twice; keep one")
        elif value is not None:
            found.append(value)
    return tuple(found)


def required(node: Node, fields: Fields, name: str) -> Node | None:
    """Return the named field of a node, or report that it is missing, unless it is misspelt."""
    if name not in fields and not _is_misspelt(node, fields, name):
        node.report(f"needs {name}; add it")
    return fields.get(name)


def _is_misspelt(node: Node, fields: Fields, name: str) -> bool:
    """Return whether an unknown field, which is reported, resembles the named one."""
    if node.findings.newer or not isinstance(node.value, Mapping):
        return False
    blank = (None, "")  # not reported, see fields and without_blank
    unknown = (
        key
        for key, value in node.value.items()
        if isinstance(key, str) and key not in fields and value not in blank
    )
    return any(did_you_mean(key, [name]) for key in unknown)


def required_text(node: Node, fields: Fields, name: str, parser: Callable[[str], str] = str) -> str:
    """Return the named field as text_of does, and report that it is missing."""
    required(node, fields, name)
    return text_of(fields, name, parser)


def without_blank(fields: Fields, *names: str) -> dict[str, Node]:
    """Return the fields without the named ones that are "", which templates print for absent."""
    return {key: node for key, node in fields.items() if key not in names or node.value != ""}
