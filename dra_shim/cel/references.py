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


def names_in(expression: str) -> tuple[tuple[str, str], ...]:
    """Return each reference once: ("attributes" or "capacity", qualified name), or ("driver", "").

    Only literal references are found: `device.attributes["d"].x` and `device.attributes["d"]["x"]`.
    """
    return tuple(dict.fromkeys(_found(expression)))


def _found(expression: str) -> Iterator[tuple[str, str]]:
    for match in _LOOKUP.finditer(expression):
        member, table, double, single, identifier, key, other_key = match.groups()
        if member:
            yield member, ""
        else:
            yield table, f"{double or single or ''}/{identifier or key or other_key or ''}"
