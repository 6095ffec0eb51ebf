"""Pool builder: the node's devices as they are published.

Rules:
1. An unhealthy device has a NoSchedule taint. Its pod is never evicted, because it may still use
   the device.
2. A PF and its VFs and subfunctions exclude each other, because a pod with the PF controls all of
   them. The PF consumes all `functions` of its counter set, each of the others one.
3. With list attributes, a NUMA node is published as a list: the node, then the nearest nodes, as
   many as the limit allows. For a server without lists only the node is published.
4. A device that several claims may have has its link speed as capacity, in bits per second. The
   scheduler accounts for it, and a child is limited to its share
   (dranet_nri/plan/settings/rate.py). A request without capacity gets a share without a limit.

Origin: KEP-5055 (taints), KEP-4815 (counters), KEP-5075 (consumable capacity), KEP-5491 (lists),
KEP-6072 (NUMA nodes).
"""

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from typing import Final

from dra_shim.cel import Near, numa_list
from dra_shim.cel.values import OneOrMore
from dra_shim.pool.health import UNATTACHABLE
from dra_shim.resourceapi import Capacity, CounterValue, Policy, SliceDevice, Taint
from dranet_nri.component.replace import replace
from dranet_nri.inventory import (
    MAX_ATTRIBUTES,
    NUMA_NODE,
    HostFacts,
    Memo,
    pci_device_name,
    within_budget,
)
from dranet_nri.model import BANDWIDTH, DRIVER_NAME, AttributeValue, Device

UNHEALTHY: Final = "dra.net/unhealthy"
FUNCTIONS: Final = "functions"
MAX_VALUES: Final = 48  # ResourceSliceMaxAttributeValuesPerDevice
MAX_COUNTERS: Final = 512  # cached counters: two for each PF

_SPEED: Final = "dra.net/linkSpeed"  # Mbit/s
_MEGABIT: Final = Fraction(10**6)
_SUBFUNCTION_BUS: Final = "auxiliary"


class Feature(StrEnum):
    """A feature that a server can lack, named by its feature gate."""

    TAINTS = "DRADeviceTaints"
    COUNTERS = "DRAPartitionableDevices"
    SHARING = "DRAConsumableCapacity"
    LISTS = "DRAListTypeAttributes"


@dataclass(frozen=True, slots=True)
class DriverResources:
    """Devices that a node publishes.

    Attributes:
        devices: sorted by name.
        counters: counter sets of PFs and their VFs.
    """

    devices: tuple[SliceDevice, ...] = ()
    counters: tuple[CounterValue, ...] = ()

    @property
    def features(self) -> frozenset[Feature]:
        """Return the features that a server needs to accept all fields."""
        found = set()
        for device in self.devices:
            found |= {Feature.TAINTS} if device.taints else set()
            found |= {Feature.COUNTERS} if device.counters else set()
            found |= {Feature.SHARING} if device.shared else set()
            found |= {Feature.LISTS} if device.lists else set()
        return frozenset(found)


def driver_resources(
    node: str,
    devices: Iterable[Device],
    shared: frozenset[str] = frozenset(),
    unhealthy: Mapping[str, str] | None = None,
    physical: Mapping[str, str] | None = None,
    near: Near | None = None,
    memo: Memo | None = None,
) -> DriverResources:
    """Return the devices that a node publishes.

    Args:
        node: name of the node and of its pool.
        devices: the publishable devices.
        shared: names of devices that several claims may have.
        unhealthy: see health.unhealthy_reasons.
        physical: see physical_functions.
        near: NUMA node → the list to publish for it; None to publish no lists.
        memo: cache of the scans, None to compute everything.
    """
    memo = memo or Memo()
    ordered = sorted(devices, key=attrgetter("name"))
    consumed, counter_sets = _functions(ordered, shared, physical or {})

    def published(device: Device) -> SliceDevice:
        state = (device.name in shared, (unhealthy or {}).get(device.name, ""))
        counters = consumed.get(device.name, ())
        return memo.get(
            (_slice_device, node, device.name, *state),
            (device, near, counters),
            lambda: replace(_slice_device(node, device, state, near), counters=counters),
        )

    return DriverResources(tuple(map(published, ordered)), counter_sets)


def conflicts_of(
    devices: Iterable[Device], shared: frozenset[str], physical: Mapping[str, str]
) -> Mapping[str, frozenset[str]]:
    """Return device name → names of devices that no other pod may have at the same time.

    The rule is that of the counters, for servers without them. Arguments are those of
    `driver_resources`.
    """
    consumed, counters = _functions(list(devices), shared, physical)
    total = {counter.set: counter.value for counter in counters}
    members: dict[str, set[str]] = defaultdict(set)  # by counter set
    functions: dict[str, set[str]] = defaultdict(set)  # PFs: they consume a whole counter set
    for name, (counter,) in consumed.items():
        members[counter.set].add(name)
        if counter.value == total[counter.set]:
            functions[counter.set].add(name)
    return {
        name: frozenset(
            members[counter.set] - {name}
            if name in functions[counter.set]
            else functions[counter.set]
        )
        for name, (counter,) in consumed.items()
    }


def without(resources: DriverResources, unknown: frozenset[Feature]) -> DriverResources:
    """Return the devices that can be published to a server without some features.

    Without sharing, a shared device is omitted, because a single claim would move it off the host.
    Without taints, a device that cannot be attached is omitted, because its pod would wait.
    """
    devices = resources.devices
    if Feature.SHARING in unknown:
        devices = tuple(device for device in devices if not device.shared)
    if Feature.LISTS in unknown:
        devices = tuple(replace(device, attributes=_scalars(device)) for device in devices)
    if Feature.TAINTS in unknown:
        devices = tuple(
            replace(device, taints=()) for device in devices if not _is_unattachable(device)
        )
    if Feature.COUNTERS not in unknown:
        return DriverResources(devices, resources.counters)
    return DriverResources(tuple(replace(device, counters=()) for device in devices))


def physical_functions(facts: HostFacts) -> Mapping[str, str]:
    """Return address of a VF → address of its PF."""
    return {
        function.address: function.physical for function in facts.functions if function.physical
    }


def near_of(facts: HostFacts) -> Near:
    """Return NUMA node → the node and the nearest others."""
    return {nodes[0]: nodes for nodes in facts.numa_near}


def _is_unattachable(device: SliceDevice) -> bool:
    return any(taint.key == UNHEALTHY and taint.value in UNATTACHABLE for taint in device.taints)


def _scalars(device: SliceDevice) -> tuple[tuple[str, OneOrMore], ...]:
    """Return the attributes with the first value of each list; of a NUMA list that is the node."""
    return tuple(
        (name, value[0] if isinstance(value, tuple) else value) for name, value in device.attributes
    )


def _slice_device(
    node: str, device: Device, state: tuple[bool, str], near: Near | None
) -> SliceDevice:
    """Return one device; its state is whether it is shared, and its unhealthy reason."""
    shared, reason = state
    capacity = _capacity(device) if shared else ()
    room = MAX_ATTRIBUTES - len(capacity)
    return SliceDevice(
        DRIVER_NAME,
        node,
        device.name,
        _with_numa_lists(within_budget(dict(device.attributes), room), near),
        capacity,
        taints=(Taint(UNHEALTHY, reason),) if reason else (),
        shared=shared,
    )


def _with_numa_lists(
    attributes: tuple[tuple[str, AttributeValue], ...], near: Near | None
) -> tuple[tuple[str, OneOrMore], ...]:
    if near is None:
        return attributes
    room = MAX_VALUES - len(attributes) + 1
    return tuple(
        (name, numa_list(value, near)[:room] if name == NUMA_NODE else value)
        for name, value in attributes
    )


def _capacity(device: Device) -> tuple[Capacity, ...]:
    speed = device.attribute(_SPEED)
    if not isinstance(speed, int):
        return ()
    policy = Policy(Fraction(), (), Fraction(), None, _MEGABIT)
    return (Capacity(BANDWIDTH, speed * _MEGABIT, policy),)


def _functions(
    devices: Iterable[Device], shared: frozenset[str], physical: Mapping[str, str]
) -> tuple[Mapping[str, tuple[CounterValue, ...]], tuple[CounterValue, ...]]:
    """Return the consumed counters of each device by name, and the counter sets.

    A shared PF stays on the host and excludes no device. Ports of one PF exclude each other when
    the PF has VFs.
    """
    roles = [(device, *_role(device, physical)) for device in devices]
    functions = Tally(pf for _, pf, is_pf in roles if pf and not is_pf)  # VFs, subfunctions by PF
    exclusive = {pf for device, pf, is_pf in roles if is_pf and device.name not in shared}
    consumed: dict[str, tuple[CounterValue, ...]] = {}
    for device, pf, is_pf in roles:
        if functions[pf] and pf in exclusive and not (is_pf and device.name in shared):
            consumed[device.name] = _counters(pf, functions[pf] if is_pf else 1)
    return consumed, tuple(
        counter
        for pf in sorted(exclusive)
        if functions[pf]
        for counter in _counters(pf, functions[pf])
    )


@lru_cache(maxsize=MAX_COUNTERS)
def _counters(pf: str, amount: int) -> tuple[CounterValue, ...]:
    """Return an amount of a PF's counter; equal calls return the same object, as Memo needs."""
    return (CounterValue(pci_device_name(pf), FUNCTIONS, Fraction(amount)),)


def _role(device: Device, physical: Mapping[str, str]) -> tuple[str, bool]:
    """Return (address of the device's PF or "", whether the device is the PF)."""
    address = device.key.pci
    pf = physical.get(address)
    if pf:
        return pf, False
    return address, bool(address) and device.key.bus != _SUBFUNCTION_BUS
