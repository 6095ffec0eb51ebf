"""The kubelet's side of the shim: registration and the DRA plugin's services, over gRPC.

sockets.py        where our sockets are, and what they are called
instance_lock.py  one instance on a node
messages.py       the kubelet's messages as values
dra_service.py    what the kubelet may call
health.py         the health of devices, as a stream
registration.py   how it gets to know us
grpc_server.py    a server on a socket that may be taken from under it
plugin.py         both sockets kept in place, the registration looked after
self_probe.py     whether we would answer a kubelet
"""

from dra_shim.kubeletplugin.dra_service import Driver, Service, dra_services
from dra_shim.kubeletplugin.health import DeviceHealth, HealthReport, HealthSource, health_services
from dra_shim.kubeletplugin.instance_lock import only_instance
from dra_shim.kubeletplugin.plugin import (
    KubeletPlugin,
    Notice,
    SocketFailed,
    SocketReplaced,
    Status,
)
from dra_shim.kubeletplugin.registration import Registered
from dra_shim.kubeletplugin.self_probe import probe
from dra_shim.kubeletplugin.sockets import SocketError, Sockets, sockets_of

__all__ = [
    "DeviceHealth",
    "Driver",
    "HealthReport",
    "HealthSource",
    "KubeletPlugin",
    "Notice",
    "Registered",
    "Service",
    "SocketError",
    "SocketFailed",
    "SocketReplaced",
    "Sockets",
    "Status",
    "dra_services",
    "health_services",
    "only_instance",
    "probe",
    "sockets_of",
]
