"""Which RDMA devices are a NIC's: one rule for what is published and for what is attached.

Rules:
1. What hangs on the NIC's own parent is its: a subfunction's parent is a device of its own, not
   the function that it is part of. A NIC whose net device is away is its function.
2. Where nothing does, the kernel names the net device of a port: the RDMA device of an eRDMA is
   on another function than its NIC.
3. A software RDMA device hangs on nothing, and is of the net device that the kernel names as well.
4. A virtual link on a NIC, and Hyper-V's synthetic side of one, are named by the NIC's RDMA device
   too. Hardware is not theirs.
"""

from collections.abc import Callable, Collection, Sequence

from dranet_nri.inventory.exclusions import NETVSC_BUS
from dranet_nri.inventory.host_facts import RdmaDevice
from dranet_nri.model import DeviceKey

Naming = Callable[[Sequence[RdmaDevice]], Collection[str]]


def own_rdma(
    key: DeviceKey, devices: Sequence[RdmaDevice], naming: Naming
) -> tuple[RdmaDevice, ...]:
    """Return those of the devices that are the NIC's.

    Args:
        key: of the NIC, its name "" where it has no net device.
        devices: those that may be; name, bus and parent are looked at.
        naming: returns the names of those of which a port has the NIC's net device. Asking may
            be dear: it is asked for those alone that this decides.
    """
    place = (key.bus, key.parent) if key.name or not key.pci else ("pci", key.pci)
    below = tuple(each for each in devices if each.parent and (each.bus, each.parent) == place)
    may_be_apart = not below and key.bus not in {"", NETVSC_BUS}
    asked = [each for each in devices if may_be_apart or not each.parent]
    named = naming(asked) if asked and key.name else ()
    return (*below, *(each for each in asked if each.name in named))
