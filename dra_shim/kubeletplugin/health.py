"""Device health, streamed to the kubelet, which shows it in the status of pods (KEP-4680).

Rules:
1. Each message contains all devices: the kubelet regards a missing one as unknown after some time.
2. Changes are sent at once, and unchanged health again before the kubelet's timeout.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import grpc

from dra_shim._gen import dra_health_v1_pb2, dra_health_v1alpha1_pb2
from dra_shim._gen.dra_health_v1_pb2 import (
    HEALTHY,
    UNHEALTHY,
    UNKNOWN,
    DeviceIdentifier,
    NodeWatchResourcesRequest,
    NodeWatchResourcesResponse,
)
from dra_shim._gen.dra_health_v1_pb2 import DeviceHealth as HealthMessage
from dra_shim.kubeletplugin.dra_service import Service

if TYPE_CHECKING:  # the import would delay the registration
    from dra_shim.pool.health_report import HealthReport, HealthSource

REFRESH_S: Final = 10.0  # seconds; the kubelet keeps a state for 30 s (DefaultHealthTimeout)
MAX_MESSAGE: Final = 1024  # characters; the kubelet truncates longer messages
_STATES: Final = {True: HEALTHY, False: UNHEALTHY, None: UNKNOWN}


def health_services(
    source: "HealthSource",
    *,
    refresh_s: float = REFRESH_S,
    wall: Callable[[], float] = time.time,
) -> tuple[Service, ...]:
    """Return the health services; both versions have the same wire format.

    Args:
        source: source of the health of devices.
        refresh_s: seconds after which an unchanged report is sent again.
        wall: Unix seconds.
    """
    names = (
        service.full_name
        for version in (dra_health_v1_pb2, dra_health_v1alpha1_pb2)
        for service in version.DESCRIPTOR.services_by_name.values()
    )
    streams = _Streams(source, refresh_s, wall)
    watch = grpc.unary_stream_rpc_method_handler(
        streams.watch,
        NodeWatchResourcesRequest.FromString,
        NodeWatchResourcesResponse.SerializeToString,
    )
    return tuple(
        Service(
            name,
            grpc.method_handlers_generic_handler(name, {"NodeWatchResources": watch}),
            streams.end,
        )
        for name in names
    )


@dataclass(slots=True)
class _Streams:
    """Open streams.

    Attributes:
        pending: task of each stream that waits for the next report.
        ended: set to end all current streams.
    """

    source: "HealthSource"
    refresh_s: float
    wall: Callable[[], float]
    pending: "set[asyncio.Task[HealthReport]]" = field(default_factory=set)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(
        self, _request: NodeWatchResourcesRequest, _call: object
    ) -> AsyncIterator[NodeWatchResourcesResponse]:
        """Stream reports until the kubelet or the shim ends the call."""
        last: int | None = None
        ended = self.ended
        while not ended.is_set():
            next_report = asyncio.create_task(self._next(last))
            self.pending.add(next_report)
            try:
                report = await next_report
            except asyncio.CancelledError:
                if ended.is_set():
                    return  # gRPC leaves a call open if its task is cancelled
                raise
            finally:
                self.pending.discard(next_report)
            last = report.number
            yield _response(report, int(self.wall()))

    def end(self) -> None:
        """End all streams; a later server has its own."""
        self.ended.set()
        self.ended = asyncio.Event()
        for next_report in self.pending:
            next_report.cancel()

    async def _next(self, last: int | None) -> "HealthReport":
        try:
            return await asyncio.wait_for(self.source.health(last), self.refresh_s)
        except TimeoutError:
            return await self.source.health(None)


def _response(report: "HealthReport", now_s: int) -> NodeWatchResourcesResponse:
    return NodeWatchResourcesResponse(
        devices=[
            HealthMessage(
                device=DeviceIdentifier(pool_name=device.pool, device_name=device.device),
                health=_STATES[device.healthy],
                last_updated_time=now_s,
                message=device.message[:MAX_MESSAGE],
            )
            for device in report.devices
        ]
    )
