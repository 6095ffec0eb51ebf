"""Recorded devices: the inventory joined with devices that are not on the host now.

Adds the last facts of allocated devices, and parents that stay on the host.
"""

from collections.abc import Collection, Sequence

from dranet_nri.component.replace import replace
from dranet_nri.inventory.attribute_names import RDMA_NAMES
from dranet_nri.inventory.attributes import within_budget
from dranet_nri.inventory.build import Inventory
from dranet_nri.model import AttributeValue, Device


def merge_recorded(inventory: Inventory, allocated: Sequence[Device]) -> Inventory:
    """Return the inventory with the last facts of devices in pods.

    A device whose net or RDMA device is not on the host keeps its last facts; otherwise those of
    the scan are used, also for an RDMA device in shared mode. Excluded devices stay excluded,
    except those without a driver: these are safe, and their owner must be notified.

    Args:
        inventory: the current inventory.
        allocated: devices of all allocations, with the facts at allocation.
    """
    devices = {device.name: device for device in inventory.devices}
    unsafe = {name for name, _ in inventory.excluded}
    parents = {device.name: device for device in inventory.parents}
    for recorded in allocated:
        live = devices.get(recorded.name)
        if live is None and recorded.name in parents:  # its upper link may be the pod's child
            live = devices[recorded.name] = parents[recorded.name]
        if live is None and (recorded.name not in unsafe or recorded.name in inventory.unbound):
            devices[recorded.name] = recorded
        elif live is not None and _is_incomplete(live, recorded):
            devices[recorded.name] = Device(
                name=recorded.name,
                key=live.key if live.key.name else recorded.key,
                attributes=_merged(live, recorded),
                rdma_devices=live.rdma_devices or recorded.rdma_devices,
            )
    excluded = tuple(entry for entry in inventory.excluded if entry[0] not in devices)
    return replace(
        inventory, devices=tuple(devices[name] for name in sorted(devices)), excluded=excluded
    )


def with_parents(inventory: Inventory, names: Collection[str]) -> Inventory:
    """Return the inventory with the parents of these names as devices."""
    offered = {device.name: device for device in inventory.parents if device.name in names}
    devices = offered | {device.name: device for device in inventory.devices}
    return replace(
        inventory,
        devices=tuple(devices[name] for name in sorted(devices)),
        excluded=tuple(entry for entry in inventory.excluded if entry[0] not in devices),
    )


def _merged(live: Device, recorded: Device) -> tuple[tuple[str, AttributeValue], ...]:
    attributes = dict(live.attributes) | dict(recorded.attributes)
    if live.rdma_devices:
        live_attributes = dict(live.attributes)
        attributes = {name: value for name, value in attributes.items() if name not in RDMA_NAMES}
        attributes |= {name: live_attributes[name] for name in RDMA_NAMES & live_attributes.keys()}
    return within_budget(attributes)


def _is_incomplete(live: Device, recorded: Device) -> bool:
    """Whether its net or an RDMA device is no longer on the host."""
    return bool(
        (recorded.key.name and not live.key.name)
        or (recorded.rdma_devices and not live.rdma_devices)
    )
