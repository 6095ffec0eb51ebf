"""Device health: unhealthy devices and the reasons, by the facts of a scan.

Rules:
1. Only visible facts count: a NIC that is in a pod, or that is not set up yet, is healthy. Its PCI
   function and the function's driver are visible in any case, so hardware that left the bus is
   detected. RDMA devices are visible, unless namespaces have their own.
2. Ethernet is judged by its carrier, InfiniBand by its port, hardware alone: a virtual link's
   carrier depends on its peer, and IPoIB's on the fabric's broadcast group.
3. A device whose interface is neither on the host nor on record is unusable until it is.
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

UNATTACHABLE: Final = frozenset({NO_INTERFACE, VANISHED, NO_DRIVER})  # whatever a claim wants

_INFINIBAND: Final = "InfiniBand"


def unhealthy_reasons(facts: HostFacts, devices: Iterable[Device]) -> Mapping[str, str]:
    """Return device name -> what is wrong with it, one word; those that are well are left out."""
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
        seen = [rdma[name] for name in device.rdma_devices if name in rdma]
        if key.pci and key.pci not in present:
            found[device.name] = VANISHED
        elif key.pci in unbound:
            found[device.name] = NO_DRIVER
        elif why_without_interface(device):
            found[device.name] = NO_INTERFACE
        elif facts.all_rdma and device.rdma_devices and not (seen or _is_below(facts, device)):
            found[device.name] = NO_RDMA
        elif any(_port_down(function, key) for function in seen):
            found[device.name] = PORT_DOWN
        elif netdev and _no_carrier(netdev) and not any(_infiniband_states(r, key) for r in seen):
            found[device.name] = NO_CARRIER
    return found


def _no_carrier(netdev: NetDevice) -> bool:
    return netdev.link.up and not netdev.link.carrier and not netdev.virtual


def _is_below(facts: HostFacts, device: Device) -> bool:
    """Whether it has an RDMA device under a name that its record does not know."""
    place = (device.key.bus, device.key.parent)
    return bool(place[1]) and any(
        (rdma_device.bus, rdma_device.parent) == place for rdma_device in facts.rdma
    )


def _port_down(device: RdmaDeviceFacts, key: DeviceKey) -> bool:
    """Whether none of its InfiniBand ports, or not the one of its net device, carries traffic."""
    states = _infiniband_states(device, key)
    return bool(states) and "ACTIVE" not in states


def _infiniband_states(device: RdmaDeviceFacts, key: DeviceKey) -> list[str]:
    """Return the states of its InfiniBand ports, or of the one of its net device.

    Of the ports of InfiniBand the kernel names no net device; its dev_port counts from 0.
    """
    own = [port for port in device.ports if key.name and key.name in port.netdevs]
    if not own and key.name and key.port is not None:
        own = [port for port in device.ports if port.number == key.port + 1]
    own = own or list(device.ports)
    return [port.state for port in own if port.link_layer == _INFINIBAND]
