"""The plugin's connection to the runtime: sockets, time and tasks around dranet_nri.wire."""

from dranet_nri.connection.endpoint import DEFAULT_PATH, Endpoint, endpoint_from_environ
from dranet_nri.connection.handler import (
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
from dranet_nri.connection.plugin import Connection

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
