"""DRA service: gRPC handlers of Prepare and Unprepare, in each version."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import grpc

from dra_shim._gen.dra_v1_pb2 import (
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from dra_shim.kubeletplugin.messages import (
    VERSIONS,
    DraVersion,
    claims_from,
    prepare_response,
    unprepare_response,
)
from dranet_nri.model import ObjectRef

if TYPE_CHECKING:  # the import would delay the registration
    from dra_shim.prepare import PrepareResult


class Driver(Protocol):
    """Implementation of the calls; no method may raise."""

    async def prepare(
        self, claims: Sequence[ObjectRef], limit_s: float | None = None
    ) -> "Mapping[str, PrepareResult]":
        """Return a result for each claim UID within limit_s seconds."""

    async def unprepare(self, claims: Sequence[ObjectRef]) -> Mapping[str, str]:
        """Return an error for each claim UID, "" for success."""


@dataclass(frozen=True, slots=True)
class Service:
    """One gRPC service.

    Attributes:
        advertised: its name in GetInfo.
        end: ends streams; called before the server stops, which would otherwise wait for them.
    """

    advertised: str
    handler: grpc.GenericRpcHandler
    end: Callable[[], None] = lambda: None


def dra_services(driver: Driver) -> tuple[Service, ...]:
    """Return the DRA plugin's services, the newest first, because the kubelet prefers the first."""
    return tuple(_dra_service(driver, version) for version in VERSIONS)


def _dra_service(driver: Driver, version: DraVersion) -> Service:
    handler = grpc.method_handlers_generic_handler(
        version.service,
        {
            "NodePrepareResources": grpc.unary_unary_rpc_method_handler(
                partial(_prepare, driver, version),
                NodePrepareResourcesRequest.FromString,
                NodePrepareResourcesResponse.SerializeToString,
            ),
            "NodeUnprepareResources": grpc.unary_unary_rpc_method_handler(
                partial(_unprepare, driver),
                NodeUnprepareResourcesRequest.FromString,
                NodeUnprepareResourcesResponse.SerializeToString,
            ),
        },
    )
    return Service(version.advertised, handler)


async def _prepare(
    driver: Driver,
    version: DraVersion,
    request: NodePrepareResourcesRequest,
    call: "grpc.aio.ServicerContext[NodePrepareResourcesRequest, NodePrepareResourcesResponse]",
) -> NodePrepareResourcesResponse:
    claims, errors = claims_from(request.claims)
    return prepare_response(await driver.prepare(claims, call.time_remaining()), version, errors)


async def _unprepare(
    driver: Driver, request: NodeUnprepareResourcesRequest, _: object
) -> NodeUnprepareResourcesResponse:
    claims, errors = claims_from(request.claims)
    # An invalid claim has no record, and an error would keep its pod Terminating.
    return unprepare_response({**dict.fromkeys(errors, ""), **await driver.unprepare(claims)})
