"""Self-probe: requests like those of the kubelet, sent through the names of the sockets."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import grpc

from dra_shim._gen.dra_v1_pb2 import NodePrepareResourcesRequest, NodePrepareResourcesResponse
from dra_shim._gen.pluginregistration_v1_pb2 import InfoRequest, PluginInfo
from dra_shim.kubeletplugin.messages import VERSIONS
from dra_shim.kubeletplugin.registration import SERVICE

TIMEOUT_S: Final = 5.0  # seconds for each response
# gRPC shares connections in a process, and retries a failed one only after a second.
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1),)

R = TypeVar("R")


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


async def probe(registration: Path, timeout_s: float = TIMEOUT_S) -> str:
    """Return the error that a kubelet would get, "" if there is none.

    It calls GetInfo at the registration socket, and NodePrepareResources without claims at the
    endpoint of that response, in each version. Each call has a timeout of timeout_s seconds.
    """
    try:
        info = await _call(
            registration, timeout_s, f"/{SERVICE}/GetInfo", InfoRequest(), PluginInfo.FromString
        )
        for version in VERSIONS:
            await _call(
                Path(info.endpoint),
                timeout_s,
                f"/{version.service}/NodePrepareResources",
                NodePrepareResourcesRequest(),
                NodePrepareResourcesResponse.FromString,
            )
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {' '.join((error.details() or '').split())}"
    return ""


async def _call(
    path: Path, timeout_s: float, method: str, request: _Message, read: Callable[[bytes], R]
) -> R:
    target = f"unix:{quote(str(path))}"
    async with grpc.aio.insecure_channel(target, options=_OPTIONS) as channel:
        call = channel.unary_unary(method, type(request).SerializeToString, read)
        return await call(request, timeout=timeout_s)
