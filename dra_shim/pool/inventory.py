"""Node inventory: allocatable devices, and their owners."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_shim.cel import Near, filter_devices, matching_devices
from dra_shim.pool.build import near_of, physical_functions
from dra_shim.pool.health import unhealthy_reasons
from dra_shim.settings.feature_gates import FeatureGates
from dranet_nri.inventory import HostFacts, Inventory, merge_recorded, with_parents
from dranet_nri.model import AttributeValue, Device, DeviceKey


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """Owners of the node's devices, by device name, in the form for messages.

    Attributes:
        whole: owner of the whole device.
        shares: the last owner of a share of it.
        consumed: consumption of each capacity by shares, as far as records contain it.
        unrestored: devices that no record allocates, but that are not restored yet.
    """

    whole: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, str] = field(default_factory=dict)
    consumed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unrestored: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """Inventory of a node.

    Attributes:
        devices: publishable devices, in the order of publication.
        in_use: device name → owner, in the form for messages.
        excluded: (name, reason) of devices that are not published.
        shared: names of devices that several claims may have.
        consumed: device with a share in use → consumption of each capacity.
        unhealthy: device name → its unhealthy reason, one word.
        physical: address of a VF → address of its PF.
        near: NUMA node → the published list; None if lists are off.
    """

    devices: tuple[Device, ...]
    in_use: Mapping[str, str] = field(default_factory=dict)
    excluded: tuple[tuple[str, str], ...] = ()
    shared: frozenset[str] = frozenset()
    consumed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unhealthy: Mapping[str, str] = field(default_factory=dict)
    physical: Mapping[str, str] = field(default_factory=dict)
    near: Near | None = None


def node_inventory(
    inventory: Inventory,
    recorded: Sequence[Device],
    uses: DeviceUsage,
    expression: str,
    shared: str = "",
    facts: HostFacts | None = None,
    near: Near | None = None,
) -> NodeInventory:
    """Return the inventory for an allocation.

    Args:
        inventory: the current inventory.
        recorded: devices of all records; those in pods keep their last facts.
        uses: owners of devices.
        expression: CEL expression of dranet's `--filter`, "" for none.
        shared: CEL expression of devices that several claims may have, "" for none.
        facts: facts of the inventory, None if unknown; without them, all devices count as healthy,
            and as independent of each other.
        near: NUMA node → the published list; None if lists are off.

    Raises:
        SelectorError: an expression cannot be compiled.
    """
    merged = with_shared(merge_recorded(inventory, recorded), shared, near)
    devices = filter_devices(expression, merged.devices, near)
    shareable = {device.name for device in matching_devices(shared, devices, near)}
    # A share blocks the allocation of the whole device, also if the device is no longer shared.
    partly = {name: owner for name, owner in uses.shares.items() if name not in shareable}
    return NodeInventory(
        devices,
        {**partly, **uses.whole},
        (*merged.excluded, *_dropped(merged.devices, devices)),
        frozenset(shareable),
        {name: uses.consumed.get(name, {}) for name in shareable & uses.shares.keys()},
        unhealthy_reasons(facts, devices) if facts else {},
        physical_functions(facts) if facts else {},
        near,
    )


def with_shared(inventory: Inventory, expression: str, near: Near | None) -> Inventory:
    """Return the inventory with the parents that several claims may have, which stay on the host.

    Raises:
        SelectorError: the expression cannot be compiled.
    """
    shared = matching_devices(expression, inventory.parents, near)
    return with_parents(inventory, {device.name for device in shared})


def _dropped(before: Sequence[Device], kept: Sequence[Device]) -> Sequence[tuple[str, str]]:
    """Return (device, reason) of each device that the filter excluded."""
    names = {device.name for device in kept}
    return [(device.name, "dropped by --filter") for device in before if device.name not in names]


def near_in(facts: HostFacts | None, gates: FeatureGates) -> Near | None:
    """Return the published lists of NUMA nodes; None if lists are off.

    Without facts the distances between nodes are unknown.
    """
    if not gates.lists:
        return None
    return near_of(facts) if facts else {}


def derived_key(attributes: Mapping[str, AttributeValue], name: str) -> DeviceKey:
    """Return the key of a device by its attributes: its PCI address, or the interface's name."""
    interface = str(attributes.get("dra.net/ifName", ""))
    pci = str(attributes.get("dra.net/pciAddress", ""))
    if pci:
        return DeviceKey("pci", pci, interface, pci)
    return DeviceKey("", "", interface or name)
