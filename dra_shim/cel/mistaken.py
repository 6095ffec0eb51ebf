"""Detection of mistakes in selectors: syntax of --filter, misspelt names, wrong types."""

import re
from collections.abc import Collection, Iterator
from typing import Final

from dra_shim.cel.references import comparisons_in, names_in
from dranet_nri.config import did_you_mean
from dranet_nri.inventory import ATTRIBUTE_NAMES, ATTRIBUTES
from dranet_nri.model import BANDWIDTH, DRIVER_NAME

_CEL_TYPES: Final = {bool: "bool", int: "int", str: "string"}
_VALUES: Final = {bool: re.compile("true|false"), int: re.compile(r"-?\d+")}
_STANDARD: Final = "resource.kubernetes.io"
# Names of early versions of dranet and of other drivers, of which a similar one is another's.
_REPLACED: Final = {
    "cloudNetwork": "gce.dra.net/networkName",
    "ipv4Address": "dra.net/ipv4",
    "ipv6Address": "dra.net/ipv6",
    "macAddress": "dra.net/mac",
}
_NAME: Final = r"""["']([A-Za-z0-9.-]+)/([A-Za-z_]\w*)["']"""
_DRIVER: Final = re.compile(r"(?:^|[.-])dra-?net(?:[.-]|$)", re.IGNORECASE)
_STRING: Final = re.compile(r""""[^"\\]*"|'[^'\\]*'""")
_OPERATOR: Final = re.compile(r"(?<![\w.])(?:and|or|not)(?!\w)|(?<![=!<>])=(?!=)", re.IGNORECASE)
_OPERATORS: Final = {"and": "&&", "or": "||", "not": "!", "=": "=="}
_OF_FILTER: Final = re.compile("(?:String|Int|Bool|Version)Values?")
_MEMBER: Final = r"\.\s*\??\s*([A-Za-z_]\w*)\b(?!\s*\()"  # no method
_KEY: Final = re.compile(rf"\battributes\s*\[\s*\??\s*{_NAME}\s*\]")
_IN: Final = re.compile(rf"{_NAME}\s+in\s+(?:device\s*\.\s*)?attributes\b(?!\s*\[)")
_VALUE: Final = re.compile(
    rf"""(\bdevice\s*\.\s*(?:attributes|capacity)\s*\[[^\]]*\]\s*(?:\.\s*\??\s*[A-Za-z_]\w*|\[[^\]]*\]))
      \s*{_MEMBER}""",
    re.VERBOSE,
)
_WITHOUT_DOMAIN: Final = re.compile(r"""\battributes\s*\[\s*["'](\w+)["']\s*\]""")
_DOTTED: Final = re.compile(rf"\bdevice\.attributes((?:\.[A-Za-z_]\w*){{2,}}){_MEMBER}")
_BARE: Final = re.compile(
    rf"""\bdevice\s*\.\s*attributes\s*\[\s*\??\s*["'](\w+)["']\s*\](?!\s*(?:\[|{_MEMBER}))"""
)


def wrong_reference(expression: str) -> str:
    """Return the remedy for a reference that no attribute can have, as in --filter, or ""."""
    if found := _KEY.search(expression):
        right = f'device.attributes["{found[1]}"].{found[2]}'
    elif found := _IN.search(expression):
        right = f'"{found[2]}" in device.attributes["{found[1]}"]'
    elif (found := _VALUE.search(expression)) and _OF_FILTER.fullmatch(found[2]):
        right = found[1]
    elif found:
        return f"{found[0]}: a value has no fields; write {found[1]}"
    elif found := _DOTTED.search(expression):
        return f'{found[0]}: write device.attributes["{found[1][1:]}"].{found[2]}'
    elif (found := _BARE.search(expression)) and f"{DRIVER_NAME}/{found[1]}" in ATTRIBUTE_NAMES:
        return f'{found[0]}: write device.attributes["{DRIVER_NAME}"].{found[1]}'
    else:
        return ""
    return f"{found[0]} is in the language of --filter; write {right}"


def unknown_in_filter(expression: str) -> Iterator[str]:
    """Yield an error for each name in a --filter that resembles an attribute of this driver.

    The evaluation fails on a device without the attribute, and such a device is kept.
    """
    names = (f"{found[1]}/{found[2]}" for key in (_KEY, _IN) for found in key.finditer(expression))
    for name in dict.fromkeys(names):
        yield from unknown_attribute(name, tested=True)
    for found in _WITHOUT_DOMAIN.finditer(expression):
        if f"{DRIVER_NAME}/{found[1]}" in ATTRIBUTE_NAMES:
            yield f'"{found[1]}" has no domain; write "{DRIVER_NAME}/{found[1]}"'


def other_operator(expression: str) -> str:
    """Return the remedy for an operator of other languages outside of strings, or ""."""
    found = _OPERATOR.search(_STRING.sub("''", expression))
    return f"write {_OPERATORS[found[0].lower()]} in place of {found[0]}" if found else ""


def resembles_driver(name: str) -> bool:
    """Return whether a name of a driver is probably a mistake for this driver's."""
    return bool(_DRIVER.search(name))


def drivers_in(expression: str) -> Iterator[str]:
    """Yield the names of drivers, and the domains of attributes, in an expression."""
    for table, _, literal in comparisons_in(expression):
        if table == "driver":
            yield literal.strip("\"'")
    for _, name in names_in(expression):
        yield name.partition("/")[0]


def unknown_attributes(expression: str) -> Iterator[str]:
    """Yield an error for each unknown attribute or capacity name in an expression."""
    for table, name in names_in(expression):
        if table == "attributes":
            tested = rf"\bhas\s*\([^()]*\.\s*{name.rpartition('/')[2]}\s*\)"
            yield from unknown_attribute(name, tested=bool(re.search(tested, expression)))
        elif table == "capacity":
            yield from unknown_capacity(name)


def unknown_capacity(name: str) -> Iterator[str]:
    """Yield an error for a qualified name of a capacity that this driver does not publish."""
    if name.startswith(f"{DRIVER_NAME}/") and name != BANDWIDTH:
        identifier = BANDWIDTH.rpartition("/")[2]
        wrong = name.rpartition("/")[2]
        yield f'{DRIVER_NAME} has no capacity "{wrong}", only "{identifier}"; correct it'


def wrong_types(expression: str) -> Iterator[str]:
    """Yield an error for each comparison of an attribute or capacity with a value of another type.

    In CEL, values of different types are never equal, and to order them is an error. The API server
    knows the type of a capacity, and refuses the expression.
    """
    for table, name, literal in comparisons_in(expression):
        if table == "capacity":
            domain, _, identifier = name.partition("/")
            amount = literal.strip("\"'")
            yield (
                f"{name} is a quantity, and {literal} is none; compare"
                f' device.capacity["{domain}"].{identifier}.compareTo(quantity("{amount}")) with 0'
            )
            continue
        meaning = ATTRIBUTES.get(name)
        given = _type_of(literal)
        if meaning is not None and meaning.type is not given:
            yield (
                f"{name} is of type {_CEL_TYPES[meaning.type]}, and {literal} of type "
                f"{_CEL_TYPES[given]}: unlike types are never equal, "
                f"and ordering them is an error; {_corrected(literal, meaning.type)}"
            )


def _type_of(literal: str) -> type[bool | int | str]:
    if literal in {"true", "false"}:
        return bool
    return str if literal[0] in "\"'" else int


def _corrected(literal: str, expected: type[bool | int | str]) -> str:
    """Return the remedy: the same value in the expected type, if possible."""
    plain = literal.strip("\"'")
    if expected is str:
        return f'write "{plain}"'
    if _VALUES[expected].fullmatch(plain.lower()):
        return f"write {plain.lower()}"
    return "correct the value"


def unknown_attribute(name: str, *, tested: bool = False) -> Iterator[str]:
    """Yield an error for a qualified name that this driver does not publish.

    Other drivers may publish attributes in the domain of Kubernetes, and a webhook in that of this
    driver. So in the former domain, and of `tested` names, only those that resemble a known one are
    reported.

    Args:
        name: the qualified name.
        tested: the expression tests with has() whether a device has the attribute.
    """
    domain, _, identifier = name.partition("/")
    if name in ATTRIBUTE_NAMES or domain not in {DRIVER_NAME, _STANDARD}:
        return
    hint = _elsewhere(identifier) if domain == DRIVER_NAME else ""
    hint = hint or did_you_mean(identifier, _identifiers(domain))
    if hint or (domain == DRIVER_NAME and not tested):
        remedy = "correct it" if hint else "'dranet-nri inventory --output json' shows them"
        yield f'{domain} has no attribute "{identifier}"{hint}; {remedy}'


def close_to(identifier: str, published: Collection[str]) -> str:
    """Return ' (did you mean "x"?)' for an identifier that no device has, or ''.

    Args:
        identifier: name without domain, which the device lacks.
        published: qualified names of the attributes that the device has.
    """
    identifiers = {name.rpartition("/")[2] for name in (*ATTRIBUTE_NAMES, *published)}
    return "" if identifier in identifiers else did_you_mean(identifier, sorted(identifiers))


def _identifiers(domain: str) -> list[str]:
    return sorted(
        name.removeprefix(f"{domain}/") for name in ATTRIBUTE_NAMES if name.startswith(f"{domain}/")
    )


def _elsewhere(identifier: str) -> str:
    """Return a hint to the attribute of another domain that has or replaces this name, or ""."""
    if identifier in _REPLACED:
        return f' (did you mean "{_REPLACED[identifier]}"?)'
    name = f"{_STANDARD}/{identifier}"
    return f' (did you mean "{name}"?)' if name in ATTRIBUTE_NAMES else ""
