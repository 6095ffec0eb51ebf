"""Registration service: GetInfo for the kubelet, and the result of the registration.

Rules:
1. GetInfo returns constants, because the kubelet waits only one second.
2. The result is always accepted: a kubelet before 1.36 that gets an error never retries.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from dra_shim._gen.pluginregistration_v1_pb2 import (
    DESCRIPTOR,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dranet_nri.component.notice import LogLine, LogNotice

SERVICE: Final = DESCRIPTOR.services_by_name["Registration"].full_name
PLUGIN_TYPE: Final = "DRAPlugin"


@dataclass(frozen=True, slots=True)
class RegistrationResult(LogNotice):
    """Result of a registration; reason is the kubelet's error, "" after success."""

    reason: str = ""

    def line(self) -> LogLine:
        """Return the log line."""
        if self.reason:
            return LogLine("error", "not registered", {"reason": self.reason})
        return LogLine("info", "registered")


def plugin_info(driver: str, endpoint: Path, advertised: Sequence[str]) -> PluginInfo:
    """Return the GetInfo response."""
    return PluginInfo(
        type=PLUGIN_TYPE, name=driver, endpoint=str(endpoint), supported_versions=advertised
    )


def registration_handler(
    info: PluginInfo, on_result: Callable[[RegistrationResult], None]
) -> grpc.GenericRpcHandler:
    """Return the registration service.

    Args:
        info: the GetInfo response.
        on_result: called with each result; must neither raise nor block.
    """

    async def get_info(_request: InfoRequest, _call: object) -> PluginInfo:
        return info

    async def notify(status: RegistrationStatus, _call: object) -> RegistrationStatusResponse:
        reason = " ".join(status.error.split()) or "the kubelet gave no reason"
        on_result(RegistrationResult("" if status.plugin_registered else reason))
        return RegistrationStatusResponse()

    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "GetInfo": grpc.unary_unary_rpc_method_handler(
                get_info, InfoRequest.FromString, PluginInfo.SerializeToString
            ),
            "NotifyRegistrationStatus": grpc.unary_unary_rpc_method_handler(
                notify,
                RegistrationStatus.FromString,
                RegistrationStatusResponse.SerializeToString,
            ),
        },
    )
