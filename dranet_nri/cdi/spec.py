"""CDI spec (Container Device Interface) of an attached claim: the file that opens the gate."""

import json
from typing import Final

from dranet_nri.cdi.edits import EditOptions, device_files, environment_of, metadata_mount
from dranet_nri.cdi.names import CDI_KIND, NETNS_ROOT, cdi_name, gated_requests
from dranet_nri.model import (
    Allocation,
    Attachment,
    CharDevice,
    Mount,
)

CDI_VERSION: Final = "0.5.0"


def cdi_spec(
    allocation: Allocation, attachment: Attachment, directory: str, options: EditOptions
) -> bytes:
    """Return the CDI spec that opens the gate for this claim in this sandbox.

    Besides the edits of `edits`, each device mounts the namespace file of its sandbox, so that a
    stale spec cannot be used in another sandbox. Device nodes have no numbers: the runtime reads
    them from the file.
    """
    devices = [
        _cdi_device(allocation, attachment, request, directory, options)
        for request in gated_requests(allocation)
    ]
    spec = {"cdiVersion": CDI_VERSION, "kind": CDI_KIND, "devices": devices}
    return json.dumps(spec).encode()  # with an indent, json encodes in Python


def _cdi_device(
    allocation: Allocation,
    attachment: Attachment,
    request: str,
    directory: str,
    options: EditOptions,
) -> dict[str, object]:
    devices = tuple(device for device in attachment.devices if device.request == request)
    env = environment_of(allocation, devices) if options.environment else ()
    claim = allocation.pod_claim_name or allocation.claim.name
    netns = Mount(
        source=attachment.netns.path,
        destination=f"{NETNS_ROOT}/{claim}/{request}/netns",
        options=("ro", "bind", "nosuid", "nodev", "noexec"),
    )
    content: dict[str, object] = {
        "mounts": [
            {
                "hostPath": mount.source,
                "containerPath": mount.destination,
                "options": list(mount.options),
            }
            for mount in (metadata_mount(allocation, request, directory), netns)
        ],
        "deviceNodes": [_device_node(char) for char in device_files(devices)],
        "env": [f"{name}={value}" for name, value in env],
    }
    return {
        "name": cdi_name(allocation.claim, request, allocation.nonce),
        "containerEdits": {key: value for key, value in content.items() if value},
    }


def _device_node(char: CharDevice) -> dict[str, object]:
    node: dict[str, object] = {"path": char.path, "permissions": "rw"}
    owner = {"fileMode": char.mode, "uid": char.uid, "gid": char.gid}
    return node | {key: value for key, value in owner.items() if value is not None}
