"""Pools of devices, from slices or from the node's own inventory."""

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dra_shim.pool import NodeInventory, driver_resources
from dra_shim.resourceapi import AllocatedResult, CounterValue, DeviceId, ResourceSlice, SliceDevice
from dranet_nri.component.replace import replace
from dranet_nri.model import DRIVER_NAME


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices of one driver for this node, in the order of the driver.

    Attributes:
        counters: counter sets of the pool.
        elsewhere: devices of other nodes, which consume the same counters.
        problem: why the pool is unusable, "" if it is usable.
    """

    driver: str
    name: str
    devices: tuple[SliceDevice, ...]
    counters: tuple[CounterValue, ...] = ()
    problem: str = ""
    elsewhere: tuple[SliceDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolSet:
    """Pools in the order of the search, with the devices in use.

    Attributes:
        in_use: device → owner, in the form for messages.
        excluded: (name, reason) of devices that are not published.
        shares: shared device → consumption of each capacity.
    """

    pools: tuple[Pool, ...]
    in_use: Mapping[DeviceId, str] = field(default_factory=dict)
    excluded: tuple[tuple[str, str], ...] = ()
    shares: Mapping[DeviceId, Mapping[str, Fraction]] = field(default_factory=dict)


def with_allocated(pool_set: PoolSet, allocated: Iterable[tuple[str, AllocatedResult]]) -> PoolSet:
    """Return the pools with the devices of other claims in use.

    Args:
        pool_set: the pools.
        allocated: (owner in the form for messages, allocated device).
    """
    in_use = dict(pool_set.in_use)
    shares = {device: dict(amounts) for device, amounts in pool_set.shares.items()}
    for owner, result in allocated:
        if not result.share_id:
            in_use.setdefault(result.device, owner)
            continue
        amounts = shares.setdefault(result.device, {})
        for name, amount in result.consumed:
            amounts[name] = amounts.get(name, Fraction()) + amount
    return replace(pool_set, in_use=in_use, shares=shares)


def pool_set_of(inventory: NodeInventory, node: str) -> PoolSet:
    """Return the pool that this driver publishes for a node, with the devices in use."""
    resources = driver_resources(
        node,
        inventory.devices,
        inventory.shared,
        inventory.unhealthy,
        inventory.physical,
        inventory.near,
    )
    return PoolSet(
        (Pool(DRIVER_NAME, node, resources.devices, resources.counters),),
        {(DRIVER_NAME, node, name): owner for name, owner in inventory.in_use.items()},
        inventory.excluded,
        {
            (DRIVER_NAME, node, name): {
                capacity: Fraction(value) for capacity, value in amounts.items()
            }
            for name, amounts in inventory.consumed.items()
        },
    )


def pools_of(slices: Iterable[ResourceSlice], node: str) -> tuple[Pool, ...]:
    """Return the pools with devices for a node, in the order of the scheduler.

    The order is that of driver, pool and slice names. Only the highest generation of a pool counts.
    A slice with a nodeSelector is assumed to match the node.
    """
    members: dict[tuple[str, str], list[ResourceSlice]] = {}
    for entry in sorted(dict.fromkeys(slices), key=lambda one: (one.driver, one.pool, one.name)):
        members.setdefault((entry.driver, entry.pool), []).append(entry)
    pools: list[Pool] = []
    for (driver, name), found in members.items():
        newest = max(resource_slice.generation for resource_slice in found)
        current = [
            resource_slice for resource_slice in found if resource_slice.generation == newest
        ]
        if not any(resource_slice.node in {"", node} for resource_slice in current):
            continue
        here, elsewhere = _by_node(current, node)
        counters = tuple(
            counter for resource_slice in current for counter in resource_slice.counters
        )
        pools.append(Pool(driver, name, here, counters, _problem(current, counters), elsewhere))
    return tuple(pools)


def _by_node(
    slices: Sequence[ResourceSlice], node: str
) -> tuple[tuple[SliceDevice, ...], tuple[SliceDevice, ...]]:
    """Return the devices for a node, and the others."""
    here: list[SliceDevice] = []
    elsewhere: list[SliceDevice] = []
    for entry in slices:
        for device in entry.devices:
            for_node = {entry.node, device.node} <= {"", node}
            (here if for_node else elsewhere).append(device)
    return tuple(here), tuple(elsewhere)


def _problem(slices: Sequence[ResourceSlice], counters: Sequence[CounterValue]) -> str:
    """Return why a generation is unusable for the scheduler."""
    title = f"pool {slices[0].driver}/{slices[0].pool}"
    counts = {resource_slice.count for resource_slice in slices}
    if counts != {len(slices)}:
        of = " or ".join(map(str, sorted(counts)))
        return (
            f"{title} is incomplete: {len(slices)} of {of} slices of generation "
            f"{slices[0].generation} exist; wait for its driver, or give the missing ones"
        )
    names = Tally(device.name for resource_slice in slices for device in resource_slice.devices)
    repeated = [name for name, number in names.items() if number > 1]
    if repeated:
        return f"{title} is invalid: device {repeated[0]} is listed twice; correct its driver"
    defined = {(counter.set, counter.name) for counter in counters}
    for entry in slices:
        for device in entry.devices:
            for used in device.counters:
                if (used.set, used.name) not in defined:
                    return (
                        f"{title} is invalid: device {device.name} consumes counter "
                        f"{used.set}/{used.name}, which no slice of it has; correct its driver"
                    )
    return ""
