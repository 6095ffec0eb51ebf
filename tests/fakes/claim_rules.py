"""Server-side rules for status.devices of a claim (pkg/registry/resource/resourceclaim)."""

from typing import Any

Document = dict[str, Any]

DEVICE_STATUS = "DRAResourceClaimDeviceStatus"  # the gate


def settled_devices(before: Document, status: Document, features: frozenset[str]) -> Document:
    """Return a status as the server keeps it: without what its gate drops, or was deallocated."""
    stored = dict(status)
    devices = status.get("devices", [])
    if DEVICE_STATUS not in features and not before.get("devices"):
        devices = []
    left = _allocated(before) - _allocated(status)
    stored["devices"] = [device for device in devices if _key(device) not in left]
    if not stored["devices"]:
        del stored["devices"]
    return stored


def device_problems(status: Document) -> list[Document]:
    """Return what is wrong with a status, as causes."""
    allocated = _allocated(status)
    return [
        {
            "field": f"status.devices[{index}]",
            "message": f"Invalid value: {'/'.join(_key(device))}: must be an allocated device in the claim",  # noqa: E501
        }
        for index, device in enumerate(status.get("devices", []))
        if _key(device) not in allocated
    ]


def _allocated(status: Document) -> set[tuple[str, ...]]:
    allocation = status.get("allocation") or {}
    return {_key(result) for result in allocation.get("devices", {}).get("results", [])}


def _key(entry: Document) -> tuple[str, ...]:
    return tuple(str(entry.get(name) or "") for name in ("driver", "pool", "device", "shareID"))
