"""Tolerations and capacity of a request, and the parsing of amounts."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from dra_shim.cel.values import parse_amount
from dra_shim.resourceapi.types import Toleration
from dranet_nri.config import Node
from dranet_nri.config.json_cursor import Fields, items_of, text_of, without_blank
from dranet_nri.errors import InvalidValueError
from dranet_nri.model.api_names import parse_attribute_name, parse_taint_key, parse_word

_MAX_TOLERATIONS: Final = 16  # DeviceTolerationsMaxLength, k8s.io/api/resource
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")


def tolerations(fields: Fields) -> tuple[Toleration, ...]:
    """Read `tolerations` of a request."""
    return tuple(_toleration(item) for item in items_of(fields, "tolerations", _MAX_TOLERATIONS))


def capacity(node: Node) -> Iterator[tuple[str, Fraction]]:
    """Read `capacity` of a request."""
    fields = node.fields(("requests",))
    if "requests" not in fields:
        return
    for name, entry in fields["requests"].entries().items():
        check_name(entry, name)
        value = amount(entry)
        if value is not None:
            yield name, value


def amount(node: Node) -> Fraction | None:
    """Read a quantity that is not negative, or report a violation."""
    text = str(node.value) if type(node.value) is int else node.text()
    if text is None:
        return None
    try:
        value = parse_amount(text)
    except ValueError:
        node.report("must be a quantity such as 10Gi, 500m or 1.5")
        return None
    if value < 0:
        node.report("must not be negative")
    return value


def check_name(node: Node, name: str) -> None:
    """Report a violation if the name of an attribute or capacity is invalid."""
    try:
        parse_attribute_name(name)
    except InvalidValueError as error:
        node.report(f"its name {error}")


def word(fields: Fields, name: str, allowed: tuple[str, ...]) -> str:
    """Read one of several words; "" if it is missing."""
    text = text_of(fields, name)
    if text and text not in allowed:
        fields[name].report(f"must be one of {', '.join(allowed)}")
    return text


def _toleration(node: Node) -> Toleration:
    fields = node.fields(_TOLERATION)
    if "tolerationSeconds" in fields:
        fields["tolerationSeconds"].integer(-(2**63), 2**63 - 1)
    operator = word(fields, "operator", ("Exists", "Equal"))
    effect = word(fields, "effect", ("NoSchedule", "NoExecute", "None"))
    filled = without_blank(fields, "key", "value")  # "" is equivalent to absent
    key = text_of(filled, "key", parse_taint_key)
    value = text_of(filled, "value", parse_word)
    exists = operator == "Exists"
    if exists and value:
        fields["value"].report("not possible with operator Exists; remove it")
    if not exists and "key" not in fields:
        node.report("needs key, or operator Exists to tolerate every taint; add one")
    return Toleration(key, value, exists, effect)
