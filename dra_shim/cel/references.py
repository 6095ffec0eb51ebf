"""References of an expression to fields of a device, for messages that show their values."""

import re
from collections.abc import Iterator
from typing import Final

_STRING: Final = r"""(?:"([^"\\]*)"|'([^'\\]*)')"""
_LOOKUP: Final = re.compile(
    rf"""\bdevice\s*\.\s*
      (?: (driver|allowMultipleAllocations)\b
        | (attributes|capacity)\s*\[\s*\??\s*{_STRING}\s*\]\s*
          (?:\.\s*\??\s*([A-Za-z_]\w*)(?!\w*\s*\() | \[\s*\??\s*{_STRING}\s*\])
      )""",
    re.VERBOSE,
)


_LITERAL: Final = r"""true\b|false\b|-?\d+\b(?!\.)|"[^"\\]*"|'[^'\\]*'"""
_COMPARED: Final = re.compile(rf"\s*(?:[=!<>]=|<|>)\s*({_LITERAL})(?!\s*[.+*/%-])")
_BEFORE: Final = re.compile(rf"(?:^|[(\[&|,?:!])\s*({_LITERAL})\s*(?:[=!<>]=|<|>)\s*$")
_CONTINUED: Final = re.compile(r"\s*[.\[+*/%-]")  # the compared value is another one
_LISTED: Final = re.compile(rf"\s+in\s*\[((?:\s*(?:{_LITERAL})\s*(?:,|(?=\])))*)\s*\]")
_ONE: Final = re.compile(_LITERAL)


def names_in(expression: str) -> tuple[tuple[str, str], ...]:
    """Return each reference once: ("attributes" or "capacity", qualified name), or ("driver", "").

    Only literal references are found: `device.attributes["d"].x` and `device.attributes["d"]["x"]`.
    """
    return tuple(dict.fromkeys(_name(match) for match in _LOOKUP.finditer(expression)))


def comparisons_in(expression: str) -> Iterator[tuple[str, str, str]]:
    """Yield each comparison with a literal: "attributes" or "capacity", qualified name, literal.

    A literal stands on either side of an operator, or in a list after `in`.
    """
    for match in _LOOKUP.finditer(expression):
        table, name = _name(match)
        if found := _COMPARED.match(expression, match.end()):
            yield table, name, found[1]
        found = _BEFORE.search(expression[: match.start()])
        if found and not _CONTINUED.match(expression, match.end()):
            yield table, name, found[1]
        if found := _LISTED.match(expression, match.end()):
            yield from ((table, name, literal) for literal in _ONE.findall(found[1]))


def _name(match: re.Match[str]) -> tuple[str, str]:
    member, table, double, single, identifier, key, other_key = match.groups()
    if member:
        return member, ""
    return table, f"{double or single or ''}/{identifier or key or other_key or ''}"
