"""RDMA devices that belong to a NIC: one rule for the inventory and for attach.

Rules:
1. RDMA devices below the NIC's own parent belong to it: a subfunction's parent is a device of its
   own, not the function it is part of. For a NIC whose net device is not on the host, the parent is
   its function.
2. Without any below the parent, the kernel names the net device of a port: the RDMA device of an
   eRDMA is on another function than its NIC.
3. A software RDMA device has no parent, and also belongs to the net device that the kernel names.
4. The NIC's RDMA device also names a virtual link on the NIC, and Hyper-V's synthetic device. An
   RDMA device of hardware does not belong to those.
"""

from collections.abc import Callable, Collection, Sequence

from dranet_nri.inventory.exclusions import NETVSC_BUS
from dranet_nri.inventory.host_facts import RdmaDeviceFacts
from dranet_nri.model import DeviceKey

Naming = Callable[[Sequence[RdmaDeviceFacts]], Collection[str]]


def own_rdma(
    key: DeviceKey, devices: Sequence[RdmaDeviceFacts], naming: Naming
) -> tuple[RdmaDeviceFacts, ...]:
    """Return those of the devices that are the NIC's.

    Args:
        key: of the NIC, its name "" where it has no net device.
        devices: those that may be; name, bus and parent are used.
        naming: returns the names of those of which a port has the NIC's net device. Asking may
            be dear: it is asked for those alone that this decides.
    """
    place = (key.bus, key.parent) if key.name or not key.pci else ("pci", key.pci)
    below = tuple(
        device for device in devices if device.parent and (device.bus, device.parent) == place
    )
    may_be_apart = not below and key.bus not in {"", NETVSC_BUS}
    asked = [device for device in devices if may_be_apart or not device.parent]
    named = naming(asked) if asked and key.name else ()
    return (*below, *(device for device in asked if device.name in named))
