"""Node snapshot: devices to publish and their health, from facts, records and settings.

Rules:
1. A device in a pod keeps the facts of its last scan while a record assigns it.
2. Safety has precedence over settings. A device that the inventory excludes cannot be included,
   unless only a heuristic excludes it (a name, a kind of tunnel, policy routing). A device in a pod
   stays published if it lost only its driver.
3. The health of a device in a pod is unknown, because it is not visible, unless the plugin failed
   to attach it: then the kubelet gets the message of the plugin. Taints come from visible facts
   only. A NIC that moves between host and pod moves its RDMA device before or after its net device,
   so it does not lack the one that is not visible.
4. The administrator's filter applies to publishing. A device that was allocated before the filter
   or the device changed is prepared nevertheless, as in dranet.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from dra_shim.cel import filter_devices
from dra_shim.checkpoint.cache import RecordedDevices
from dra_shim.pool import (
    NO_CARRIER,
    NO_DRIVER,
    NO_INTERFACE,
    NO_RDMA,
    PORT_DOWN,
    VANISHED,
    DeviceHealth,
    DeviceUsage,
    DriverResources,
    conflicts_of,
    driver_resources,
    near_of,
    node_inventory,
    physical_functions,
    unhealthy_reasons,
    with_shared,
)
from dranet_nri.component.replace import replace
from dranet_nri.inventory import (
    HostFacts,
    Inventory,
    Memo,
    Uplinks,
    inventory_from_facts,
    merge_recorded,
    pci_device_name,
)
from dranet_nri.inventory.names import interface_device_name, port_device_name
from dranet_nri.model import DEFAULT_FILTER, Device, is_representor

LINK_IN_POD: Final = "in a pod: its link is not visible on the node"
NO_DEVICES: Final[Mapping[str, Device]] = MappingProxyType({})
EXPLANATIONS: Final[Mapping[str, str]] = {
    NO_CARRIER: "its link is up without carrier",
    NO_INTERFACE: "its interface is not on the host: it is with its driver or in another namespace",
    NO_DRIVER: "no network driver is bound to its PCI function: load the driver",
    NO_RDMA: "its RDMA device is missing: load its driver; if the NIC needs none, restart the"
    " DaemonSet pod on this node",
    PORT_DOWN: "none of its InfiniBand ports is active",
    VANISHED: "its PCI function is missing",
}


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """Selection of published devices by the administrator.

    Patterns are shell patterns (`*`, `?`, `[…]`). They match the names of a device: the device
    name, the name of its interface, its PCI address, and the names of its RDMA devices.

    Attributes:
        filter: CEL expression of dranet's `--filter`; "" for all devices.
        shared: CEL expression of devices that several claims may have; "" for none.
        include: a device must match one of these patterns, if there are any.
        exclude: a device must match none of these patterns.
        uplinks: patterns of the uplinks, none to detect them by routes.
        numa_lists: NUMA nodes are published as lists.
        move_ipoib: IPoIB interfaces move with their devices; False: they stay on the node.
        parents: patterns of interfaces that stay on the node and get children in pods.
    """

    filter: str = DEFAULT_FILTER
    shared: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    numa_lists: bool = False
    uplinks: tuple[str, ...] = ()
    move_ipoib: bool = True
    parents: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise SelectorError if an expression cannot be compiled."""
        for expression in (self.filter, self.shared):
            filter_devices(expression, ())


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """Snapshot of the node: devices to publish, their health, and excluded devices.

    Attributes:
        devices: published devices by name.
        resources: the same, for the ResourceSlice controller.
        unhealthy: device → its unhealthy reason, one word.
        health: health of the published devices, sorted by name.
        excluded: (name, reason) of devices that are not published.
        hardware: names of excluded devices that are PCI functions, or on one, or have RDMA.
        dropped: reason → number of other devices that the selection excludes.
        allocatable: devices that Prepare may assign, published or not, by name.
        conflicts: device → those of `allocatable` that no other pod may have at the same time.
    """

    devices: Mapping[str, Device] = field(default_factory=dict)
    resources: DriverResources = field(default_factory=DriverResources)
    unhealthy: Mapping[str, str] = field(default_factory=dict)
    health: tuple[DeviceHealth, ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    hardware: frozenset[str] = frozenset()
    dropped: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, Device] = field(default_factory=dict)
    conflicts: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def rdma(self) -> int:
        """Return the number of devices with RDMA."""
        return sum(bool(device.rdma_devices) for device in self.devices.values())


def snapshot_of(
    node: str,
    facts: HostFacts,
    recorded: RecordedDevices,
    selection: DeviceSelection,
    uplinks: Uplinks | None = None,
    last_with_rdma: Mapping[str, Device] = NO_DEVICES,
    enrich: Callable[[Device], Device] = lambda device: device,
    memo: Memo | None = None,
) -> NodeSnapshot:
    """Return the snapshot of a scan.

    Args:
        node: name of the node and of its pool.
        facts: facts of the scan.
        recorded: devices that records assign to pods.
        selection: the selection of published devices.
        uplinks: uplinks by the same facts; None if the facts are complete.
        last_with_rdma: functions by name, by the last scan that found their RDMA device.
        enrich: adds the attributes of a cloud provider.
        memo: cache of this node's scans, None to compute everything.

    Raises:
        SelectorError: an expression cannot be compiled.
    """
    memo = memo or Memo()
    memo.begin()
    assigned = tuple(recorded.devices.values())
    lists = memo.get(near_of, (facts.numa_near,), lambda: near_of(facts))
    near = lists if selection.numa_lists else None
    inventory, without_rdma = _with_previous_rdma(
        inventory_from_facts(
            facts,
            uplinks,
            selection.include,
            move_ipoib=selection.move_ipoib,
            parents=selection.parents,
            memo=memo,
        ),
        last_with_rdma,
    )
    inventory = replace(inventory, devices=tuple(map(enrich, inventory.devices)))
    publishable = node_inventory(
        inventory, assigned, DeviceUsage(), selection.filter, selection.shared, near=near
    )
    deselected = dict(_deselected(publishable.devices, selection))
    devices = {
        device.name: device for device in publishable.devices if device.name not in deselected
    }
    lost_rdma = dict.fromkeys((without_rdma & devices.keys()) - recorded.moved, NO_RDMA)
    unhealthy = {**lost_rdma, **unhealthy_reasons(facts, devices.values())}
    messages = {
        **recorded.failures,
        **{name: f"{reason}: {EXPLANATIONS[reason]}" for name, reason in unhealthy.items()},
    }
    in_pods = _in_pods(facts, devices, recorded.devices)
    excluded = (*publishable.excluded, *deselected.items())
    hardware = _hardware(facts, (*inventory.devices, *assigned)) & dict(excluded).keys()
    by_selection = set(excluded) - set(inventory.excluded)
    allocatable = with_shared(merge_recorded(inventory, assigned), selection.shared, near).devices
    physical = physical_functions(facts)
    return NodeSnapshot(
        devices,
        driver_resources(
            node, devices.values(), publishable.shared, unhealthy, physical, near, memo
        ),
        unhealthy,
        tuple(_health(node, name, messages.get(name, ""), name in in_pods) for name in devices),
        tuple(sorted(excluded)),
        frozenset(hardware),
        Counter(reason for name, reason in by_selection if name not in hardware),
        {device.name: device for device in allocatable},
        conflicts_of(allocatable, publishable.shared, physical),
    )


def _with_previous_rdma(
    inventory: Inventory, last_with_rdma: Mapping[str, Device]
) -> tuple[Inventory, frozenset[str]]:
    """Return the inventory with the last facts of functions that lost RDMA, and their names.

    Their driver is being reloaded, or the RDMA device is in another namespace. Without the last
    facts, a pod that needs RDMA would start without it.
    """
    without_rdma = {
        device.name: last
        for device in inventory.devices
        if not device.rdma_devices
        and (last := last_with_rdma.get(device.name)) is not None
        and last.key == device.key
    }
    devices = tuple(without_rdma.get(device.name, device) for device in inventory.devices)
    return replace(inventory, devices=devices), frozenset(without_rdma)


def with_rdma(devices: Iterable[Device]) -> dict[str, Device]:
    """Return the functions that have RDMA, by name."""
    return {device.name: device for device in devices if device.key.pci and device.rdma_devices}


def _deselected(devices: Sequence[Device], selection: DeviceSelection) -> Iterator[tuple[str, str]]:
    for device in devices:
        names = {device.name, device.key.name, device.key.pci, *device.rdma_devices}
        pattern = _first_match(names, selection.exclude)
        if pattern:
            yield device.name, f"dropped by --exclude {pattern}"
        elif selection.include and not _first_match(names, selection.include):
            yield device.name, "dropped by --include"


def _hardware(facts: HostFacts, devices: Sequence[Device]) -> set[str]:
    """Return the device names of the node's hardware, published or not.

    Representors of an eswitch are not included: no pod needs them, and there can be hundreds.
    """
    real = [
        netdev
        for netdev in facts.netdevs
        if not netdev.virtual and not is_representor(netdev.port_name)
    ]
    return {
        *(pci_device_name(function.address) for function in facts.functions),
        *(interface_device_name(netdev.link.name) for netdev in real),
        *(port_device_name(netdev.pci, netdev.dev_port) for netdev in real if netdev.pci),
        *(rdma_device.name for rdma_device in facts.rdma),
        *(device.name for device in devices if device.rdma_devices),
    }


def _first_match(names: Collection[str], patterns: Sequence[str]) -> str:
    """Return the first pattern that matches one of the names, "" if there is none."""
    matches = (pattern for pattern in patterns if any(fnmatchcase(name, pattern) for name in names))
    return next(matches, "")


def _in_pods(facts: HostFacts, devices: Mapping[str, Device], recorded: Iterable[str]) -> set[str]:
    """Return the names of devices that records assign to pods and that the host does not show."""
    netdevs = {(netdev.link.bus, netdev.link.parent, netdev.link.name) for netdev in facts.netdevs}
    rdma = {rdma_device.name for rdma_device in facts.rdma}
    recorded_devices = (devices[name] for name in recorded if name in devices)
    return {
        device.name
        for device in recorded_devices
        if (device.key.bus, device.key.parent, device.key.name) not in netdevs
        and rdma.isdisjoint(device.rdma_devices)
    }


def _health(node: str, name: str, message: str, in_pods: bool) -> DeviceHealth:  # noqa: FBT001
    if message:
        return DeviceHealth(node, name, healthy=False, message=message)
    if in_pods:
        return DeviceHealth(node, name, healthy=None, message=LINK_IN_POD)
    return DeviceHealth(node, name, healthy=True)
