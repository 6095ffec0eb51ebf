"""Documents as the fake API server stores, returns and rejects them."""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

Document = dict[str, Any]

KINDS = {
    "nodes": ("Node", ""),
    "pods": ("Pod", ""),
    "events": ("Event", ""),
    "resourceclaims": ("ResourceClaim", "resource.k8s.io"),
    "resourceclaimtemplates": ("ResourceClaimTemplate", "resource.k8s.io"),
    "deviceclasses": ("DeviceClass", "resource.k8s.io"),
    "resourceslices": ("ResourceSlice", "resource.k8s.io"),
}


def event_line(change: str, document: Document) -> bytes:
    return json.dumps({"type": change, "object": document}).encode() + b"\n"


def status(code: int, reason: str, message: str, **details: Any) -> Document:
    return {
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message, "details": details,
    }  # fmt: skip


def entry_key(entry: Document) -> Document:
    return {name: entry.get(name) for name in ("driver", "pool", "device", "shareID")}


def selected(document: Document, selector: Mapping[str, str]) -> bool:
    def value(path: str) -> object:
        found: Any = document
        for name in path.split("."):
            found = found.get(name, {}) if isinstance(found, dict) else {}
        return found

    return all(value(path) == expected for path, expected in selector.items())


def inward(document: Document, version: str) -> Document:
    """Return a document as it is stored: of v1beta1, `basic` is unwrapped; null is nothing."""
    stored: Document = _without_null(document)
    stored.pop("apiVersion", None)
    stored.pop("kind", None)
    if version == "v1beta1" and "devices" in stored.get("spec", {}):
        devices = stored["spec"]["devices"]
        if isinstance(devices, list):
            stored["spec"]["devices"] = [
                {"name": device["name"], **device.get("basic", {})} for device in devices
            ]
    return stored


def outward(document: Document, plural: str, version: str) -> Document:
    if document.get("kind") == "Status" or "metadata" not in document:
        return document
    kind, group = KINDS[plural]
    shown = {
        "apiVersion": f"{group}/{version}" if group else version,
        "kind": kind,
        **deepcopy(document),
    }
    if version == "v1beta1" and plural == "resourceslices" and "devices" in shown.get("spec", {}):
        shown["spec"]["devices"] = [
            {"name": device.pop("name"), "basic": device} for device in shown["spec"]["devices"]
        ]
    return shown


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(member) for name, member in value.items() if member is not None}
    return [_without_null(element) for element in value] if isinstance(value, list) else value
