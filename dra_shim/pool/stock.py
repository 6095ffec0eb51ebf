"""Node inventory: the devices that may be allocated, and their owners."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_shim.cel import Near, filter_devices, matching_devices
from dra_shim.pool.build import near_of, physical_functions
from dra_shim.pool.health import unhealthy_reasons
from dra_shim.settings.feature_gates import FeatureGates
from dranet_nri.inventory import HostFacts, Inventory, merge_known, with_parents
from dranet_nri.model import AttributeValue, Device, DeviceKey


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """Owners of the node's devices, by device name, as messages name them.

    Attributes:
        whole: has the device for itself.
        shares: the last owner of a share of it.
        consumed: what shares consume of each of its capacities, as far as records have it.
    """

    whole: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, str] = field(default_factory=dict)
    consumed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeInventory:
    """The inventory of a node.

    Attributes:
        devices: publishable devices, in the order they are published.
        in_use: device name → its owner, as messages name it.
        excluded: (name, why) of what the inventory does not publish.
        shared: names of devices that several claims may have at once.
        given: those with a share in use → what is consumed of each capacity.
        ills: device name → its unhealthy reason, one word.
        physical: address of a VF → address of its PF.
        near: NUMA node → the list that is published for it; None where no lists are.
    """

    devices: tuple[Device, ...]
    in_use: Mapping[str, str] = field(default_factory=dict)
    excluded: tuple[tuple[str, str], ...] = ()
    shared: frozenset[str] = frozenset()
    given: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unhealthy: Mapping[str, str] = field(default_factory=dict)
    physical: Mapping[str, str] = field(default_factory=dict)
    near: Near | None = None


def node_inventory(
    inventory: Inventory,
    known: Sequence[Device],
    uses: DeviceUsage,
    expression: str,
    shared: str = "",
    facts: HostFacts | None = None,
    near: Near | None = None,
) -> NodeInventory:
    """Return what may be allocated from.

    Args:
        inventory: of this moment.
        known: devices of all records; those in pods keep their last facts.
        uses: owners of devices.
        expression: dranet's `--filter`, "" for none.
        shared: the same for those that several claims may have at once, "" for none.
        facts: what the inventory was made of, None if unknown; without, no device is assumed
            to be unhealthy, and none to be a part of another.
        near: NUMA node → the list that is published for it; None where no lists are.

    Raises:
        SelectorError: an expression cannot be compiled.
    """
    merged = with_shared(merge_known(inventory, known), shared, near)
    devices = filter_devices(expression, merged.devices, near)
    both = {device.name for device in matching_devices(shared, devices, near)}
    # A share blocks the allocation of the whole device, also after it is shared no longer.
    partly = {name: who for name, who in uses.shares.items() if name not in both}
    return NodeInventory(
        devices,
        {**partly, **uses.whole},
        (*merged.excluded, *_dropped(merged.devices, devices)),
        frozenset(both),
        {name: uses.consumed.get(name, {}) for name in both & uses.shares.keys()},
        unhealthy_reasons(facts, devices) if facts else {},
        physical_functions(facts) if facts else {},
        near,
    )


def with_shared(inventory: Inventory, expression: str, near: Near | None) -> Inventory:
    """Return the inventory with the parents that several claims may have: they never leave.

    Raises:
        SelectorError: the expression cannot be compiled.
    """
    shared = matching_devices(expression, inventory.parents, near)
    return with_parents(inventory, {device.name for device in shared})


def _dropped(before: Sequence[Device], kept: Sequence[Device]) -> Sequence[tuple[str, str]]:
    """Return each device that a filter did not keep, and that it was the filter."""
    names = {device.name for device in kept}
    return [(device.name, "dropped by --filter") for device in before if device.name not in names]


def near_in(facts: HostFacts | None, gates: FeatureGates) -> Near | None:
    """Return the lists that are published for NUMA nodes; None where none are wanted.

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
