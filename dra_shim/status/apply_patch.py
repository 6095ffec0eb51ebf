"""Server-side apply of a claim's status.devices.

Rules:
1. One document contains all devices of this driver, because an apply removes what it omits. Devices
   of another node are neither compared nor applied: a claim may have moved there. A claim never has
   devices of both nodes, because a server drops the status of devices that are no longer allocated
   to it (dropDeallocatedStatusDevices, pkg/registry/resource/resourceclaim).
2. A status that the server already has is not applied, so the server's times stay unchanged.
3. Only devices of the claim's allocation are applied: a server rejects a document with any other.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from dra_shim.kubeapi import Document, InvalidError, Object, object_at, objects_at
from dra_shim.resourceapi import read_allocated
from dra_shim.status.conditions import TYPES, Condition, DeviceStatus, Key, NetworkData
from dranet_nri.model import DRIVER_NAME

_PERMISSION: Final = "resourceclaims/driver"
# All nodes are the same field manager: without preconditions, a document from an old state could
# remove the devices of the claim's new node.
_PRECONDITIONS: Final = ("namespace", "name", "uid", "resourceVersion")
Entries = Mapping[Key, Mapping[str, object]]


def claim_document(
    claim: Document, desired: Sequence[DeviceStatus], stamp: str, node: str
) -> Object | None:
    """Return the document to apply to the status of a claim, None if the server has it already.

    Args:
        claim: the claim as the server returned it; if it changed, the server rejects the document.
        desired: desired status of each device; devices that are not allocated are omitted.
        stamp: the time of changes, RFC 3339.
        node: name of the node and of its pool.

    Raises:
        ConfigError: the claim is invalid.
    """
    allocated = {
        (result.device[1], result.device[2], result.share_id)
        for result in read_allocated(claim).results
    }
    on_server = {key: entry for key, entry in _entries(claim).items() if key[0] == node}
    metadata = object_at(claim, "metadata")
    generation = metadata.get("generation")
    entries = {
        device_status.key: _entry(
            device_status, on_server.get(device_status.key, {}), generation, stamp
        )
        for device_status in desired
        if device_status.key in allocated and device_status.pool == node
    }
    if entries == {key: _driver_fields(entry) for key, entry in on_server.items()}:
        return None
    preconditions = {name: metadata[name] for name in _PRECONDITIONS if name in metadata}
    return {"metadata": preconditions, "status": {"devices": list(entries.values())}}


def is_kept(document: Document, answer: Document) -> bool:
    """Return whether a server kept status.devices of an applied document; an old one drops it."""
    sent = object_at(document, "status").get("devices")
    return not sent or bool(_entries(answer))


def is_owned_by_pod(claim: Document) -> bool:
    """Return whether a pod controls a claim: it was created from a template, for this pod only."""
    owners = objects_at(claim, "metadata", "ownerReferences")
    return any(owner.get("kind") == "Pod" and owner.get("controller") is True for owner in owners)


def missing_permission(error: InvalidError) -> str:
    """Return the permission to grant if a status was rejected for a missing one, otherwise "".

    From 1.36 on each driver needs its own permission (KEP-4817), and the error is 422, not 403.
    """
    if not any(_PERMISSION in cause.message for cause in error.causes):
        return ""
    return (
        f"grant associated-node:patch on {_PERMISSION}, resource name {DRIVER_NAME}, to the service"
        " account, and use a token that is bound to a pod of this node"
    )


def _entry(
    status: DeviceStatus, old: Mapping[str, object], generation: object, stamp: str
) -> Object:
    current = {str(condition.get("type")): condition for condition in objects_at(old, "conditions")}
    entry: Object = {"driver": DRIVER_NAME, "pool": status.pool, "device": status.device}
    if status.share_id:
        entry["shareID"] = status.share_id
    entry["conditions"] = [
        _condition(condition, current.get(condition.type, {}), generation, stamp)
        for condition in sorted(status.conditions, key=lambda condition: condition.type)
    ]
    if status.network is not None:
        entry["networkData"] = _network(status.network)
    return entry


def _condition(
    condition: Condition, old: Mapping[str, object], generation: object, stamp: str
) -> Object:
    status = str(condition.true)
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    entry: Object = {
        "type": condition.type,
        "status": status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since or stamp,
    }
    if isinstance(generation, int):
        entry["observedGeneration"] = generation
    return entry


def _network(data: NetworkData) -> Object:
    texts = {"interfaceName": data.interface, "hardwareAddress": data.mac}
    entry: Object = {name: text for name, text in texts.items() if text}
    if data.addresses:
        entry["ips"] = list(data.addresses)
    return entry


def _entries(claim: Document) -> Entries:
    """Return the entries of this driver's devices on the server."""
    return {
        (str(entry.get("pool")), str(entry.get("device")), str(entry.get("shareID") or "")): entry
        for entry in objects_at(claim, "status", "devices")
        if entry.get("driver") == DRIVER_NAME
    }


def _driver_fields(entry: Mapping[str, object]) -> Object:
    """Return an entry without fields that other writers may add, in the form of `_entry`."""
    fields: Object = {
        name: entry[name]
        for name in ("driver", "pool", "device", "shareID", "networkData")
        if entry.get(name) is not None
    }
    conditions = [
        condition for condition in objects_at(entry, "conditions") if condition.get("type") in TYPES
    ]
    fields["conditions"] = sorted(conditions, key=lambda condition: str(condition.get("type")))
    return fields
