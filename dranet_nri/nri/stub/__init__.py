"""Plugin connection to the runtime: sockets, timers and tasks around dranet_nri.nri.wire."""

from dranet_nri.nri.stub.connection import Connection
from dranet_nri.nri.stub.endpoint import Endpoint, endpoint_from_environ
from dranet_nri.nri.stub.handler import (
    Answer,
    ConnectionStatus,
    Disconnected,
    Handler,
    HookFailed,
    HookLate,
    Notice,
    Outcome,
    Serving,
    Unsynchronized,
)

__all__ = [
    "Answer",
    "Connection",
    "ConnectionStatus",
    "Disconnected",
    "Endpoint",
    "Handler",
    "HookFailed",
    "HookLate",
    "Notice",
    "Outcome",
    "Serving",
    "Unsynchronized",
    "endpoint_from_environ",
]
