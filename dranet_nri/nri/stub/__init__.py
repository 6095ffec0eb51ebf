"""Plugin connection to the runtime: sockets, timers and tasks around dranet_nri.nri.wire."""

from dranet_nri.nri.stub.connection import Connection
from dranet_nri.nri.stub.endpoint import DEFAULT_PATH, Endpoint, endpoint_from_environ
from dranet_nri.nri.stub.handler import (
    Answered,
    ConnectionStatus,
    Disconnected,
    Handler,
    HookFailed,
    HookLate,
    Notice,
    Notify,
    Outcome,
    Serving,
    Unsynchronized,
)

__all__ = [
    "DEFAULT_PATH",
    "Answered",
    "Connection",
    "ConnectionStatus",
    "Disconnected",
    "Endpoint",
    "Handler",
    "HookFailed",
    "HookLate",
    "Notice",
    "Notify",
    "Outcome",
    "Serving",
    "Unsynchronized",
    "endpoint_from_environ",
]
