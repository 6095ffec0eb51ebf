"""Self-probe: requests as the kubelet's, sent through the names of the sockets."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import grpc

from dra_shim._gen.dra_v1_pb2 import NodePrepareResourcesRequest, NodePrepareResourcesResponse
from dra_shim._gen.pluginregistration_v1_pb2 import InfoRequest, PluginInfo
from dra_shim.kubeletplugin.messages import VERSIONS
from dra_shim.kubeletplugin.registration import SERVICE

TIMEOUT_S: Final = 5.0  # for each answer
# gRPC keeps connections for a process, also one that failed, which is not tried again for a second.
_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1),)

R = TypeVar("R")


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


async def probe(registration: Path, timeout_s: float = TIMEOUT_S) -> str:
    """Return what is wrong, "" if a kubelet would get its answers.

    It calls GetInfo at the registration socket, and NodePrepareResources without claims at the
    endpoint named there, in each version. Each answer may take timeout_s seconds.
    """
    try:
        info = await _called(
            registration, timeout_s, f"/{SERVICE}/GetInfo", InfoRequest(), PluginInfo.FromString
        )
        for version in VERSIONS:
            await _called(
                Path(info.endpoint),
                timeout_s,
                f"/{version.service}/NodePrepareResources",
                NodePrepareResourcesRequest(),
                NodePrepareResourcesResponse.FromString,
            )
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {' '.join((error.details() or '').split())}"
    return ""


async def _called(
    path: Path, timeout_s: float, method: str, request: _Message, read: Callable[[bytes], R]
) -> R:
    target = f"unix:{quote(str(path))}"
    async with grpc.aio.insecure_channel(target, options=_OPTIONS) as channel:
        call = channel.unary_unary(method, type(request).SerializeToString, read)
        return await call(request, timeout=timeout_s)
