"""CRI client: pods and containers by the gRPC interface runtime.v1."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

import grpc

from tests.box import containerd, image
from tests.box._gen import cri_pb2 as pb
from tests.box.waiting import wait_until

LOGS: Final = Path("/tmp/pod-logs")
SLEEP: Final = ("/bin/sleep", "1000000")
UNRESOLVABLE: Final = "unresolvable CDI devices"
INIT_DIED: Final = (
    "waiting for init preliminary setup: read init-p: connection reset by peer"  # runc 1.1
)


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name

    @classmethod
    def FromString(cls, s: bytes) -> Self: ...  # noqa: N802 - protobuf's name


Reply = TypeVar("Reply", bound=_Message)


class CriError(Exception):
    """The runtime refused a call."""

    def __init__(self, call: str, code: str, details: str) -> None:
        super().__init__(f"{call}: {code}: {details}")
        self.call = call
        self.code = code
        self.details = details


@dataclass(frozen=True, slots=True)
class Pod:
    """A sandbox that runs, and the configuration the runtime wants to see with every container."""

    name: str
    namespace: str
    uid: str
    sandbox_id: str
    config: pb.PodSandboxConfig = field(repr=False)


@dataclass(frozen=True, slots=True)
class Mount:
    """One bind mount from the node into a container."""

    source: str
    target: str
    readonly: bool = True


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What a container asks for beyond its name.

    Attributes:
        command: Program and arguments.
        cdi_devices: Qualified CDI names, `vendor/class=device`, as kubelet takes them from DRA.
        env: Environment variables.
        mounts: Bind mounts.
        devices: Device files of the node, at the same path in the container, `rwm`.
        capabilities: Capabilities to add, without CAP_.
        privileged: Run it privileged.
        user: User id of its processes.
    """

    command: tuple[str, ...] = SLEEP
    cdi_devices: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    privileged: bool = False
    user: int = 0


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What one command in a container printed, and how it ended."""

    exit_code: int
    stdout: str
    stderr: str


class Cri:
    """A client of one runtime. Use it as a context manager; every call may raise CriError.

    Args:
        target: gRPC name of a runtime other than this node's, `ADDRESS:PORT`.
    """

    def __init__(
        self, target: str = f"unix://{containerd.SOCKET}", timeout_s: float = 120.0
    ) -> None:
        self._channel = grpc.insecure_channel(target)
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def version(self) -> pb.VersionResponse:
        """Return names and versions of the runtime and its interface."""
        return self._call("Version", pb.VersionRequest(), pb.VersionResponse)

    def pull(self, name: str) -> None:
        """Have the runtime fetch an image from its registry."""
        request = pb.PullImageRequest(image=pb.ImageSpec(image=name))
        self._call("PullImage", request, pb.PullImageResponse, "ImageService")

    def conditions(self) -> dict[str, bool]:
        """Return the runtime's conditions, RuntimeReady and NetworkReady among them."""
        reply = self._call("Status", pb.StatusRequest(), pb.StatusResponse)
        return {condition.type: condition.status for condition in reply.status.conditions}

    def run_pod(
        self,
        name: str,
        *,
        namespace: str = "default",
        uid: str | None = None,
        host_network: bool = False,
        annotations: Mapping[str, str] | None = None,
    ) -> Pod:
        """Start a sandbox; return once the runtime and its plugins have agreed to it.

        What runc fails at by itself now and then, before any plugin is asked, is tried again as
        kubelet does it: with the next number.
        """
        try:
            return self._run_pod(0, name, namespace, uid, annotations, host_network=host_network)
        except CriError as error:
            if INIT_DIED not in str(error):
                raise
        return self._run_pod(1, name, namespace, uid, annotations, host_network=host_network)

    def _run_pod(
        self,
        attempt: int,
        name: str,
        namespace: str,
        uid: str | None,
        annotations: Mapping[str, str] | None,
        *,
        host_network: bool,
    ) -> Pod:
        uid = uid or f"{name}-uid"
        network = pb.NODE if host_network else pb.POD
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(
                name=name, namespace=namespace, uid=uid, attempt=attempt
            ),
            hostname="" if host_network else name,
            log_directory=str(LOGS / uid),
            annotations=dict(annotations or {}),
            linux=pb.LinuxPodSandboxConfig(
                cgroup_parent="/pods",
                security_context=pb.LinuxSandboxSecurityContext(
                    namespace_options=pb.NamespaceOption(network=network, pid=pb.CONTAINER)
                ),
            ),
        )
        (LOGS / uid).mkdir(parents=True, exist_ok=True)
        reply = self._call(
            "RunPodSandbox", pb.RunPodSandboxRequest(config=config), pb.RunPodSandboxResponse
        )
        return Pod(name, namespace, uid, reply.pod_sandbox_id, config)

    def pod_ready(self, pod: Pod) -> bool:
        """Tell whether the sandbox runs."""
        return self._pod_status(pod).status.state == pb.SANDBOX_READY

    def pod_address(self, pod: Pod) -> str:
        """Return the pod's own address, empty with host network."""
        return self._pod_status(pod).status.network.ip

    def netns(self, pod: Pod) -> Path | None:
        """Return the path of the pod's network namespace, None with host network."""
        info = json.loads(self._pod_status(pod).info["info"])
        spaces = info["runtimeSpec"]["linux"]["namespaces"]
        paths = [space.get("path", "") for space in spaces if space["type"] == "network"]
        return Path(paths[0]) if paths and paths[0] else None

    def pods(self) -> tuple[pb.PodSandbox, ...]:
        """Return every sandbox the runtime knows, stopped ones too."""
        reply = self._call("ListPodSandbox", pb.ListPodSandboxRequest(), pb.ListPodSandboxResponse)
        return tuple(reply.items)

    def stop_pod(self, sandbox_id: str) -> None:
        """Stop the sandbox as kubelet does: its containers first, to which CRI-O is gentle."""
        for container in self.containers():
            if container.pod_sandbox_id == sandbox_id:
                self.stop_container(container.id)
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        self._call("StopPodSandbox", request, pb.StopPodSandboxResponse)

    def remove_pod(self, sandbox_id: str) -> None:
        """Remove a stopped sandbox as kubelet does: its containers first.

        containerd that is left to remove them hangs for good if a plugin connects meanwhile: it
        takes the lock that keeps plugins out for the sandbox and, within that, for each container.
        """
        for container in self.containers():
            if container.pod_sandbox_id == sandbox_id:
                self.remove_container(container.id)
        request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        self._call("RemovePodSandbox", request, pb.RemovePodSandboxResponse)

    def remove_all(self) -> None:
        """Stop and remove every sandbox."""
        for pod in self.pods():
            self.stop_pod(pod.id)
            self.remove_pod(pod.id)

    def create_container(
        self,
        pod: Pod,
        name: str = "main",
        spec: ContainerSpec = ContainerSpec(),
    ) -> str:
        """Create a container without starting it; return its id."""
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image=image.NAME),
            command=spec.command,
            envs=[pb.KeyValue(key=key, value=value) for key, value in spec.env.items()],
            mounts=[
                pb.Mount(container_path=m.target, host_path=m.source, readonly=m.readonly)
                for m in spec.mounts
            ],
            devices=[
                pb.Device(container_path=path, host_path=path, permissions="rwm")
                for path in spec.devices
            ],
            log_path=f"{name}.log",
            linux=pb.LinuxContainerConfig(
                security_context=pb.LinuxContainerSecurityContext(
                    capabilities=pb.Capability(add_capabilities=spec.capabilities),
                    privileged=spec.privileged,
                    run_as_user=pb.Int64Value(value=spec.user),
                    namespace_options=pod.config.linux.security_context.namespace_options,
                )
            ),
            CDI_devices=[pb.CDIDevice(name=name) for name in spec.cdi_devices],
        )
        request = pb.CreateContainerRequest(
            pod_sandbox_id=pod.sandbox_id, config=config, sandbox_config=pod.config
        )
        reply = self._call("CreateContainer", request, pb.CreateContainerResponse)
        return reply.container_id

    def start_container(self, container_id: str) -> None:
        """Start a created container."""
        request = pb.StartContainerRequest(container_id=container_id)
        self._call("StartContainer", request, pb.StartContainerResponse)

    def run_container_once(
        self,
        pod: Pod,
        name: str = "main",
        spec: ContainerSpec = ContainerSpec(),
    ) -> str:
        """Create and start a container; return its id.

        Raises:
            CriError: It is refused, for example because a CDI spec is missing.
        """
        container_id = self.create_container(pod, name, spec)
        self.start_container(container_id)
        return container_id

    def run_container(
        self,
        pod: Pod,
        name: str = "main",
        spec: ContainerSpec = ContainerSpec(),
    ) -> str:
        """Create and start a container whose CDI specs are there; return its id.

        Runtimes learn of a new spec by inotify, a moment after it was written. Until then they
        refuse the container, and kubelet tries again.
        """
        made: list[str] = []

        def tried() -> bool:
            try:
                made.append(self.run_container_once(pod, name, spec))
            except CriError as error:
                if UNRESOLVABLE not in error.details:
                    raise
            return bool(made)

        wait_until(f"the runtime to find {spec.cdi_devices}", tried)
        return made[0]

    def exec(self, container_id: str, *command: str) -> ExecResult:
        """Run a command in a container; a non-zero exit is a result, not an error."""
        request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=60)
        reply = self._call("ExecSync", request, pb.ExecSyncResponse)
        return ExecResult(reply.exit_code, reply.stdout.decode(), reply.stderr.decode())

    def container_state(self, container_id: str) -> str:
        """Return `CONTAINER_CREATED`, `_RUNNING`, `_EXITED` or `_UNKNOWN`."""
        status = self.container_status(container_id)
        return pb.ContainerState.Name(status.state)

    def container_status(self, container_id: str) -> pb.ContainerStatus:
        """Return state, exit code and reason of a container."""
        request = pb.ContainerStatusRequest(container_id=container_id)
        return self._call("ContainerStatus", request, pb.ContainerStatusResponse).status

    def containers(self) -> tuple[pb.Container, ...]:
        """Return every container the runtime knows, in every state."""
        reply = self._call("ListContainers", pb.ListContainersRequest(), pb.ListContainersResponse)
        return tuple(reply.containers)

    def stop_container(self, container_id: str, grace_s: int = 0) -> None:
        """Stop a container; it is killed after grace_s."""
        request = pb.StopContainerRequest(container_id=container_id, timeout=grace_s)
        self._call("StopContainer", request, pb.StopContainerResponse)

    def remove_container(self, container_id: str) -> None:
        """Remove a container, running or not."""
        request = pb.RemoveContainerRequest(container_id=container_id)
        self._call("RemoveContainer", request, pb.RemoveContainerResponse)

    def container_log(self, pod: Pod, name: str = "main") -> str:
        """Return what a container printed so far, in the CRI log format."""
        log = LOGS / pod.uid / f"{name}.log"
        return log.read_text() if log.exists() else ""

    def _pod_status(self, pod: Pod) -> pb.PodSandboxStatusResponse:
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox_id, verbose=True)
        return self._call("PodSandboxStatus", request, pb.PodSandboxStatusResponse)

    def _call(
        self, call: str, request: _Message, reply: type[Reply], service: str = "RuntimeService"
    ) -> Reply:
        method: Callable[..., Reply] = self._channel.unary_unary(
            f"/runtime.v1.{service}/{call}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        try:
            return method(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            raise CriError(call, error.code().name, error.details() or "") from error
