"""Container edits of an attached claim: one decision, encoded for NRI and for CDI.

`edits` decides for the NRI adjustment, `cdi_spec` writes the same for the container runtime's CDI
(Container Device Interface), where a missing spec is the gate that blocks the container.
`metadata` is the file of KEP-5304 that describes a pod's devices to it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from dranet_nri.model import (
    DRIVER_NAME,
    Allocation,
    AttachedDevice,
    Attachment,
    AttributeValue,
    CharDevice,
    Container,
    Edits,
    Mount,
    ObjectRef,
    Rlimit,
)

CDI_KIND: Final = f"{DRIVER_NAME}/nic"
CDI_VERSION: Final = "0.5.0"
METADATA_FILE: Final = f"{DRIVER_NAME}-metadata.json"
METADATA_ROOT: Final = "/var/run/kubernetes.io/dra-device-attributes"  # KEP-5304
NETNS_ROOT: Final = "/var/run/dra.net"  # where a container finds its pod's namespace file
METADATA_VERSIONS: Final = (
    "metadata.resource.k8s.io/v1beta1",
    "metadata.resource.k8s.io/v1alpha1",
)
RLIM_INFINITY: Final = 2**64 - 1
CHAR_MODE: Final = 0o666  # for containers that do not run as root; umad and issm are 0600 on hosts

_NOT_ENV: Final = re.compile(r"[^A-Z0-9]")
_ROOT_ONLY: Final = re.compile(r"/(umad|issm)[0-9]+$")
_NOT_CDI: Final = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class EditOptions:
    """The operator's settings of container edits.

    Attributes:
        memlock: RLIMIT_MEMLOCK in bytes for containers with an RDMA device, None to leave it.
        environment: whether interface and RDMA device names are put into the environment.
    """

    memlock: int | None = RLIM_INFINITY
    environment: bool = True


def cdi_name(claim: ObjectRef, request: str, nonce: str) -> str:
    """Return the CDI device name of a request, readable in the pod's event."""
    return _NOT_CDI.sub("-", f"{claim.namespace}_{claim.name}_{request}_{nonce}")


def cdi_id(claim: ObjectRef, request: str, nonce: str) -> str:
    """Return the fully qualified CDI device name that a container of the pod must carry."""
    return f"{CDI_KIND}={cdi_name(claim, request, nonce)}"


def cdi_ids(allocation: Allocation) -> tuple[tuple[str, str], ...]:
    """Return (request, CDI id) of each request that moves a device, in the claim's order."""
    return tuple(
        (request, cdi_id(allocation.claim, request, allocation.nonce))
        for request in gated_requests(allocation)
    )


def gated_requests(allocation: Allocation) -> tuple[str, ...]:
    """Return the requests whose devices the pod gets; adminAccess results only observe."""
    return tuple(
        dict.fromkeys(device.request for device in allocation.devices if not device.admin_access)
    )


def listed(allocation: Allocation, container: str) -> tuple[str, ...]:
    """Return the requests whose devices the container gets.

    Where no container of the pod lists the claim, as dranet's users often write, all do.
    """
    requests = gated_requests(allocation)
    if not allocation.containers:
        return requests
    named = [user.request for user in allocation.containers if user.container == container]
    if "" in named:
        return requests
    return tuple(request for request in requests if request in named)


def metadata_source(directory: str, claim_uid: str, request: str) -> str:
    """Return the host path of a request's metadata file."""
    return f"{directory}/{claim_uid}/{request}/metadata.json"


def metadata_destination(allocation: Allocation, request: str) -> str:
    """Return where a container sees the request's metadata file."""
    name = allocation.pod_claim_name
    owner = f"resourceclaimtemplates/{name}" if name else f"resourceclaims/{allocation.claim.name}"
    return f"{METADATA_ROOT}/{owner}/{request}/{METADATA_FILE}"


def carried_claims(container: Container, directory: str) -> tuple[str, ...]:
    """Return the UIDs of the claims whose metadata files the container mounts, each once."""
    found: list[str] = []
    for mount in container.mounts:
        rest = mount.source.removeprefix(f"{directory}/")
        if rest != mount.source and rest.endswith("/metadata.json"):
            found.append(rest.split("/", 1)[0])
    return tuple(dict.fromkeys(found))


def carried_namespaces(container: Container) -> tuple[str, ...]:
    """Return the paths of the network namespaces that its CDI files were written for."""
    ours = (mount for mount in container.mounts if mount.destination.startswith(f"{NETNS_ROOT}/"))
    return tuple(dict.fromkeys(mount.source for mount in ours))


def edits(
    allocation: Allocation,
    attachment: Attachment,
    container: Container,
    directory: str,
    options: EditOptions,
) -> Edits:
    """Say what the container must get and does not show yet.

    Args:
        allocation: what the shim recorded; names the containers.
        attachment: where the devices are.
        container: as NRI shows it, with what CDI added.
        directory: the plugin's metadata directory on the host.
        options: the operator's choices.
    """
    requests = listed(allocation, container.name)
    devices = tuple(device for device in attachment.devices if device.request in requests)
    chars = _char_devices(devices)
    env = _environment(allocation, devices) if options.environment else ()
    present = {variable.partition("=")[0] for variable in container.env}
    mounted = {mount.destination for mount in container.mounts}
    mounts = (_metadata_mount(allocation, request, directory) for request in requests)
    return Edits(
        mounts=tuple(mount for mount in mounts if mount.destination not in mounted),
        char_devices=tuple(char for char in chars if char.path not in container.device_paths),
        env=tuple(pair for pair in env if pair[0] not in present),
        rlimits=_rlimits(chars, container, options),
    )


def _char_devices(devices: tuple[AttachedDevice, ...]) -> tuple[CharDevice, ...]:
    """Return the files, each once, with the mode that both encodings shall carry."""
    by_path = {char.path: char for device in devices for char in device.char_devices}
    return tuple(
        char if char.mode is not None else replace(char, mode=CHAR_MODE)
        for _, char in sorted(by_path.items())
    )


def _rlimits(
    chars: tuple[CharDevice, ...], container: Container, options: EditOptions
) -> tuple[Rlimit, ...]:
    if not chars or options.memlock is None or "RLIMIT_MEMLOCK" in container.rlimits:
        return ()
    return (Rlimit("RLIMIT_MEMLOCK", options.memlock, options.memlock),)


def rdma_warnings(
    given: tuple[AttachedDevice, ...], container: Container, wanted: int | None
) -> Iterator[str]:
    """Yield why a container may not be able to use the RDMA device that it gets.

    An RLIMIT_MEMLOCK of the runtime's stays: should another plugin have set it, the runtime would
    refuse the container for ours. In a user namespace runtimes can make no device file: they mount
    the node's, with its mode.

    Args:
        given: the devices that the container gets.
        container: as NRI shows it.
        wanted: RLIMIT_MEMLOCK in bytes of the operator's choice, None for any.
    """
    chars, limit = _char_devices(given), container.memlock
    if chars and wanted is not None and limit is not None and limit < wanted:
        yield (
            f"its soft RLIMIT_MEMLOCK is {limit} bytes, by the runtime's defaults (CRI-O:"
            " default_ulimits; containerd: base_runtime_spec) or another plugin: registering memory"
            " for RDMA fails above that; raise it there, or give the container IPC_LOCK"
        )
    closed = [char.path for char in chars if _ROOT_ONLY.search(char.path)]
    if container.own_users and closed:
        yield (
            f"it has a user namespace, in which {', '.join(closed)} has the node's mode, which is"
            " 0600 by udev's default; set MODE for it by a udev rule on the node, or set hostUsers:"
            " true"
        )


def _environment(
    allocation: Allocation, devices: tuple[AttachedDevice, ...]
) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    claim = allocation.pod_claim_name or allocation.claim.name
    for request in dict.fromkeys(device.request for device in devices):
        of_request = [device for device in devices if device.request == request]
        prefix = f"DRA_NET_{_env_word(claim)}_{_env_word(request)}"
        names = ",".join(device.pod_name for device in of_request if device.pod_name)
        rdma = ",".join(name for device in of_request for name in _rdma_names(device))
        pairs += [(f"{prefix}_IFNAMES", names)] if names else []
        pairs += [(f"{prefix}_RDMA_DEVICES", rdma)] if rdma else []
    return tuple(pairs)


def _rdma_names(device: AttachedDevice) -> tuple[str, ...]:
    if device.rdma_name:
        return (device.rdma_name,)
    if device.child and not device.char_devices:
        return ()  # The network alone: the RDMA device is not the pod's.
    # One that its driver made anew may have another name than when it was allocated.
    now = tuple(link.name for link in device.rdma) or device.shared_rdma
    return now or device.device.rdma_devices


def _env_word(text: str) -> str:
    return _NOT_ENV.sub("_", text.upper())


def _metadata_mount(allocation: Allocation, request: str, directory: str) -> Mount:
    return Mount(
        source=metadata_source(directory, allocation.claim.uid, request),
        destination=metadata_destination(allocation, request),
        options=("ro", "rbind", "rprivate", "nosuid", "nodev", "noexec"),
    )


# --------------------------------------------------------------------------- CDI


def cdi_spec(
    allocation: Allocation, attachment: Attachment, directory: str, options: EditOptions
) -> bytes:
    """Return the CDI spec that opens the gate for this claim in this sandbox.

    Besides what `edits` gives, each device mounts the namespace file of the sandbox it was
    written for, so that a spec that outlived its sandbox cannot start in another one. Device
    nodes carry no numbers: the runtime takes them from the file.
    """
    devices = [
        _cdi_device(allocation, attachment, request, directory, options)
        for request in gated_requests(allocation)
    ]
    spec = {"cdiVersion": CDI_VERSION, "kind": CDI_KIND, "devices": devices}
    return json.dumps(spec, indent=1).encode()


def _cdi_device(
    allocation: Allocation,
    attachment: Attachment,
    request: str,
    directory: str,
    options: EditOptions,
) -> dict[str, object]:
    devices = tuple(device for device in attachment.devices if device.request == request)
    env = _environment(allocation, devices) if options.environment else ()
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
            for mount in (_metadata_mount(allocation, request, directory), netns)
        ],
        "deviceNodes": [_device_node(char) for char in _char_devices(devices)],
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


# --------------------------------------------------------------------------- metadata


def metadata(allocation: Allocation, attachment: Attachment, request: str) -> bytes:
    """Return the DeviceMetadata file of one request: one JSON object per supported version.

    In it an alternative of firstAvailable has its full name, and each its own entry. The scheduler
    gives a request devices of one alternative.
    """
    pools = {device.device.name: device.pool for device in allocation.devices}
    given = [device for device in allocation.devices if device.request == request]
    names = {device.device.name: device.full_request for device in given}
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
    return b"".join(
        json.dumps({"apiVersion": version, **body}).encode() + b"\n"
        for version in METADATA_VERSIONS
    )


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
    """Return the value as the ResourceSlice API writes it."""
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case str():
            return {"string": value}
    return {"version": value.text}


def merged_edits(one: Edits, other: Edits) -> Edits:
    """Return both; what the first has already is left out of the second."""
    paths = {char_device.path for char_device in one.char_devices}
    limits = {rlimit.type for rlimit in one.rlimits}
    return Edits(
        mounts=(*one.mounts, *other.mounts),
        char_devices=(
            *one.char_devices,
            *(char_device for char_device in other.char_devices if char_device.path not in paths),
        ),
        env=(*one.env, *other.env),
        rlimits=(*one.rlimits, *(rlimit for rlimit in other.rlimits if rlimit.type not in limits)),
    )
