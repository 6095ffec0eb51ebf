"""A kubelet as a DRA driver meets it: plugin watcher, registration, the calls and what it makes of
their answers. Modelled on Kubernetes 1.32 to 1.37.

It looks at the registry when a test says so; the real one is told by inotify and looks each second.
"""

import stat
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import grpc

from dra_shim._gen import (
    dra_health_v1_pb2,
    dra_health_v1alpha1_pb2,
    dra_v1_pb2,
    dra_v1beta1_pb2,
)
from dra_shim._gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dranet_nri.model import ObjectRef

CALL_S: Final = 45.0  # defaultClientCallTimeout
GET_INFO_TIMEOUT_S: Final = 20.0  # for GetInfo; a real one has 1 s, and a test machine may be busy
OF_1_37: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
OF_1_33: Final = ("v1beta1.DRAPlugin",)

_MESSAGES: Final[Mapping[str, Any]] = {
    "v1.DRAPlugin": dra_v1_pb2,
    "v1beta1.DRAPlugin": dra_v1beta1_pb2,
}
_HEALTH: Final[Mapping[str, Any]] = {
    "v1.DRAResourceHealth": dra_health_v1_pb2,
    "v1alpha1.DRAResourceHealth": dra_health_v1alpha1_pb2,
}
# A connection of another test, or of another kubelet, does not count.
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1),)


Identity = tuple[int, int]  # inode and time: what tells a socket from one made later


class PrepareError(Exception):
    """What the kubelet writes into the event FailedPrepareDynamicResources."""


@dataclass(slots=True)
class Plugin:
    """A registered plugin."""

    socket: Path
    identity: Identity
    endpoint: str
    service: str
    health: str
    channel: grpc.aio.Channel


@dataclass(slots=True)
class FakeKubelet:
    """One kubelet.

    Attributes:
        root: its directory.
        services: DRA services that it knows, the best first.
        health: health services that it knows, the best first.
        refusal: what keeps it from registering anybody, "" for nothing.
        forgets_failures: it is one of 1.36 or later, and tries again where registering failed;
            the older ones do so only when the socket is made anew.
        appends: it is one of 1.36.3 or older, and appends what Prepare answers to its checkpoint
            (kubernetes issue 140471); the newer ones put it in place of what was there.
        checkpoint: devices of prepared claims by UID; they survive a restart and a reboot.
        plugins: registered ones by driver name.
        infos: what GetInfo said, in order.
        trouble: why plugins are not registered, in order.
    """

    root: Path
    services: Sequence[str] = OF_1_37
    health: Sequence[str] = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
    refusal: str = ""
    forgets_failures: bool = True
    appends: bool = False
    checkpoint: dict[str, list[Any]] = field(default_factory=dict)
    plugins: dict[str, Plugin] = field(default_factory=dict)
    infos: list[PluginInfo] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    _given_up: set[Identity] = field(default_factory=set)

    @property
    def registry(self) -> Path:
        """Return the directory that it watches."""
        return self.root / "plugins_registry"

    def start(self) -> None:
        """Make its directories."""
        self.registry.mkdir(parents=True, exist_ok=True)
        (self.root / "plugins").mkdir(exist_ok=True)

    async def restart(self) -> None:
        """Forget everything in memory, as a new process has nothing."""
        for name in list(self.plugins):
            await self._unregister(name)
        self._given_up.clear()

    async def look(self) -> None:
        """Take in what happened in the registry: what is gone or new, then what is there."""
        found = dict(self._sockets())
        for name, plugin in list(self.plugins.items()):
            if found.get(plugin.socket) != plugin.identity:
                await self._unregister(name)
        sockets = {plugin.socket for plugin in self.plugins.values()}
        for path, identity in found.items():
            if path not in sockets and identity not in self._given_up:
                await self._register(path, identity)

    def _sockets(self) -> list[tuple[Path, Identity]]:
        found = []
        for path in sorted(self.registry.iterdir()):
            about = path.lstat()
            if stat.S_ISSOCK(about.st_mode) and not path.name.startswith("."):
                found.append((path, (about.st_ino, about.st_mtime_ns)))
        return found

    async def _register(self, path: Path, identity: Identity) -> None:
        async with _channel(str(path)) as channel:
            try:
                info = await _call(
                    channel,
                    "/pluginregistration.Registration/GetInfo",
                    InfoRequest(),
                    PluginInfo,
                    GET_INFO_TIMEOUT_S,
                )
            except grpc.aio.AioRpcError as error:
                self.trouble.append(f"failed to get plugin info: {error.code().name}")
                return
            self.infos.append(info)
            reason = self._fault(info)
            if not reason:
                service = next(
                    version for version in info.supported_versions if version in self.services
                )
                advertised = set(info.supported_versions)
                health = next((state for state in self.health if state in advertised), "")
                self.plugins[info.name] = Plugin(
                    path, identity, info.endpoint, service, health, _channel(info.endpoint)
                )
            elif not self.forgets_failures:
                self._given_up.add(identity)
            await self._notify(channel, info.name, identity, reason)

    async def _notify(
        self, channel: grpc.aio.Channel, name: str, identity: Identity, reason: str
    ) -> None:
        if reason:
            self.trouble.append(reason)
        try:
            await _call(
                channel,
                "/pluginregistration.Registration/NotifyRegistrationStatus",
                RegistrationStatus(plugin_registered=not reason, error=reason),
                RegistrationStatusResponse,
                GET_INFO_TIMEOUT_S,
            )
        except grpc.aio.AioRpcError as error:
            self.trouble.append(f"failed to send registration status: {error.code().name}")
            if name in self.plugins:
                await self._unregister(name)
            if not self.forgets_failures:
                self._given_up.add(identity)

    def _fault(self, info: PluginInfo) -> str:
        if info.type != "DRAPlugin":
            return f"no handler registered for plugin type: {info.type}"
        if not info.supported_versions:
            return "empty list of supported gRPC services (aka supported versions)"
        if not set(info.supported_versions) & set(self.services):
            return f"none of services supported by the plugin are supported: {self.services}"
        if any(plugin.endpoint == info.endpoint for plugin in self.plugins.values()):
            return f"endpoint {info.endpoint} already registered"
        return self.refusal

    async def _unregister(self, name: str) -> None:
        await self.plugins.pop(name).channel.close()

    # ------------------------------------------------------------------- calls

    async def prepare(
        self, *claims: ObjectRef, driver: str = "dra.net", timeout_s: float = CALL_S
    ) -> dict[str, list[Any]]:
        """Call NodePrepareResources; return the devices of each claim by UID.

        Raises:
            PrepareError: what the pod's event would say.
        """
        answered = await self._ask("Prepare", claims, driver, timeout_s)
        given = {uid: list(answer.devices) for uid, answer in answered.items()}
        for uid, devices in given.items():
            self.checkpoint[uid] = (self.checkpoint.get(uid, []) if self.appends else []) + devices
        return given

    async def unprepare(self, *claims: ObjectRef, driver: str = "dra.net") -> None:
        """Call NodeUnprepareResources.

        Raises:
            PrepareError: what keeps the pod from ending.
        """
        await self._ask("Unprepare", claims, driver, CALL_S)
        for claim in claims:
            self.checkpoint.pop(claim.uid, None)

    async def _ask(
        self, verb: str, claims: Sequence[ObjectRef], driver: str, timeout_s: float
    ) -> dict[str, Any]:
        answered = await self.answers(verb, claims, driver, timeout_s)
        requested = {claim.uid: claim for claim in claims}
        for uid, answer in answered.items():
            if uid not in requested:
                raise PrepareError(
                    f"Node{verb}Resources returned result for unknown claim UID {uid}"
                )
            if answer.error:
                raise PrepareError(
                    f"Node{verb}Resources failed for ResourceClaim {requested[uid].name}: "
                    f"{answer.error}"
                )
        if len(answered) != len(claims):
            missing = len(claims) - len(answered)
            raise PrepareError(f"Node{verb}Resources skipped {missing} ResourceClaims")
        return answered

    async def answers(
        self,
        verb: str,
        claims: Sequence[ObjectRef],
        driver: str = "dra.net",
        timeout_s: float = CALL_S,
    ) -> dict[str, Any]:
        """Return the entries of an answer by claim UID, whatever they say."""
        if driver not in self.plugins:
            raise PrepareError(f"DRA driver {driver} is not registered")
        plugin = self.plugins[driver]
        messages = _MESSAGES[plugin.service]
        request = getattr(messages, f"Node{verb}ResourcesRequest")(
            claims=[
                messages.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name)
                for claim in claims
            ]
        )
        try:
            response = await _call(
                plugin.channel,
                f"/k8s.io.kubelet.pkg.apis.dra.{plugin.service}/Node{verb}Resources",
                request,
                getattr(messages, f"Node{verb}ResourcesResponse"),
                timeout_s,
            )
        except grpc.aio.AioRpcError as error:
            raise PrepareError(f"Node{verb}Resources: rpc error: {error.code().name}") from error
        return dict(response.claims)

    # ------------------------------------------------------------------- health

    async def watch_health(self, driver: str = "dra.net") -> AsyncGenerator[list[Any]]:
        """Yield what the driver says of its devices, each time all of them.

        Raises:
            PrepareError: the driver does not advertise the service.
        """
        plugin = self.plugins[driver]
        if not plugin.health:
            raise PrepareError(f"DRA driver {driver} tells no health")
        messages = _HEALTH[plugin.health]
        stream = plugin.channel.unary_stream(
            f"/{plugin.health}/NodeWatchResources",
            messages.NodeWatchResourcesRequest.SerializeToString,
            messages.NodeWatchResourcesResponse.FromString,
        )(messages.NodeWatchResourcesRequest())
        try:
            async for response in stream:
                yield list(response.devices)
        finally:
            stream.cancel()


def cdi_devices(devices: Sequence[Any], request: str = "") -> list[str]:
    """Return the CDI ids of a container that lists a claim, or one request of it."""
    return [
        cdi_id
        for device in devices
        if not request or not device.request_names or request in device.request_names
        for cdi_id in device.cdi_device_ids
    ]


def _channel(path: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"unix:{quote(path)}", options=_OPTIONS)


async def _call(
    channel: grpc.aio.Channel, method: str, request: Any, response: Any, timeout_s: float
) -> Any:
    stub = channel.unary_unary(method, type(request).SerializeToString, response.FromString)
    return await stub(request, timeout=timeout_s)
