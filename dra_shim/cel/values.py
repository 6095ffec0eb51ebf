"""Quantities and semantic versions in CEL, with the operations of Kubernetes.

A value is a tagged map in canonical form, {"quantity": "3/2"} or {"semver": "1.2.3-rc.1"}, so that
`==` compares the meaning. A ValueError becomes a failure of the expression.
"""

import re
from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final

from dranet_nri.model import AttributeValue

Tagged = Mapping[str, str]
OneOrMore = AttributeValue | tuple[AttributeValue, ...]  # an attribute of a slice

_QUANTITY: Final = "quantity"
_SEMVER: Final = "semver"
# Suffixes of k8s.io/apimachinery/pkg/api/resource.Quantity.
_SUFFIXES: Final = {
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate("num", start=-3)},
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate(["", *"kMGTPE"])},
    **{f"{suffix}i": Fraction(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", start=1)},
}
# A Quantity never needs more than two digits of exponent; this bounds the arithmetic.
_QUANTITY_FORM: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,2})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)"
)
MAX_QUANTITY: Final = 1000  # characters; more than any Quantity needs, few enough to parse quickly
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_WORD: Final = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER_FORM: Final = re.compile(
    rf"(?P<version>{_NUMBER}(?:\.{_NUMBER}){{2}}(?:-{_WORD}(?:\.{_WORD})*)?)"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def quantity(text: str) -> Tagged:
    """Return the quantity of a text such as "10Gi", "500m" or "1.5e3"."""
    form = _quantity_form(text)
    if form is None:
        raise ValueError(f'"{text[:MAX_QUANTITY]}" is not a quantity such as 10Gi, 500m or 1.5')
    if form["exponent"]:
        scale = Fraction(10) ** int(form["exponent"])
    else:
        scale = _SUFFIXES[form["suffix"] or ""]
    return {_QUANTITY: str(Fraction(form["number"].rstrip(".")) * scale)}


def _quantity_form(text: str) -> re.Match[str] | None:
    return _QUANTITY_FORM.fullmatch(text) if len(text) <= MAX_QUANTITY else None


def parse_amount(text: str) -> Fraction:
    """Return the exact amount of a quantity's text.

    Raises:
        ValueError: the text is not a quantity.
    """
    return amount(quantity(text))


def tagged(value: Fraction) -> Tagged:
    """Return an amount as a CEL value."""
    return {_QUANTITY: str(value)}


def show_amount(value: Fraction) -> str:
    """Return an amount for messages, with the shortest suffix."""
    texts = [
        f"{value / unit}{suffix}"
        for suffix, unit in _SUFFIXES.items()
        if (value / unit).denominator == 1
    ]
    return min(texts, key=len, default="") or _approximate(value)


def _approximate(value: Fraction) -> str:
    """Return an amount with six digits; it may be too small for a float."""
    six = Context(prec=6).divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{six.normalize():g}"


def semver(text: str) -> Tagged:
    """Return the semantic version of a text; comparisons ignore build metadata."""
    form = _SEMVER_FORM.fullmatch(text)
    if form is None:
        raise ValueError(f'"{text}" is not a semantic version such as 1.2.3')
    return {_SEMVER: form["version"]}


def loose_semver(text: str, normalize: object) -> Tagged:
    """Return the version; normalize removes a leading v and zeros, and adds missing numbers."""
    if not normalize:
        return semver(text)
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and re.search("[-+]", parts[-1]):
        raise ValueError(f'"{text}" has a prerelease or build metadata, but no patch number')
    numbers = [re.sub("^0+(?=[0-9])", "", part) for part in parts]
    return semver(".".join([*numbers, *["0"] * (3 - len(parts))]))


def is_quantity(text: str) -> bool:
    """Return whether the text is a quantity."""
    return _quantity_form(text) is not None


def is_semver(text: str, normalize: object = None) -> bool:
    """Return whether the text is a semantic version."""
    try:
        loose_semver(text, normalize)
    except ValueError:
        return False
    return True


def compare(left: Tagged, right: Tagged) -> int:
    """Return -1, 0 or 1; a prerelease comes before its release (semver.org, 11)."""
    if left.keys() != right.keys() or not left.keys() <= {_QUANTITY, _SEMVER}:
        raise ValueError("only two quantities or two versions can be compared")
    a, b = _order_key(left), _order_key(right)
    return int(a > b) - int(a < b)


def _order_key(value: Tagged) -> Any:  # noqa: ANN401 two kinds of key, never mixed
    if _QUANTITY in value:
        return Fraction(value[_QUANTITY])
    core, _, pre = value[_SEMVER].partition("-")
    words = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in pre.split(".")]
    return [int(part) for part in core.split(".")], not pre, words


def version_part(value: Tagged, index: int) -> int:
    """Return major (0), minor (1) or patch (2)."""
    return int(_member(value, _SEMVER).partition("-")[0].split(".")[index])


def amount(value: Tagged) -> Fraction:
    """Return the exact amount of a quantity."""
    return Fraction(_member(value, _QUANTITY))


def as_integer(value: Tagged) -> int:
    """Return the amount of a whole quantity."""
    exact = amount(value)
    if exact.denominator != 1:
        raise ValueError(f"{_approximate(exact)} is not a whole number")
    return exact.numerator


def add(left: Tagged, right: Tagged | int) -> Tagged:
    """Return the sum of two quantities, or of a quantity and a number."""
    return _sum(left, right, 1)


def subtract(left: Tagged, right: Tagged | int) -> Tagged:
    """Return the difference of two quantities, or of a quantity and a number."""
    return _sum(left, right, -1)


def _sum(left: Tagged, right: Tagged | int, sign: int) -> Tagged:
    other = Fraction(right) if isinstance(right, int) else amount(right)
    return {_QUANTITY: str(amount(left) + sign * other)}


def _member(value: Tagged, kind: str) -> str:
    if kind not in value:
        raise ValueError(f"the value is not a {kind}")
    return value[kind]
