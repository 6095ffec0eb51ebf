"""`spec` of a ResourceSlice: devices of a driver. The limits are those of k8s.io/api/resource.

Additions of a newer API are ignored: fields, and kinds of attributes. Consumers treat an unknown
effect of a taint like None (DeviceTaintEffect).
"""

from collections.abc import Iterator
from typing import Final

from dra_shim.cel.values import OneOrMore, is_semver
from dra_shim.resourceapi.requirements import amount, check_name
from dra_shim.resourceapi.slice_types import (
    Capacity,
    CounterValue,
    Policy,
    ResourceSlice,
    SliceDevice,
    Taint,
)
from dranet_nri.config import Node
from dranet_nri.config.json_cursor import (
    Fields,
    given,
    items_of,
    required,
    required_text,
    text_of,
)
from dranet_nri.errors import InvalidValueError
from dranet_nri.model import AttributeValue, Version
from dranet_nri.model.api_names import parse_driver, parse_label, parse_subdomain, parse_taint_key

_MAX_DEVICES: Final = 128
_MAX_SETS: Final = 8
_MAX_TAINTS: Final = 16
_MAX_VALUES: Final = 10  # values of a requestPolicy
_MAX_LIST: Final = 48  # values of all attributes
_MAX_TEXT: Final = 64  # bytes of a string or version attribute
_INT64: Final = (-(2**63), 2**63 - 1)

_NODE_FIELDS: Final = ("nodeName", "nodeSelector", "allNodes")
_SPEC: Final = (
    *("driver", "pool", *_NODE_FIELDS, "perDeviceNodeSelection", "devices", "sharedCounters"),
    *("partitionTypeAttribute", "skipNodeOperations"),  # not validated
)
_DEVICE_FIELDS: Final = (
    *(
        "attributes",
        "capacity",
        "consumesCounters",
        "taints",
        "allowMultipleAllocations",
        *_NODE_FIELDS,
    ),
    # Not read: they apply after the allocation.
    *("bindsToNode", "bindingConditions", "bindingFailureConditions"),
    "nodeAllocatableResourceMappings",
)
_EFFECTS: Final = ("NoSchedule", "NoExecute")
_KINDS: Final = ("int", "bool", "string", "version")
_LISTS: Final = tuple(f"{kind}s" for kind in _KINDS)


def slice_spec(node: Node, name: str, *, basic: bool) -> ResourceSlice:
    """Read `spec`; basic devices have the form of v1beta1."""
    fields = node.fields(_SPEC)
    driver = required_text(node, fields, "driver", parse_driver)
    pool, generation, count = _pool(required(node, fields, "pool"))
    if not {*_NODE_FIELDS, "perDeviceNodeSelection"} & fields.keys():
        node.report("needs nodeName, nodeSelector, allNodes or perDeviceNodeSelection; add one")
    devices = items_of(fields, "devices", _MAX_DEVICES)
    sets = items_of(fields, "sharedCounters", _MAX_SETS)
    return ResourceSlice(
        name,
        driver,
        pool,
        generation,
        count,
        text_of(fields, "nodeName", parse_subdomain),
        tuple(_device(item, driver, pool, basic=basic) for item in devices),
        tuple(counter for item in sets for counter in _counters(item, "name")),
    )


def _pool(node: Node | None) -> tuple[str, int, int]:
    if node is None:
        return "", 0, 1
    fields = node.fields(("name", "generation", "resourceSliceCount"))
    name = required_text(node, fields, "name", _pool_name)
    count = required(node, fields, "resourceSliceCount")
    generation = given(fields, "generation", lambda found: found.integer(0, _INT64[1]))
    return name, generation or 0, (count.integer(1, _INT64[1]) if count else None) or 1


def _pool_name(text: str) -> str:
    for part in text.split("/"):
        parse_subdomain(part)
    return text


def _device(node: Node, driver: str, pool: str, *, basic: bool) -> SliceDevice:
    fields = node.fields(("name", "basic") if basic else ("name", *_DEVICE_FIELDS))
    name = required_text(node, fields, "name", parse_label)
    facts = fields
    if basic:
        facts = given(fields, "basic", lambda found: found.fields(_DEVICE_FIELDS)) or {}
    return SliceDevice(
        driver,
        pool,
        name,
        tuple(_attributes(facts)),
        tuple(_capacity(facts)),
        tuple(
            counter
            for item in items_of(facts, "consumesCounters")
            for counter in _counters(item, "counterSet")
        ),
        tuple(_taints(facts)),
        bool(given(facts, "allowMultipleAllocations", Node.boolean)),
        text_of(facts, "nodeName", parse_subdomain),
    )


def _attributes(fields: Fields) -> Iterator[tuple[str, OneOrMore]]:
    if "attributes" not in fields:
        return
    for name, entry in fields["attributes"].entries().items():
        check_name(entry, name)
        inner = entry.fields((*_KINDS, *_LISTS))
        if not inner and entry.entries():
            continue
        if len(inner) != 1:
            entry.report(f"needs one of {', '.join((*_KINDS, *_LISTS))}")
            continue
        ((kind, value),) = inner.items()
        found = _attribute(kind, value) if kind in _KINDS else _values(kind, value)
        if found is not None:
            yield name, found


def _values(kind: str, node: Node) -> tuple[AttributeValue, ...] | None:
    """Read a list (KEP-5491); an empty one means no attribute."""
    found = [_attribute(kind.removesuffix("s"), item) for item in node.items(_MAX_LIST)]
    if not found:
        node.report("must have a value; leave the attribute out")
    return tuple(value for value in found if value is not None) or None


def _attribute(kind: str, node: Node) -> AttributeValue | None:
    match kind:
        case "int":
            return node.integer(*_INT64)
        case "bool":
            return node.boolean()
        case "string":
            return node.parsed(_text)
    return node.parsed(_version)


def _text(text: str) -> str:
    if len(text.encode(errors="surrogatepass")) > _MAX_TEXT:
        raise InvalidValueError(f"is longer than {_MAX_TEXT} bytes; shorten it")
    return text


def _version(text: str) -> Version:
    if not is_semver(_text(text)):
        raise InvalidValueError("must be a semantic version such as 1.2.3; or publish a string")
    return Version(text)


def _capacity(fields: Fields) -> Iterator[Capacity]:
    if "capacity" not in fields:
        return
    for name, entry in fields["capacity"].entries().items():
        check_name(entry, name)
        inner = entry.fields(("value", "requestPolicy"))
        value_node = required(entry, inner, "value")
        value = amount(value_node) if value_node else None
        policy = given(inner, "requestPolicy", _policy)
        if value is not None:
            yield Capacity(name, value, policy or Policy())


def _policy(node: Node) -> Policy:
    fields = node.fields(("default", "validValues", "validRange"))
    default = given(fields, "default", amount)
    items = items_of(fields, "validValues", _MAX_VALUES)
    values = sorted(value for item in items if (value := amount(item)) is not None)
    if "validRange" not in fields:
        return Policy(default, tuple(values))
    if "validValues" in fields:
        node.report("has validValues and validRange; keep one")
    inner = fields["validRange"].fields(("min", "max", "step"))
    minimum = required(fields["validRange"], inner, "min")
    step = given(inner, "step", amount)
    if step == 0:
        inner["step"].report("must be more than 0")
    return Policy(
        default,
        (),
        amount(minimum) if minimum else None,
        given(inner, "max", amount),
        step or None,
    )


def _counters(node: Node, title: str) -> Iterator[CounterValue]:
    fields = node.fields((title, "counters"))
    name = required_text(node, fields, title, parse_label)
    counters = required(node, fields, "counters")
    for key, entry in (counters.entries() if counters else {}).items():
        value_node = required(entry, entry.fields(("value",)), "value")
        value = amount(value_node) if value_node else None
        if name and value is not None:
            yield CounterValue(name, key, value)


def _taints(fields: Fields) -> Iterator[Taint]:
    for item in items_of(fields, "taints", _MAX_TAINTS):
        inner = item.fields(("key", "value", "effect", "timeAdded"))
        key = required_text(item, inner, "key", parse_taint_key)
        effect = required_text(item, inner, "effect")
        value = text_of(inner, "value")
        if key:
            yield Taint(key, value, effect if effect in _EFFECTS else "None")
