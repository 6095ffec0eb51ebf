"""Node snapshot: devices to publish and their health, from facts, records and settings.

Rules:
1. Devices that pods have stay as they were last scanned, as long as a record says so.
2. Safety comes before settings: a device that the inventory excludes cannot be included, except one
   that only a heuristic withholds (a name, a tunnel's kind, policy routing). A device that a pod
   has stays if it only lost its driver.
3. The health of a device that is not visible, in a pod, is unknown, unless the plugin failed to
   attach it: then the kubelet gets the plugin's message. It is tainted for visible facts only.
4. The administrator's filter applies to publishing. A device that was allocated before the filter,
   or the device, changed is prepared all the same, as dranet does.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from dra_shim.cel import filter_devices
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
    driver_resources,
    near_of,
    node_inventory,
    physical_functions,
    rivals_of,
    unhealthy_reasons,
    with_shared,
)
from dranet_nri.inventory import (
    HostFacts,
    Inventory,
    Memo,
    Uplinks,
    inventory_from_facts,
    merge_known,
    pci_device_name,
)
from dranet_nri.inventory.names import interface_device_name, port_device_name
from dranet_nri.model import DEFAULT_FILTER, Device, is_representor

AWAY: Final = "in a pod: its link cannot be seen from the node"
NOBODY: Final[Mapping[str, Device]] = MappingProxyType({})
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
WORDS: Final[Mapping[str, str]] = {
    NO_CARRIER: "its link is up and has no carrier",
    NO_INTERFACE: "its interface is not on the host: its driver, or another namespace, has it",
    NO_DRIVER: "no driver for the network is bound to its PCI function: load it again",
    NO_RDMA: "its RDMA device is gone: load its driver again; shall it have none, restart the pod"
    " of the driver here",
    PORT_DOWN: "no InfiniBand port of it is active",
    VANISHED: "its PCI function is gone",
}


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """The administrator's choice of published devices.

    Patterns are of the shell's kind (`*`, `?`, `[…]`) and are held against the names that a device
    has: its own, its interface's, its PCI address, those of its RDMA devices.

    Attributes:
        filter: CEL, dranet's `--filter`; "" for all.
        shared: the same for those that several claims may have at once; "" for none.
        include: a device must match one of them, if there are any.
        exclude: a device must match none of them.
        uplinks: patterns of interfaces that are the uplinks, none to go by default routes.
        numa_lists: NUMA nodes are published as lists.
        move_ipoib: IPoIB interfaces are given with their devices; False: they stay on the node.
        parents: patterns of interfaces that stay on the node, and of which pods get children.
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
    """Snapshot of the node: devices to publish, their health, and those withheld.

    Attributes:
        devices: those that are offered, by name.
        goods: the same for the publisher.
        ills: device → its unhealthy reason, one word.
        health: of all of them, sorted by name.
        left_out: (name, why) of what is not offered.
        hardware: names of those among them that are PCI functions, or on one, or have RDMA.
        dropped: why → how many others the administrator's choice drops.
        there: those that may be given away, offered or not, by name.
        rivals: device → those of `there` that no other pod may have beside it.
    """

    devices: Mapping[str, Device] = field(default_factory=dict)
    resources: DriverResources = field(default_factory=DriverResources)
    ills: Mapping[str, str] = field(default_factory=dict)
    health: tuple[DeviceHealth, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    hardware: frozenset[str] = frozenset()
    dropped: Mapping[str, int] = field(default_factory=dict)
    there: Mapping[str, Device] = field(default_factory=dict)
    rivals: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def rdma(self) -> int:
        """Return how many devices have RDMA."""
        return sum(bool(device.rdma_devices) for device in self.devices.values())


def snapshot_of(
    node: str,
    facts: HostFacts,
    known: Sequence[Device],
    choice: DeviceSelection,
    uplinks: Uplinks | None = None,
    failing: Mapping[str, str] = _NONE,
    had_rdma: Mapping[str, Device] = NOBODY,
    enrich: Callable[[Device], Device] = lambda device: device,
    memo: Memo | None = None,
) -> NodeSnapshot:
    """Return what is there.

    Args:
        node: its name, and its pool's.
        facts: of a scan.
        known: devices that records give to pods, as they were then.
        choice: what is wanted.
        uplinks: of the same facts; None where the facts are complete.
        failing: device → why its pod doesn't have it, though it should.
        had_rdma: functions by name, as they were when their RDMA device was seen last.
        enrich: adds what a cloud provider knows of a device.
        memo: of the scans of this node, None to compute everything.

    Raises:
        SelectorError: an expression cannot be compiled.
    """
    memo = memo or Memo()
    memo.begin()
    lists = memo.kept(near_of, (facts.numa_near,), lambda: near_of(facts))
    near = lists if choice.numa_lists else None
    inventory, without_rdma = _as_with_rdma(
        inventory_from_facts(
            facts,
            uplinks,
            choice.include,
            move_ipoib=choice.move_ipoib,
            parents=choice.parents,
            memo=memo,
        ),
        had_rdma,
    )
    inventory = replace(inventory, devices=tuple(map(enrich, inventory.devices)))
    stock = node_inventory(inventory, known, DeviceUsage(), choice.filter, choice.shared, near=near)
    unwanted = dict(_unwanted(stock.devices, choice))
    devices = {device.name: device for device in stock.devices if device.name not in unwanted}
    missed = dict.fromkeys(without_rdma & devices.keys(), NO_RDMA)
    ills = {**missed, **unhealthy_reasons(facts, devices.values())}
    troubles = {**failing, **{name: f"{ill}: {WORDS[ill]}" for name, ill in ills.items()}}
    away = _away(facts, devices, {device.name for device in known})
    left_out = (*stock.excluded, *unwanted.items())
    hardware = _hardware(facts, (*inventory.devices, *known)) & dict(left_out).keys()
    chosen = set(left_out) - set(inventory.excluded)
    there = with_shared(merge_known(inventory, known), choice.shared, near).devices
    physical = physical_functions(facts)
    return NodeSnapshot(
        devices,
        driver_resources(node, devices.values(), stock.shared, ills, physical, near, memo),
        ills,
        tuple(_health(node, name, troubles.get(name, ""), name in away) for name in devices),
        tuple(sorted(left_out)),
        frozenset(hardware),
        Counter(why for name, why in chosen if name not in hardware),
        {device.name: device for device in there},
        rivals_of(there, stock.shared, physical),
    )


def _as_with_rdma(
    inventory: Inventory, had: Mapping[str, Device]
) -> tuple[Inventory, frozenset[str]]:
    """Return functions whose RDMA device is gone as they were with it, and the names of these.

    Its driver is being reloaded, or another namespace has it: without that memory a pod that was
    to have RDMA would start without.
    """
    without_rdma = {
        device.name: had[device.name]
        for device in inventory.devices
        if not device.rdma_devices and device.name in had and had[device.name].key == device.key
    }
    devices = tuple(without_rdma.get(device.name, device) for device in inventory.devices)
    return replace(inventory, devices=devices), frozenset(without_rdma)


def with_rdma(devices: Iterable[Device]) -> dict[str, Device]:
    """Return the functions among the devices that have RDMA, by name."""
    return {device.name: device for device in devices if device.key.pci and device.rdma_devices}


def _unwanted(devices: Sequence[Device], choice: DeviceSelection) -> Iterator[tuple[str, str]]:
    for device in devices:
        names = {device.name, device.key.name, device.key.pci, *device.rdma_devices}
        hit = _first_match(names, choice.exclude)
        if hit:
            yield device.name, f"dropped by --exclude {hit}"
        elif choice.include and not _first_match(names, choice.include):
            yield device.name, "dropped by --include"


def _hardware(facts: HostFacts, devices: Sequence[Device]) -> set[str]:
    """Return the device names of the node's hardware, published or not.

    The representors of a NIC's switch are none: no pod needs them, and there are hundreds.
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
    """Return the first pattern that one of the names matches, "" if none does but that itself."""
    hits = (pattern for pattern in patterns if any(fnmatchcase(name, pattern) for name in names))
    return next(hits, "")


def _away(facts: HostFacts, devices: Mapping[str, Device], known: Collection[str]) -> set[str]:
    """Return the devices that records give to pods and of which nothing is to be seen here."""
    netdevs = {(netdev.link.bus, netdev.link.parent, netdev.link.name) for netdev in facts.netdevs}
    rdma = {rdma_device.name for rdma_device in facts.rdma}
    held = (devices[name] for name in known if name in devices)
    return {
        device.name
        for device in held
        if (device.key.bus, device.key.parent, device.key.name) not in netdevs
        and rdma.isdisjoint(device.rdma_devices)
    }


def _health(node: str, name: str, trouble: str, away: bool) -> DeviceHealth:  # noqa: FBT001
    if trouble:
        return DeviceHealth(node, name, healthy=False, message=trouble)
    if away:
        return DeviceHealth(node, name, healthy=None, message=AWAY)
    return DeviceHealth(node, name, healthy=True)
