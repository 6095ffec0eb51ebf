"""Pool builder: the node's devices as they are published.

Rules:
1. An unhealthy device is tainted, and its pod is never evicted, because it may still use the
   device.
2. A PF and its VFs and subfunctions exclude each other, because a pod with the PF controls all of
   them. The PF consumes all `functions` of its counter set, each of the others one.
3. With list attributes, a NUMA node is published as a list: the node, then the nearest nodes, as
   many as the limit allows. A server without lists gets only the node.
4. A device that several claims may have has its link speed as capacity, in bits per second. The
   scheduler accounts for it, and a child is limited to its share
   (dranet_nri/plan/settings/rate.py). A request without capacity gets a share without a limit.

Origin: KEP-5055 (taints), KEP-4815 (counters), KEP-5075 (consumable capacity), KEP-5491 (lists),
KEP-6072 (NUMA nodes).
"""

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from typing import Final

from dra_shim.cel import Near, numa_list
from dra_shim.cel.values import OneOrMore
from dra_shim.pool.health import UNATTACHABLE
from dra_shim.resourceapi import Capacity, CounterValue, Policy, SliceDevice, Taint
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
_ON_PF: Final = "auxiliary"  # the bus of subfunctions


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
        offers: sorted by name.
        counters: counter sets of PFs and their VFs.
    """

    offers: tuple[SliceDevice, ...] = ()
    counters: tuple[CounterValue, ...] = ()

    @property
    def features(self) -> frozenset[Feature]:
        """Return the features that a server needs to accept all fields."""
        found = set()
        for offer in self.offers:
            found |= {Feature.TAINTS} if offer.taints else set()
            found |= {Feature.COUNTERS} if offer.counters else set()
            found |= {Feature.SHARING} if offer.shared else set()
            found |= {Feature.LISTS} if offer.lists else set()
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
        near: NUMA node -> the list to publish for it; None to publish no lists.
        memo: cache of a started pass, None to compute everything.
    """
    memo = memo or Memo()
    ordered = sorted(devices, key=attrgetter("name"))
    consumed, counters = _functions(ordered, shared, physical or {})

    def offer(device: Device) -> SliceDevice:
        state = (device.name in shared, (unhealthy or {}).get(device.name, ""))
        draws = consumed.get(device.name, ())
        return memo.get(
            (_offer, node, device.name, *state),
            (device, near, draws),
            lambda: replace(_offer(node, device, state, near), counters=draws),
        )

    return DriverResources(tuple(map(offer, ordered)), counters)


def conflicts_of(
    devices: Iterable[Device], shared: frozenset[str], physical: Mapping[str, str]
) -> Mapping[str, frozenset[str]]:
    """Return device name -> names of devices that no other pod may have at the same time.

    This is the rule of the counters, for servers without them. Arguments are those of
    `driver_resources`.
    """
    consumed, counters = _functions(list(devices), shared, physical)
    total = {counter.set: counter.value for counter in counters}
    members: dict[str, set[str]] = defaultdict(set)
    owners: dict[str, set[str]] = defaultdict(set)  # devices that consume a whole counter set
    for name, (own,) in consumed.items():
        members[own.set].add(name)
        if own.value == total[own.set]:
            owners[own.set].add(name)
    parts = {counter_set: frozenset(names) for counter_set, names in owners.items()}
    return {
        name: frozenset(members[own.set] - {name})
        if name in owners[own.set]
        else parts.get(own.set, frozenset())
        for name, (own,) in consumed.items()
    }


def without(resources: DriverResources, unknown: frozenset[Feature]) -> DriverResources:
    """Return the devices that can be published to a server without some features.

    Without sharing, a shared device is omitted, because a single claim would move it off the host.
    Without taints, a device that cannot be attached is omitted, because its pod would wait.
    """
    offers = resources.offers
    if Feature.SHARING in unknown:
        offers = tuple(device for device in offers if not device.shared)
    if Feature.LISTS in unknown:
        offers = tuple(replace(device, attributes=_scalars(device)) for device in offers)
    if Feature.TAINTS in unknown:
        offers = tuple(
            replace(device, taints=()) for device in offers if not _is_unattachable(device)
        )
    if Feature.COUNTERS not in unknown:
        return DriverResources(offers, resources.counters)
    return DriverResources(tuple(replace(device, counters=()) for device in offers))


def physical_functions(facts: HostFacts) -> Mapping[str, str]:
    """Return address of a VF -> address of its PF."""
    return {
        function.address: function.physical for function in facts.functions if function.physical
    }


def near_of(facts: HostFacts) -> Near:
    """Return NUMA node -> the node and the nearest others."""
    return {nodes[0]: nodes for nodes in facts.numa_near}


def _is_unattachable(offer: SliceDevice) -> bool:
    return any(taint.key == UNHEALTHY and taint.value in UNATTACHABLE for taint in offer.taints)


def _scalars(offer: SliceDevice) -> tuple[tuple[str, OneOrMore], ...]:
    """Return the attributes with the first value of each list; for a NUMA node that is the node."""
    return tuple(
        (name, value[0] if isinstance(value, tuple) else value) for name, value in offer.attributes
    )


def _offer(node: str, device: Device, state: tuple[bool, str], near: Near | None) -> SliceDevice:
    """Return one device; its state is whether it is shared, and its unhealthy reason."""
    shared, reason = state
    capacity = _capacity(device) if shared else ()
    room = MAX_ATTRIBUTES - len(capacity)
    return SliceDevice(
        DRIVER_NAME,
        node,
        device.name,
        _listed(within_budget(dict(device.attributes), room), near),
        capacity,
        taints=(Taint(UNHEALTHY, reason),) if reason else (),
        shared=shared,
    )


def _listed(
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
    below = Tally(pf for _, pf, is_pf in roles if pf and not is_pf)
    above = {pf for device, pf, is_pf in roles if is_pf and device.name not in shared}
    consumed: dict[str, tuple[CounterValue, ...]] = {}
    for device, pf, is_pf in roles:
        if below[pf] and pf in above and not (is_pf and device.name in shared):
            consumed[device.name] = _counters(pf, below[pf] if is_pf else 1)
    return consumed, tuple(
        counter for pf in sorted(above) if below[pf] for counter in _counters(pf, below[pf])
    )


@lru_cache(maxsize=MAX_COUNTERS)
def _counters(pf: str, amount: int) -> tuple[CounterValue, ...]:
    """Return an amount of a PF's counter; always the same object, see Memo."""
    return (CounterValue(pci_device_name(pf), FUNCTIONS, Fraction(amount)),)


def _role(device: Device, physical: Mapping[str, str]) -> tuple[str, bool]:
    """Return the address of the PF of a device, "" if there is none, and whether the device is the
    PF.
    """
    address = device.key.pci
    pf = physical.get(address)
    if pf:
        return pf, False
    return address, bool(address) and device.key.bus != _ON_PF
