"""Server-side rules for ResourceSlices: validation, dropped fields and defaults.

Only rules that tests rely on. tests/dra_shim/resourceslice/test_contract.py holds them to a real
server.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

Document = dict[str, Any]
Problem = tuple[str, str]  # field, message

FEATURES = {  # what a feature gate that is off drops of a device
    "taints": ("taints",),
    "counters": ("consumesCounters",),
    "sharing": ("allowMultipleAllocations",),
    "lists": (),
}
LISTS = ("ints", "bools", "strings", "versions")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"([^/]{1,63}/)?[A-Za-z_][A-Za-z0-9_]{0,31}")
EFFECTS = ("None", "NoSchedule", "NoExecute")


def settled(spec: Document, old: Document | None, features: frozenset[str], now: str) -> Document:
    """Return the spec as it is stored: without what is switched off, with what is filled in."""
    spec = deepcopy(spec)
    if "counters" not in features:
        spec.pop("sharedCounters", None)
    for device in spec.get("devices", ()):
        for feature, fields in FEATURES.items():
            if feature not in features:
                for field in fields:
                    device.pop(field, None)
        if "sharing" not in features:
            for capacity in device.get("capacity", {}).values():
                capacity.pop("requestPolicy", None)
        if "lists" not in features:
            for value in device.get("attributes", {}).values():
                for field in LISTS:
                    value.pop(field, None)
        for taint in device.get("taints", ()):
            taint.setdefault("timeAdded", now)
    if old is not None and "devices" in old and not spec.get("devices"):
        spec.pop("devices", None)
    return spec


def problems(spec: Document, old: Document | None) -> Iterator[Problem]:
    """Yield the rules that a slice breaks."""
    for field in ("driver", "nodeName"):
        if not spec.get(field):
            yield f"spec.{field}", "Required value"
        elif old is not None and old.get(field) != spec[field]:
            yield f"spec.{field}", f'Invalid value: "{spec[field]}": field is immutable'
    if spec.get("pool", {}).get("resourceSliceCount", 0) < 1:
        yield "spec.pool.resourceSliceCount", "Invalid value: 0: must be greater than zero"
    devices = spec.get("devices", [])
    if devices and spec.get("sharedCounters"):
        yield "spec", "Invalid value: exactly one of `devices` or `sharedCounters` is allowed"
    bounded = any(
        device.get("taints") or device.get("consumesCounters") or _lists(device)
        for device in devices
    )
    limit = 64 if bounded else 128
    if len(devices) > limit:
        yield "spec.devices", f"Too many: {len(devices)}: must have at most {limit} items"
    if len(spec.get("sharedCounters", ())) > 8:
        yield "spec.sharedCounters", "Too many: must have at most 8 items"
    names: set[str] = set()
    for index, device in enumerate(devices):
        path = f"spec.devices[{index}]"
        if device["name"] in names:
            yield f"{path}.name", f'Duplicate value: "{device["name"]}"'
        names.add(device["name"])
        yield from _device(path, device)


def _device(path: str, device: Document) -> Iterator[Problem]:
    if not LABEL.fullmatch(device["name"]):
        yield f"{path}.name", f'Invalid value: "{device["name"]}": a lowercase RFC 1123 label'
    attributes = device.get("attributes", {})
    capacity = device.get("capacity", {})
    if len(attributes) + len(capacity) > 32:
        total = len(attributes) + len(capacity)
        yield path, f"Invalid value: {total}: the total number of attributes and capacities"
    values = len(attributes) + sum(len(values_of_list) - 1 for values_of_list in _lists(device))
    if values > 48:
        yield path, f"Invalid value: {values}: the total number of attribute values"
    for name, value in attributes.items():
        if len(value) != 1:
            yield f"{path}.attributes[{name}]", "Invalid value: exactly one value must be specified"
        if not NAME.fullmatch(name):
            yield f"{path}.attributes[{name}]", "Invalid value: a valid C identifier"
        if len(value.get("string", "").encode()) > 64:
            yield f"{path}.attributes[{name}].string", "Too long: may not be more than 64 bytes"
    for name, value in capacity.items():
        if "requestPolicy" in value and not device.get("allowMultipleAllocations"):
            yield f"{path}.capacity[{name}].requestPolicy", "Forbidden"
    for number, taint in enumerate(device.get("taints", ())):
        if taint["effect"] not in EFFECTS:
            yield f"{path}.taints[{number}].effect", f'Unsupported value: "{taint["effect"]}"'


def _lists(device: Document) -> list[list[Any]]:
    attributes = device.get("attributes", {}).values()
    return [attribute[field] for attribute in attributes for field in LISTS if field in attribute]
