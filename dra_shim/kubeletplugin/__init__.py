"""Kubelet plugin: registration and the DRA plugin's services, over gRPC.

sockets.py        paths and names of the sockets
instance_lock.py  one instance per node
messages.py       conversion of the kubelet's messages
dra_service.py    Prepare and Unprepare
health.py         health of devices, as a stream
registration.py   registration at the kubelet
grpc_server.py    gRPC server on a Unix socket
plugin.py         lifecycle of both sockets and the registration
self_probe.py     a self-test through the sockets
"""

from dra_shim.kubeletplugin.dra_service import Driver, Service, dra_services
from dra_shim.kubeletplugin.health import health_services
from dra_shim.kubeletplugin.instance_lock import only_instance
from dra_shim.kubeletplugin.plugin import (
    KubeletPlugin,
    Notice,
    SocketFailed,
    SocketReplaced,
)
from dra_shim.kubeletplugin.registration import RegistrationResult
from dra_shim.kubeletplugin.self_probe import probe
from dra_shim.kubeletplugin.sockets import SocketError, Sockets, sockets_of

__all__ = [
    "Driver",
    "KubeletPlugin",
    "Notice",
    "RegistrationResult",
    "Service",
    "SocketError",
    "SocketFailed",
    "SocketReplaced",
    "Sockets",
    "dra_services",
    "health_services",
    "only_instance",
    "probe",
    "sockets_of",
]
