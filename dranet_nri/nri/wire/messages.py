"""NRI messages as values, decoded and encoded.

Rules:
1. Unknown fields of a newer runtime are skipped, absent fields of an older one are empty.
2. An adjustment has each key once, from the first entry: a runtime treats a second one as a
   conflict and refuses the container.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from dranet_nri._gen import nri_pb2
from dranet_nri.errors import InvalidValueError, ProtocolError
from dranet_nri.model import CharDevice, Container, Edits, Mount, Pod
from dranet_nri.nri.wire.limits import SMALLEST_ENTRY, count_entries, split_entries

PLUGIN_SERVICE: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"
NRI_VERSION: Final = "v0.12.2"  # implemented protocol version, sent at registration

# RunPodSandbox, StopPodSandbox, RemovePodSandbox, CreateContainer: bit (event - 1) of each. Every
# NRI since 0.2 has these. 0 would subscribe to everything, an unknown bit ends the registration.
EVENT_MASK: Final = 0x0F

# Pods and containers in all pieces of one list, or messages nested in another request. An empty one
# takes two bytes on the wire and hundreds in memory, so that a byte limit alone does not suffice.
MAX_ENTRIES: Final = 1 << 18

_PERMISSIONS: Final = 0o7777  # a file mode without the file's type


class PodEventKind(StrEnum):
    """Kinds of sandbox events; the values are the names of the rpcs."""

    RUN = "RunPodSandbox"
    STOP = "StopPodSandbox"
    REMOVE = "RemovePodSandbox"


@dataclass(frozen=True, slots=True)
class ConfigureRequest:
    """Configure. Timeouts in milliseconds, 0 before NRI 0.7; nri_version "" before 0.12."""

    config: str
    runtime_name: str
    runtime_version: str
    nri_version: str
    request_timeout_ms: int


@dataclass(frozen=True, slots=True)
class SynchronizeRequest:
    """One piece of the existing sandboxes; containers are not read.

    Attributes:
        more: whether another piece follows.
        entries: pods and containers in it, and messages nested in its other large parts.
        size: bytes of the pods on the wire.
    """

    pods: tuple[Pod, ...]
    more: bool
    entries: int
    size: int


@dataclass(frozen=True, slots=True)
class PodRequest:
    """Run-, Stop- or RemovePodSandbox, or StateChange with that event."""

    kind: PodEventKind
    pod: Pod


@dataclass(frozen=True, slots=True)
class CreateContainerRequest:
    """CreateContainer."""

    pod: Pod
    container: Container


@dataclass(frozen=True, slots=True)
class IdleRequest:
    """A request without work for the plugin: not subscribed to, without a pod, or Shutdown."""


Request = ConfigureRequest | SynchronizeRequest | PodRequest | CreateContainerRequest | IdleRequest

_PodMessage = (
    nri_pb2.RunPodSandboxRequest | nri_pb2.StopPodSandboxRequest | nri_pb2.RemovePodSandboxRequest
)
_ContainerMessage = (
    nri_pb2.PostCreateContainerRequest
    | nri_pb2.StartContainerRequest
    | nri_pb2.PostStartContainerRequest
    | nri_pb2.UpdateContainerRequest
    | nri_pb2.PostUpdateContainerRequest
    | nri_pb2.StopContainerRequest
    | nri_pb2.RemoveContainerRequest
)
_OtherMessage = (
    nri_pb2.Empty
    | nri_pb2.UpdatePodSandboxRequest
    | nri_pb2.PostUpdatePodSandboxRequest
    | nri_pb2.ValidateContainerAdjustmentRequest
)
_Message = (
    nri_pb2.ConfigureRequest
    | nri_pb2.SynchronizeRequest
    | nri_pb2.StateChangeEvent
    | nri_pb2.CreateContainerRequest
    | _PodMessage
    | _ContainerMessage
    | _OtherMessage
)

_MESSAGES: Final[dict[str, type[_Message]]] = {
    "Configure": nri_pb2.ConfigureRequest,
    "Synchronize": nri_pb2.SynchronizeRequest,
    "Shutdown": nri_pb2.Empty,
    "RunPodSandbox": nri_pb2.RunPodSandboxRequest,
    "UpdatePodSandbox": nri_pb2.UpdatePodSandboxRequest,
    "PostUpdatePodSandbox": nri_pb2.PostUpdatePodSandboxRequest,
    "StopPodSandbox": nri_pb2.StopPodSandboxRequest,
    "RemovePodSandbox": nri_pb2.RemovePodSandboxRequest,
    "CreateContainer": nri_pb2.CreateContainerRequest,
    "PostCreateContainer": nri_pb2.PostCreateContainerRequest,
    "StartContainer": nri_pb2.StartContainerRequest,
    "PostStartContainer": nri_pb2.PostStartContainerRequest,
    "UpdateContainer": nri_pb2.UpdateContainerRequest,
    "PostUpdateContainer": nri_pb2.PostUpdateContainerRequest,
    "StopContainer": nri_pb2.StopContainerRequest,
    "RemoveContainer": nri_pb2.RemoveContainerRequest,
    "StateChange": nri_pb2.StateChangeEvent,
    "ValidateContainerAdjustment": nri_pb2.ValidateContainerAdjustmentRequest,
}
PLUGIN_METHODS: Final = frozenset(_MESSAGES)
LARGE_METHODS: Final = frozenset({"Synchronize"})

_STATE_CHANGES: Final[dict[int, PodEventKind]] = {
    nri_pb2.RUN_POD_SANDBOX: PodEventKind.RUN,
    nri_pb2.STOP_POD_SANDBOX: PodEventKind.STOP,
    nri_pb2.REMOVE_POD_SANDBOX: PodEventKind.REMOVE,
}


class TooManyError(ProtocolError):
    """A request has more entries than the limit."""


def decode_request(method: str, payload: bytes, limit: int = MAX_ENTRIES) -> Request:
    """Return the decoded request.

    Args:
        method: one of PLUGIN_METHODS.
        payload: the serialized request message.
        limit: maximum of pods and containers in a list, or of messages nested in another request.

    Raises:
        TooManyError: the limit is exceeded.
        ProtocolError: payload is not the method's request message.
    """
    try:
        if method in LARGE_METHODS:
            return _decode_list(payload, limit)
        _count_nested(method, _MESSAGES[method], payload, limit)
        message = _MESSAGES[method].FromString(payload)
    except DecodeError as error:
        raise ProtocolError(f"{method}: the payload cannot be decoded: {error}") from error
    match message:
        case nri_pb2.ConfigureRequest():
            return _configure_from_message(message)
        case nri_pb2.StateChangeEvent():
            return _pod_request(_STATE_CHANGES.get(message.event), message)
        case nri_pb2.CreateContainerRequest():
            return CreateContainerRequest(
                pod_from_message(message.pod), container_from_message(message.container)
            )
        case (
            nri_pb2.RunPodSandboxRequest()
            | nri_pb2.StopPodSandboxRequest()
            | nri_pb2.RemovePodSandboxRequest()
        ):
            return _pod_request(PodEventKind(method), message)
        case _:
            return IdleRequest()


def _count_nested(method: str, message: type[Message], data: bytes, limit: int) -> int:
    """Return the number of messages nested in data, 0 if data is too short to exceed the limit.

    Raises:
        TooManyError: the limit is exceeded.
    """
    if len(data) <= limit * SMALLEST_ENTRY:
        return 0
    found = count_entries(message, data, limit)
    if found > limit:
        raise TooManyError(f"{method}: more than {limit} nested messages")
    return found


def _decode_list(payload: bytes, limit: int) -> SynchronizeRequest:
    """Return a piece of a list; containers are not decoded, to save memory."""
    listed = nri_pb2.SynchronizeRequest
    pods, others, entries = split_entries(
        payload, listed.PODS_FIELD_NUMBER, listed.CONTAINERS_FIELD_NUMBER, limit
    )
    if entries > limit:
        raise TooManyError(f"Synchronize: more than {limit} pods and containers")
    size = sum(map(len, pods)) + len(others)
    entries += _count_nested("Synchronize", listed, others, limit)
    message = listed.FromString(others)
    found = []
    for data in pods:
        entries += _count_nested("Synchronize", nri_pb2.PodSandbox, data, limit)
        found.append(pod_from_message(nri_pb2.PodSandbox.FromString(data)))
    found.extend(map(pod_from_message, message.pods))
    return SynchronizeRequest(tuple(found), message.more, entries, size)


def _configure_from_message(message: nri_pb2.ConfigureRequest) -> ConfigureRequest:
    return ConfigureRequest(
        config=message.config,
        runtime_name=message.runtime_name,
        runtime_version=message.runtime_version,
        nri_version=message.NRI_version,
        request_timeout_ms=message.request_timeout,
    )


def _pod_request(
    kind: PodEventKind | None, message: nri_pb2.StateChangeEvent | _PodMessage
) -> PodRequest | IdleRequest:
    if kind is None or not message.HasField("pod"):
        return IdleRequest()
    return PodRequest(kind, pod_from_message(message.pod))


def pod_from_message(message: nri_pb2.PodSandbox) -> Pod:
    """Return the pod; its netns path is that of the first "network" entry with a path."""
    namespaces = message.linux.namespaces
    paths = (entry.path for entry in namespaces if entry.type == "network" and entry.path)
    return Pod(
        sandbox_id=message.id,
        uid=message.uid,
        namespace=message.namespace,
        name=message.name,
        netns_path=next(paths, ""),
        pid=message.pid,
        handler=message.runtime_handler,
    )


def container_from_message(message: nri_pb2.Container) -> Container:
    """Return the container, with the fields that the plugin uses."""
    return Container(
        id=message.id,
        sandbox_id=message.pod_sandbox_id,
        name=message.name,
        mounts=tuple(
            Mount(mount.source, mount.destination, tuple(mount.options), mount.type)
            for mount in message.mounts
        ),
        device_paths=tuple(device.path for device in message.linux.devices),
        env=tuple(message.env),
        rlimits=tuple(limit.type for limit in message.rlimits),
        own_users=any(entry.type == "user" for entry in message.linux.namespaces),
        memlock=next(
            (limit.soft for limit in message.rlimits if limit.type == "RLIMIT_MEMLOCK"), None
        ),
    )


def encode_configure(events: int) -> bytes:
    """Return the serialized answer to Configure."""
    return nri_pb2.ConfigureResponse(events=events).SerializeToString()


def encode_synchronize(*, more: bool) -> bytes:
    """Return the serialized answer to a piece of Synchronize; `more` echoes the request."""
    return nri_pb2.SynchronizeResponse(more=more).SerializeToString()


def encode_register(name: str, idx: str, nri_version: str) -> bytes:
    """Return the serialized RegisterPlugin request."""
    return nri_pb2.RegisterPluginRequest(
        plugin_name=name, plugin_idx=idx, NRI_version=nri_version
    ).SerializeToString()


def encode_create_container(edits: Edits) -> bytes:
    """Return the serialized answer to CreateContainer, empty without edits.

    Raises:
        InvalidValueError: a value does not fit the message.
    """
    if edits == Edits():
        return b""
    return nri_pb2.CreateContainerResponse(adjust=encode_adjustment(edits)).SerializeToString()


def encode_adjustment(edits: Edits) -> nri_pb2.ContainerAdjustment:
    """Return edits as an NRI ContainerAdjustment.

    The runtime adds the cgroup rule of a device. Mode, owner and group of a device are sent only if
    they are not None.

    Raises:
        InvalidValueError: a number is out of its field's range, or a string is not valid UTF-8.
    """
    try:
        adjustment = nri_pb2.ContainerAdjustment(
            mounts=[
                nri_pb2.Mount(
                    destination=mount.destination,
                    type=mount.type,
                    source=mount.source,
                    options=mount.options,
                )
                for mount in _first_by_key(edits.mounts, lambda mount: mount.destination)
            ],
            env=[
                nri_pb2.KeyValue(key=key, value=value)
                for key, value in _first_by_key(edits.env, lambda item: item[0])
            ],
            rlimits=[
                nri_pb2.POSIXRlimit(type=limit.type, hard=limit.hard, soft=limit.soft)
                for limit in _first_by_key(edits.rlimits, lambda limit: limit.type)
            ],
        )
        for device in _first_by_key(edits.char_devices, lambda device: device.path):
            adjustment.linux.devices.append(_encode_device(device))
    except ValueError as error:
        raise InvalidValueError(f"the container's edits cannot be sent: {error}") from error
    return adjustment


def _encode_device(device: CharDevice) -> nri_pb2.LinuxDevice:
    message = nri_pb2.LinuxDevice(
        path=device.path, type="c", major=device.major, minor=device.minor
    )
    if device.mode is not None:
        message.file_mode.value = device.mode & _PERMISSIONS
    if device.uid is not None:
        message.uid.value = device.uid
    if device.gid is not None:
        message.gid.value = device.gid
    return message


_Item = TypeVar("_Item")


def _first_by_key(items: Iterable[_Item], key: Callable[[_Item], Hashable]) -> list[_Item]:
    first: dict[Hashable, _Item] = {}
    for item in items:
        first.setdefault(key(item), item)
    return list(first.values())
