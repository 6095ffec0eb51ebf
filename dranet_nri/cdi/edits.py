"""Container edits of an attached claim, for NRI and for CDI.

`edits` returns the edits of an NRI adjustment; `spec.cdi_spec` writes the same as a CDI spec.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dranet_nri.cdi.names import metadata_destination, metadata_source, requests_of
from dranet_nri.component.replace import replace
from dranet_nri.model import (
    Allocation,
    AttachedDevice,
    Attachment,
    CharDevice,
    Container,
    Edits,
    Mount,
    Rlimit,
)

RLIM_INFINITY: Final = 2**64 - 1
CHAR_MODE: Final = 0o666  # for containers that do not run as root; umad and issm are 0600 on hosts

_NOT_ENV: Final = re.compile(r"[^A-Z0-9]")
_ROOT_ONLY: Final = re.compile(r"/(umad|issm)[0-9]+$")


@dataclass(frozen=True, slots=True)
class EditOptions:
    """The operator's settings of container edits.

    Attributes:
        memlock: RLIMIT_MEMLOCK in bytes for containers with an RDMA device, None to keep it.
        environment: whether the environment gets interface and RDMA device names.
    """

    memlock: int | None = RLIM_INFINITY
    environment: bool = True


def edits(
    allocation: Allocation,
    attachment: Attachment,
    container: Container,
    directory: str,
    options: EditOptions,
) -> Edits:
    """Return the edits that the container does not have yet.

    Args:
        allocation: allocation of the claim, with its containers.
        attachment: attachment of the claim.
        container: as reported by NRI, with the edits of CDI.
        directory: the plugin's metadata directory on the host.
        options: options of the operator.
    """
    requests = requests_of(allocation, container.name)
    devices = tuple(device for device in attachment.devices if device.request in requests)
    chars = device_files(devices)
    env = environment_of(allocation, devices) if options.environment else ()
    present = {variable.partition("=")[0] for variable in container.env}
    mounted = {mount.destination for mount in container.mounts}
    mounts = (metadata_mount(allocation, request, directory) for request in requests)
    return Edits(
        mounts=tuple(mount for mount in mounts if mount.destination not in mounted),
        char_devices=tuple(char for char in chars if char.path not in container.device_paths),
        env=tuple(pair for pair in env if pair[0] not in present),
        rlimits=_rlimits(chars, container, options),
    )


def device_files(devices: tuple[AttachedDevice, ...]) -> tuple[CharDevice, ...]:
    """Return the distinct device files, with the mode for both encodings."""
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
    devices: tuple[AttachedDevice, ...], container: Container, memlock: int | None
) -> Iterator[str]:
    """Yield reasons why a container may not be able to use its RDMA device.

    An existing RLIMIT_MEMLOCK is kept: if another plugin set it, the runtime would refuse the
    container for a second value. In a user namespace runtimes cannot create device files: they
    mount the node's, with its mode.

    Args:
        devices: devices of the container.
        container: as reported by NRI.
        memlock: RLIMIT_MEMLOCK in bytes of the operator, None for any.
    """
    chars, limit = device_files(devices), container.memlock
    if chars and memlock is not None and limit is not None and limit < memlock:
        yield (
            f"its soft RLIMIT_MEMLOCK is {limit} bytes, by the runtime's defaults (CRI-O:"
            " default_ulimits; containerd: base_runtime_spec) or another plugin: registering memory"
            " for RDMA fails above that; raise it there, or give the container IPC_LOCK"
        )
    root_only = [char.path for char in chars if _ROOT_ONLY.search(char.path)]
    if container.own_users and root_only:
        yield (
            f"it has a user namespace, in which {', '.join(root_only)} has the node's mode, which"
            " is 0600 by udev's default; set MODE for it by a udev rule on the node, or set"
            " hostUsers to true"
        )


def environment_of(
    allocation: Allocation, devices: tuple[AttachedDevice, ...]
) -> tuple[tuple[str, str], ...]:
    """Return (name, value) of the environment variables: comma-separated names by request."""
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
        return ()  # the pod has the network only
    # A recreated device may have another name than at allocation.
    current = tuple(link.name for link in device.rdma) or device.shared_rdma
    return current or device.device.rdma_devices


def _env_word(text: str) -> str:
    return _NOT_ENV.sub("_", text.upper())


def metadata_mount(allocation: Allocation, request: str, directory: str) -> Mount:
    """Return the mount of a request's metadata file; directory is the plugin's on the host."""
    return Mount(
        source=metadata_source(directory, allocation.claim.uid, request),
        destination=metadata_destination(allocation, request),
        options=("ro", "rbind", "rprivate", "nosuid", "nodev", "noexec"),
    )


def merged_edits(one: Edits, other: Edits) -> Edits:
    """Return the union; the first one's values take precedence."""
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
