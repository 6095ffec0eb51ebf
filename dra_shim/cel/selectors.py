"""Device selectors as the scheduler evaluates them, and dranet's inventory filter.

Rules:
1. A selector is true or false for a device, or it fails. A failure is not false: it stops the
   allocation in the scheduler.
2. A domain without attributes is an empty map; an unknown id in it is a failure, as in Kubernetes.
3. Python code evaluates the default filter. Most nodes have no other expression, and the CEL
   library, which is loaded for the first one, takes 8 MiB.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Protocol

from dra_shim.cel.attribute import MEMBERS, attribute
from dra_shim.cel.environment import (
    CompiledExpression,
    Environment,
    filter_environment,
    for_library,
    selector_environment,
)
from dra_shim.cel.mistaken import (
    close_to,
    other_operator,
    wrong_reference,
)
from dra_shim.cel.patterns import invalid_pattern
from dra_shim.cel.references import names_in
from dra_shim.cel.values import OneOrMore, semver, tagged
from dranet_nri.errors import DranetError
from dranet_nri.inventory import NUMA_NODE
from dranet_nri.model import DEFAULT_FILTER, AttributeValue, Device, Version

Near = Mapping[int, tuple[int, ...]]
_VETH: Final = ("dra.net/type", "veth")  # excluded by DEFAULT_FILTER

_FILTER_HELP: Final = (
    f"write it as in {DEFAULT_FILTER!r}; an attribute has {', '.join(MEMBERS)}, each of its own "
    "type"
)

MAX_FILTERS: Final = 8  # compiled expressions that are cached
MAX_RESULTS: Final = 2048  # filter results that are cached
MAX_EXPRESSION: Final = 10 * 1024  # CELSelectorExpressionMaxLength, k8s.io/api/resource

_COMPILE_ERROR: Final = re.compile(
    r"ERROR: <input>:(\d+):(\d+): (.*?)(?: \(in container ''\))?$", re.MULTILINE
)
_VALUE_TYPE: Final = "map(string, dyn)"
_VALUE_HELP: Final = (
    f"{_VALUE_TYPE} is a quantity, a version or an address; compare it with another one: "
    'x == quantity("10G"), or x.isGreaterThan(quantity("10G"))'
)
_MISSING_KEY: Final = re.compile(r'NOT_FOUND: Key not found in map : "(.*)"', re.DOTALL)
_ERROR_CODE: Final = re.compile(r"^[A-Z_]+: ")


class SelectorError(DranetError):
    """A CEL expression cannot be compiled, or its evaluation on a device fails.

    Attributes:
        expression: the text of the user.
        reason: the error and its remedy.
    """

    def __init__(self, expression: str, reason: str) -> None:
        """Store the attributes; the text quotes the expression."""
        super().__init__(f"CEL {expression!r}: {reason}")
        self.expression = expression
        self.reason = reason


class SelectorTarget(Protocol):
    """A device to which a selector is applied."""

    @property
    def driver(self) -> str:
        """Return the name of the driver."""

    @property
    def name(self) -> str:
        """Return the device name, for messages."""

    @property
    def attributes(self) -> tuple[tuple[str, OneOrMore], ...]:
        """Return (name, value) pairs; a name without a domain has that of the driver."""

    @property
    def amounts(self) -> tuple[tuple[str, Fraction], ...]:
        """Return (name, amount) pairs of the capacity, named like attributes."""

    @property
    def shared(self) -> bool:
        """Return allowMultipleAllocations."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled device selector."""

    expression: str
    _program: CompiledExpression

    def matches(self, device: SelectorTarget) -> bool:
        """Return whether the selector matches a device.

        Raises:
            SelectorError: the expression fails on this device, which stops the allocation in the
                scheduler.
        """
        value, failed = _evaluated(self._program, _activation(device))
        if isinstance(value, bool):
            return value
        if not failed:
            reason = f"gives {value!r}; it must give true or false"
        elif mistaken := wrong_reference(self.expression):
            reason = mistaken
        elif missing := _MISSING_KEY.fullmatch(str(value)):
            hint = close_to(missing[1], [name for name, _ in device.attributes])
            named = (
                table
                for table, name in names_in(self.expression)
                if name.endswith(f"/{missing[1]}")
            )
            table = next(named, "attributes")
            guard = f'"{missing[1]}" in device.{table}["..."] && ...'
            reason = f'the device has no "{missing[1]}"{hint}; guard it: {guard}'
        else:
            reason = _ERROR_CODE.sub("", str(value))
        raise SelectorError(self.expression, f"on device {device.name}: {reason}")


def compile_selector(expression: str) -> Selector:
    """Return the selector for a CEL expression over `device`.

    Raises:
        SelectorError: the expression is too long, not valid CEL, or cannot be boolean.
    """
    if len(expression.encode(errors="surrogatepass")) > MAX_EXPRESSION:
        raise SelectorError(
            f"{expression[:40]}...", f"is longer than {MAX_EXPRESSION} bytes; shorten it"
        )
    environment = selector_environment()
    kind = _compile(environment, expression).return_type().name()
    if kind not in {"BOOL", "DYN"}:
        raise SelectorError(expression, f"gives {kind.lower()}; it must give true or false")
    if reason := invalid_pattern(expression, environment):
        raise SelectorError(expression, reason)
    return Selector(expression, _compile(environment, for_library(expression)))


def filter_devices(
    expression: str, devices: Sequence[Device], near: Near | None = None
) -> tuple[Device, ...]:
    """Return the devices for which dranet's `--filter` is not false.

    The expression has the variable `attributes`: a map from qualified name to a struct with
    StringValue, IntValue, BoolValue and VersionValue, and their lists (StringValues and so on). A
    device is kept if the result is true or the evaluation fails. Without an expression all are
    kept.

    Args:
        expression: the CEL expression, "" for none.
        devices: the devices to filter.
        near: NUMA node → the published list of nodes; None if lists are off. IntValue is the node
            itself in either case.

    Raises:
        SelectorError: the expression cannot be compiled.
    """
    if not expression:
        return tuple(devices)
    results = _results(expression, devices, near)
    return tuple(device for device, result in results if result is not False)


def matching_devices(
    expression: str, devices: Sequence[Device], near: Near | None = None
) -> tuple[Device, ...]:
    """Return the devices for which an expression of the `--filter` language is true.

    A device on which the evaluation fails, for example for a missing attribute, does not match.

    Args:
        expression, devices, near: see filter_devices; "" matches no device.

    Raises:
        SelectorError: the expression cannot be compiled.
    """
    if not expression:
        return ()
    return tuple(device for device, result in _results(expression, devices, near) if result)


def numa_list(value: object, near: Near) -> tuple[int, ...]:
    """Return the published list for a NUMA node: the node, then the nearest nodes; () if none."""
    return near.get(value, (value,)) if isinstance(value, int) else ()


def _results(
    expression: str, devices: Sequence[Device], near: Near | None
) -> tuple[tuple[Device, bool | None], ...]:
    """Return each device with the value of the expression, None if its evaluation fails."""
    if expression == DEFAULT_FILTER:
        return tuple((device, _VETH not in device.attributes) for device in devices)
    _filter(expression)  # raises SelectorError even without devices
    return tuple((device, _result(expression, device, _kinds(device), _nodes(device, near)))
                 for device in devices)  # fmt: skip


def _nodes(device: Device, near: Near | None) -> tuple[int, ...]:
    return () if near is None else numa_list(device.attribute(NUMA_NODE), near)


@lru_cache(maxsize=MAX_FILTERS)
def _filter(expression: str) -> CompiledExpression:
    try:
        return _compile(filter_environment(), expression)
    except SelectorError as error:
        raise SelectorError(expression, f"{error.reason}; {_FILTER_HELP}") from None


def _kinds(device: Device) -> tuple[type, ...]:
    """Return the types of a device's attributes: part of the cache key, because True == 1."""
    return tuple(type(value) for _, value in device.attributes)


@lru_cache(maxsize=MAX_RESULTS)
def _result(
    expression: str, device: Device, _: tuple[type, ...], nodes: tuple[int, ...]
) -> bool | None:
    """Return the value of an expression for a device, None if the evaluation fails.

    Cached: an evaluation takes 40 µs, and most devices do not change between scans.
    """
    attributes = {
        name: attribute(value, nodes if name == NUMA_NODE else ())
        for name, value in device.attributes
    }
    value, failed = _evaluated(_filter(expression), {"attributes": attributes})
    return None if failed else value is True


def _evaluated(program: CompiledExpression, data: Mapping[str, object]) -> tuple[object, bool]:
    """Return the value, or the error message, and whether the evaluation failed."""
    try:
        result = program.eval(data=data)
    except RuntimeError as error:  # the library raises some failures, such as that of a map literal
        return str(error), True
    return result.value(), result.type().name() == "ERROR"


def _compile(environment: Environment, expression: str) -> CompiledExpression:
    if any("\ud800" <= char <= "\udfff" for char in expression):
        raise SelectorError(expression, "contains a lone surrogate; write the character itself")
    try:
        return environment.compile(expression)
    except RuntimeError as error:
        found = _COMPILE_ERROR.findall(str(error))
        places = [f"line {line} column {column}: {text}" for line, column, text in found]
        texts = places or [" ".join(str(error).split())]
        texts += filter(None, [other_operator(expression)])
        if any(_VALUE_TYPE in text for text in places):
            texts.append(_VALUE_HELP)
        raise SelectorError(expression, "; ".join(texts)) from None


def _activation(device: SelectorTarget) -> dict[str, object]:
    attributes: dict[str, dict[str, object]] = {}
    for name, value in device.attributes:
        entry = [*map(_cel_value, value)] if isinstance(value, tuple) else _cel_value(value)
        _add(attributes, name, entry, device.driver)
    capacity: dict[str, dict[str, object]] = {}
    for name, amount in device.amounts:
        _add(capacity, name, tagged(amount), device.driver)
    return {
        "device.driver": device.driver,
        "device.attributes": attributes,
        "device.capacity": capacity,
        "device.allowMultipleAllocations": device.shared,
    }


def _cel_value(value: AttributeValue) -> object:
    return semver(value.text) if isinstance(value, Version) else value


def _add(domains: dict[str, dict[str, object]], name: str, value: object, driver: str) -> None:
    """Add a value to its domain; a name with the driver's domain overrides one without."""
    domain, _, identifier = name.rpartition("/")
    values = domains.setdefault(domain or driver, {})
    if domain or identifier not in values:
        values[identifier] = value
