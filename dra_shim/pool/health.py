"""Device health: the unhealthy devices, and the reason that becomes the value of their taint.

Rules:
1. Only visible facts count: a NIC in a pod, or one that is not set up yet, is healthy. PCI
   functions and their drivers are always visible, so removed hardware is detected. RDMA devices are
   visible except in exclusive mode, where each namespace has its own.
2. Ethernet is checked by its carrier, InfiniBand by its port, and only for hardware: the carrier of
   a virtual link depends on its peer, and that of IPoIB on the broadcast group of the fabric.
3. A device whose interface is neither on the host nor in a record is unusable until it returns.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dranet_nri.config import why_without_interface
from dranet_nri.inventory import HostFacts, NetDevice, RdmaDeviceFacts
from dranet_nri.inventory.exclusions import function_hazard
from dranet_nri.model import Device, DeviceKey

NO_CARRIER: Final = "NoCarrier"
PORT_DOWN: Final = "PortDown"
NO_INTERFACE: Final = "NoInterface"
VANISHED: Final = "Vanished"
NO_DRIVER: Final = "NoDriver"
NO_RDMA: Final = "NoRDMADevice"

UNATTACHABLE: Final = frozenset({NO_INTERFACE, VANISHED, NO_DRIVER})  # for any claim

_INFINIBAND: Final = "InfiniBand"


def unhealthy_reasons(facts: HostFacts, devices: Iterable[Device]) -> Mapping[str, str]:
    """Return device name → unhealthy reason, one word; healthy devices are omitted."""
    netdevs = {
        (netdev.link.bus, netdev.link.parent, netdev.link.name): netdev for netdev in facts.netdevs
    }
    rdma = {rdma_device.name: rdma_device for rdma_device in facts.rdma}
    unbound = {function.address for function in facts.functions if function_hazard(function)}
    present = {function.address for function in facts.functions} | facts.other_functions
    found: dict[str, str] = {}
    for device in devices:
        key = device.key
        netdev = netdevs.get((key.bus, key.parent, key.name)) if key.name else None
        rdma_devices = [rdma[name] for name in device.rdma_devices if name in rdma]
        if key.pci and key.pci not in present:
            found[device.name] = VANISHED
        elif key.pci in unbound:
            found[device.name] = NO_DRIVER
        elif why_without_interface(device):
            found[device.name] = NO_INTERFACE
        elif (
            facts.all_rdma
            and device.rdma_devices
            and not (rdma_devices or _has_unrecorded_rdma(facts, device))
        ):
            found[device.name] = NO_RDMA
        elif any(_port_down(rdma_device, key) for rdma_device in rdma_devices):
            found[device.name] = PORT_DOWN
        elif (
            netdev
            and _no_carrier(netdev)
            and not any(_infiniband_states(rdma_device, key) for rdma_device in rdma_devices)
        ):
            found[device.name] = NO_CARRIER
    return found


def _no_carrier(netdev: NetDevice) -> bool:
    return netdev.link.up and not netdev.link.carrier and not netdev.virtual


def _has_unrecorded_rdma(facts: HostFacts, device: Device) -> bool:
    """Return whether the function has an RDMA device whose name the record does not contain."""
    bus, parent = device.key.bus, device.key.parent
    return bool(parent) and any(
        (rdma_device.bus, rdma_device.parent) == (bus, parent) for rdma_device in facts.rdma
    )


def _port_down(device: RdmaDeviceFacts, key: DeviceKey) -> bool:
    """Return whether no InfiniBand port of the device, or of its net device, is active."""
    states = _infiniband_states(device, key)
    return bool(states) and "ACTIVE" not in states


def _infiniband_states(device: RdmaDeviceFacts, key: DeviceKey) -> list[str]:
    """Return the states of the InfiniBand ports of an RDMA device, or of its net device's port.

    The kernel does not name the net device of an InfiniBand port; dev_port counts from 0.
    """
    own = [port for port in device.ports if key.name and key.name in port.netdevs]
    if not own and key.name and key.port is not None:
        own = [port for port in device.ports if port.number == key.port + 1]
    own = own or list(device.ports)
    return [port.state for port in own if port.link_layer == _INFINIBAND]
