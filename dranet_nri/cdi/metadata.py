"""Metadata file of KEP-5304: describes the pod's devices to its containers."""

import json
from typing import Final

from dranet_nri.model import (
    DRIVER_NAME,
    Allocation,
    AttachedDevice,
    Attachment,
    AttributeValue,
)

METADATA_VERSIONS: Final = (
    "metadata.resource.k8s.io/v1beta1",
    "metadata.resource.k8s.io/v1alpha1",
)


def metadata(allocation: Allocation, attachment: Attachment, request: str) -> bytes:
    """Return the DeviceMetadata file of one request: one JSON object per supported version.

    An alternative of firstAvailable is an entry with its full name ("request/subrequest").
    """
    pools = {device.device.name: device.pool for device in allocation.devices}
    allocated = [device for device in allocation.devices if device.request == request]
    names = {device.device.name: device.full_request for device in allocated}
    devices: dict[str, list[object]] = {}
    for device in attachment.devices:
        name = device.device.name
        if device.request == request:
            found = devices.setdefault(names.get(name, request), [])
            found.append(_metadata_device(pools[name], device))
    body = {
        "kind": "DeviceMetadata",
        "metadata": {
            "name": allocation.claim.name,
            "namespace": allocation.claim.namespace,
            "uid": allocation.claim.uid,
            "generation": attachment.attempt,
        },
        "requests": [{"name": name, "devices": found} for name, found in devices.items()],
    }
    if allocation.pod_claim_name:
        body["podClaimName"] = allocation.pod_claim_name
    rest = json.dumps(body)[1:]
    versions = (f'{{"apiVersion": "{version}", {rest}\n' for version in METADATA_VERSIONS)
    return "".join(versions).encode()


def _metadata_device(pool: str, device: AttachedDevice) -> dict[str, object]:
    return {
        "driver": DRIVER_NAME,
        "pool": pool,
        "name": device.device.name,
        "attributes": {name: _tagged(value) for name, value in device.device.attributes},
        "networkData": _network_data(device),
    }


def _network_data(device: AttachedDevice) -> dict[str, object]:
    if not device.pod_name:
        return {}
    return {
        "interfaceName": device.pod_name,
        "ips": list(device.addresses),
        "hardwareAddress": device.mac,
    }


def _tagged(value: AttributeValue) -> dict[str, object]:
    """Return the value in the form of the ResourceSlice API."""
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case str():
            return {"string": value}
    return {"version": value.text}
