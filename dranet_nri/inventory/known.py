"""Known devices: the inventory joined with what the host does not show at this moment.

The last facts of allocated devices are added, and the parents that stay on the host.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from dranet_nri.inventory.attribute_names import RDMA_NAMES
from dranet_nri.inventory.attributes import within_budget
from dranet_nri.inventory.build import Inventory
from dranet_nri.model import AttributeValue, Device


def merge_known(inventory: Inventory, allocated: Sequence[Device]) -> Inventory:
    """Return the inventory with the last facts of devices that pods hold right now.

    A device whose net or RDMA device is not on the host keeps what was known of it; one that is
    on the host is taken as seen, and so is an RDMA device that all namespaces share. What the scan
    found unsafe stays out, but for a driver that is gone: a device that lacks its own is no danger,
    and its owner must be notified.

    Args:
        inventory: of this moment.
        allocated: the devices of all allocations, as they were when they were allocated.
    """
    devices = {device.name: device for device in inventory.devices}
    unsafe = {name for name, _ in inventory.excluded}
    parents = {device.name: device for device in inventory.parents}
    for known in allocated:
        live = devices.get(known.name)
        if live is None and known.name in parents:  # what runs over it is maybe its pod's child
            live = devices[known.name] = parents[known.name]
        if live is None and (known.name not in unsafe or known.name in inventory.unbound):
            devices[known.name] = known
        elif live is not None and _is_away(live, known):
            devices[known.name] = Device(
                name=known.name,
                key=live.key if live.key.name else known.key,
                attributes=_merged(live, known),
                rdma_devices=live.rdma_devices or known.rdma_devices,
            )
    excluded = tuple(entry for entry in inventory.excluded if entry[0] not in devices)
    return replace(
        inventory, devices=tuple(devices[name] for name in sorted(devices)), excluded=excluded
    )


def with_parents(inventory: Inventory, names: Collection[str]) -> Inventory:
    """Return the inventory with those of its parents as devices that have these names."""
    offered = {device.name: device for device in inventory.parents if device.name in names}
    devices = offered | {device.name: device for device in inventory.devices}
    return replace(
        inventory,
        devices=tuple(devices[name] for name in sorted(devices)),
        excluded=tuple(entry for entry in inventory.excluded if entry[0] not in devices),
    )


def _merged(live: Device, known: Device) -> tuple[tuple[str, AttributeValue], ...]:
    attributes = dict(live.attributes) | dict(known.attributes)
    if live.rdma_devices:
        told = dict(live.attributes)
        attributes = {name: value for name, value in attributes.items() if name not in RDMA_NAMES}
        attributes |= {name: told[name] for name in RDMA_NAMES & told.keys()}
    return within_budget(attributes)


def _is_away(live: Device, known: Device) -> bool:
    """Whether something of the device that was on the host at allocation is not there now."""
    return bool(
        (known.key.name and not live.key.name) or (known.rdma_devices and not live.rdma_devices)
    )
