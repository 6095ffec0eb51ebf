"""Regular expressions in selectors: literal ones are compiled before any device is known.

The API server refuses a selector with an invalid literal. A pattern that is not a literal fails on
the device.
"""

import re
from collections.abc import Iterator
from typing import Final

from dra_shim.cel.environment import Environment, tokens_of

_FUNCTIONS: Final = frozenset({"find", "findAll", "matches"})
_STRING: Final = re.compile("[rR]?[\"']")
_CAUSE: Final = re.compile(r"^[A-Z_]+: |^invalid_argument: ")


def invalid_pattern(expression: str, environment: Environment) -> str:
    """Return the reason why a literal pattern of a valid expression is invalid, or ""."""
    for literal in dict.fromkeys(_patterns(expression)):
        result = environment.compile(f'"".matches({literal})').eval(data={})
        if result.type().name() == "ERROR":
            cause = _CAUSE.sub("", str(result.value()))
            return f"{literal} is not a regular expression of RE2: {cause}; correct it"
    return ""


def _patterns(expression: str) -> Iterator[str]:
    """Yield the literal patterns: x.matches(PATTERN), matches(x, PATTERN), and of find, findAll."""
    tokens = tokens_of(expression)
    for place, name in enumerate(tokens[:-2]):
        if name in _FUNCTIONS and tokens[place + 1] == "(":
            is_member = place > 0 and tokens[place - 1] == "."
            arguments = tokens[place + 2 :]
            found = _first_argument(arguments) if is_member else _last_argument(arguments)
            if _STRING.match(found):
                yield found


def _first_argument(tokens: list[str]) -> str:
    """Return the first token, if it is a whole argument."""
    return tokens[0] if tokens[1:2] in ([","], [")"]) else ""


def _last_argument(tokens: list[str]) -> str:
    """Return the last token before the parenthesis that closes, if it is a whole argument."""
    depth, end = 1, 0
    while depth:  # in a valid expression each parenthesis is closed
        depth += (tokens[end] == "(") - (tokens[end] == ")")
        end += 1
    *_, separator, last = ["", "", *tokens[: end - 1]]
    return last if separator == "," else ""
