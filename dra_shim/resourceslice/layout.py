"""Slice layout: the assignment of devices to the slices of the pool.

Rules:
1. A slice has 128 devices, or 64 if one of them has taints or lists or consumes counters. Counters
   are in separate slices of 8 sets. A pool without devices is one empty slice.
2. A device stays in its slice while there is room, so that a change of few devices changes few
   slices. A slice above its limit moves its last devices. The pool is laid out again, in the order
   of names, only if it would have more slices than it needs at 64 devices each.
3. Slices have fixed names, because the scheduler tries them in this order, and a slice whose
   creation was not confirmed is found again.

Origin: k8s.io/api/resource ResourceSliceSpec.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from dra_shim.pool import DriverResources
from dra_shim.resourceapi import CounterValue, SliceDevice
from dranet_nri.model import DRIVER_NAME

MAX_DEVICES: Final = 128  # ResourceSliceMaxDevices
MAX_ADVANCED: Final = 64  # ResourceSliceMaxDevicesWithAdvancedFeatures
MAX_SETS: Final = 8  # ResourceSliceMaxCounterSets
MAX_NAME: Final = 253  # length of a DNS subdomain
MAX_ENDING: Final = len("counters-000")  # length of a name

_INDEX: Final = re.compile("[0-9]{3}")


@dataclass(frozen=True, slots=True)
class SliceContent:
    """Content of one slice: devices, or the counters that devices consume."""

    name: str
    devices: tuple[SliceDevice, ...] = ()
    counters: tuple[CounterValue, ...] = ()


def laid_out(
    node: str, resources: DriverResources, previous: Mapping[str, Sequence[str]]
) -> tuple[SliceContent, ...]:
    """Return the slices of the pool, those with devices first.

    Args:
        node: name of the node and of its pool.
        resources: devices of the node.
        previous: name of a published slice → names of its devices.
    """
    remaining = {device.name: device for device in resources.devices}
    groups: dict[str, _Group] = {}
    unassigned: list[SliceDevice] = []
    for name in _own_names(node, previous):
        groups[name] = _Group(
            [remaining.pop(device) for device in previous[name] if device in remaining]
        )
        unassigned += groups[name].pop_surplus()
    unassigned += remaining.values()
    needed = -(-len(resources.devices) // MAX_ADVANCED)
    if sum(bool(group.devices) for group in groups.values()) > needed:
        groups, unassigned = {}, [*resources.devices]
    groups = {name: group for name, group in groups.items() if group.devices}
    _fill(node, groups, unassigned)
    contents = [SliceContent(name, _sorted(groups[name].devices)) for name in sorted(groups)]
    return (
        *(contents or [SliceContent(slice_name(node, 0))]),
        *_counter_contents(node, resources.counters),
    )


def slice_name(node: str, index: int) -> str:
    """Return the name of a slice with devices."""
    return object_name(node, f"{index:03d}")


def counters_name(node: str, index: int) -> str:
    """Return the name of a slice with counters, which sorts after those with devices."""
    return object_name(node, f"counters-{index:03d}")


def object_name(node: str, ending: str) -> str:
    """Return a name for a slice of the node; ending makes it unique on the node."""
    room = MAX_NAME - len(f"-{DRIVER_NAME}-") - MAX_ENDING
    if len(node) > room:
        mark = f"-{hashlib.sha256(node.encode()).hexdigest()[:8]}"
        node = node[: room - len(mark)].rstrip(".-") + mark
    return f"{node}-{DRIVER_NAME}-{ending}"


def is_own(node: str, name: str) -> bool:
    """Return whether this layout assigns the name; names of other drivers' slices differ."""
    stem = object_name(node, "")
    ending = name.removeprefix(stem).removeprefix("counters-")
    return name.startswith(stem) and bool(_INDEX.fullmatch(ending))


def _own_names(node: str, previous: Iterable[str]) -> list[str]:
    """Return the names of slices with devices that this layout assigns."""
    counters = object_name(node, "counters-")
    return sorted(name for name in previous if is_own(node, name) and not name.startswith(counters))


def _advanced(device: SliceDevice) -> bool:
    return bool(device.taints or device.counters or device.lists)


class _Group:
    """Devices of one slice during the layout."""

    def __init__(self, devices: list[SliceDevice]) -> None:
        self.devices = devices
        self._advanced = sum(map(_advanced, devices))

    def fits(self, *, advanced: bool) -> bool:
        """Return whether there is room for one more device."""
        limit = MAX_ADVANCED if advanced or self._advanced else MAX_DEVICES
        return len(self.devices) < limit

    def add(self, device: SliceDevice) -> None:
        """Append a device."""
        self.devices.append(device)
        self._advanced += _advanced(device)

    def pop_surplus(self) -> Iterator[SliceDevice]:
        """Remove and yield the last devices above the limit of a slice."""
        while len(self.devices) > (MAX_ADVANCED if self._advanced else MAX_DEVICES):
            device = self.devices.pop()
            self._advanced -= _advanced(device)
            yield device


def _fill(node: str, groups: dict[str, _Group], unassigned: Iterable[SliceDevice]) -> None:
    """Put each device into the first slice with room, or into a new one."""
    names = (slice_name(node, index) for index in count())
    unused = (name for name in names if name not in groups)
    # True: for devices with advanced features
    with_room = {kind: deque(sorted(groups)) for kind in (False, True)}
    for device in _sorted(unassigned):
        advanced = _advanced(device)
        while with_room[advanced] and not groups[with_room[advanced][0]].fits(advanced=advanced):
            with_room[advanced].popleft()
        if not with_room[advanced]:
            name = next(unused)
            groups[name] = _Group([])
            with_room = {kind: deque(sorted([*names, name])) for kind, names in with_room.items()}
        groups[with_room[advanced][0]].add(device)


def _sorted(devices: Iterable[SliceDevice]) -> tuple[SliceDevice, ...]:
    return tuple(sorted(devices, key=lambda device: device.name))


def _counter_contents(node: str, counters: Sequence[CounterValue]) -> tuple[SliceContent, ...]:
    chunks = {
        name: at // MAX_SETS
        for at, name in enumerate(sorted({counter.set for counter in counters}))
    }
    contents: dict[int, list[CounterValue]] = {}
    for entry in counters:
        contents.setdefault(chunks[entry.set], []).append(entry)
    return tuple(
        SliceContent(counters_name(node, index), counters=tuple(contents[index]))
        for index in sorted(contents)
    )
