"""RDMA ownership: the RDMA devices of a NIC, by one rule for the inventory and for attach.

Rules:
1. RDMA devices of the NIC's parent device belong to it. A subfunction has its own parent device.
   For a NIC whose net device is not on the host, the parent is its function.
2. If the parent has none, the net device that the kernel reports for a port decides: the RDMA
   device of an eRDMA is on another function than its NIC.
3. A software RDMA device has no parent, and belongs to the net device that the kernel reports.
4. RDMA devices of a bond are those of its ports: RoCE LAG makes one of two functions.
5. For the NIC's RDMA device the kernel may also report a virtual link on the NIC, or Hyper-V's
   synthetic device. An RDMA device of hardware does not belong to those.
"""

from collections.abc import Callable, Collection, Sequence

from dranet_nri.inventory.exclusions import NETVSC_BUS
from dranet_nri.inventory.host_facts import RdmaDeviceFacts
from dranet_nri.model import DeviceKey

NetdevQuery = Callable[[Sequence[RdmaDeviceFacts]], Collection[str]]
Place = tuple[str, str]  # bus and name of a parent device


def own_rdma(
    key: DeviceKey,
    devices: Sequence[RdmaDeviceFacts],
    with_netdev: NetdevQuery,
    ports: Collection[Place] = (),
) -> tuple[RdmaDeviceFacts, ...]:
    """Return the RDMA devices that belong to the NIC.

    Args:
        key: key of the NIC, with name "" without a net device.
        devices: candidates; name, bus and parent are used.
        with_netdev: returns the names of those with a port that has the NIC's net device. It may be
            slow, and is called only for devices where it decides.
        ports: parent devices of the ports of a bond.
    """
    place = (key.bus, key.parent) if key.name or not key.pci else ("pci", key.pci)
    places = {place, *ports}
    below = tuple(
        device for device in devices if device.parent and (device.bus, device.parent) in places
    )
    may_be_apart = not below and key.bus not in {"", NETVSC_BUS}
    candidates = [device for device in devices if may_be_apart or not device.parent]
    named = with_netdev(candidates) if candidates and key.name else ()
    return (*below, *(device for device in candidates if device.name in named))
