"""Slice layout: the assignment of devices to the slices of the pool.

Rules:
1. A slice has 128 devices, or 64 if one of them has taints or lists or consumes counters. Counters
   are in separate slices of 8 sets. A pool without devices is one empty slice.
2. A device stays in its slice while there is room, so that a change of few devices changes few
   slices. A slice that must shrink moves its last devices. The pool is laid out again, in the order
   of names, only if it would keep more slices than it needs at 64 devices each.
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
    offers: tuple[SliceDevice, ...] = ()
    counters: tuple[CounterValue, ...] = ()


def laid_out(
    node: str, resources: DriverResources, before: Mapping[str, Sequence[str]]
) -> tuple[SliceContent, ...]:
    """Return the slices of the pool, those with devices first.

    Args:
        node: name of the node and of its pool.
        resources: devices of the node.
        before: name of a published slice → names of its devices.
    """
    unplaced = {device.name: device for device in resources.offers}
    groups: dict[str, _Group] = {}
    loose: list[SliceDevice] = []
    for name in _own(node, before):
        groups[name] = _Group(
            [unplaced.pop(device) for device in before[name] if device in unplaced]
        )
        loose += groups[name].shed()
    loose += unplaced.values()
    needed = -(-len(resources.offers) // MAX_ADVANCED)
    if sum(bool(group.offers) for group in groups.values()) > needed:
        groups, loose = {}, [*resources.offers]
    groups = {name: group for name, group in groups.items() if group.offers}
    _fill(node, groups, loose)
    parts = [SliceContent(name, _sorted(groups[name].offers)) for name in sorted(groups)]
    return (
        *(parts or [SliceContent(slice_name(node, 0))]),
        *_counter_parts(node, resources.counters),
    )


def slice_name(node: str, index: int) -> str:
    """Return the name of a slice with devices."""
    return named(node, f"{index:03d}")


def counters_name(node: str, index: int) -> str:
    """Return the name of a slice with counters, which sorts after those with devices."""
    return named(node, f"counters-{index:03d}")


def named(node: str, ending: str) -> str:
    """Return a name for a slice of the node; the ending makes it unique."""
    room = MAX_NAME - len(f"-{DRIVER_NAME}-") - MAX_ENDING
    if len(node) > room:
        mark = f"-{hashlib.sha256(node.encode()).hexdigest()[:8]}"
        node = node[: room - len(mark)].rstrip(".-") + mark
    return f"{node}-{DRIVER_NAME}-{ending}"


def is_own(node: str, name: str) -> bool:
    """Return whether this layout assigns a name to a slice of the node; kubernetes' helper does
    not.
    """
    stem = named(node, "")
    ending = name.removeprefix(stem).removeprefix("counters-")
    return name.startswith(stem) and bool(_INDEX.fullmatch(ending))


def _own(node: str, before: Iterable[str]) -> list[str]:
    """Return the names of slices with devices that this layout assigns."""
    counters = named(node, "counters-")
    return sorted(name for name in before if is_own(node, name) and not name.startswith(counters))


def _advanced(offer: SliceDevice) -> bool:
    return bool(offer.taints or offer.counters or offer.lists)


class _Group:
    """Devices of one slice during the layout."""

    def __init__(self, offers: list[SliceDevice]) -> None:
        self.offers = offers
        self._advanced = sum(map(_advanced, offers))

    def fits(self, *, advanced: bool) -> bool:
        """Return whether there is room for one more; once full, always false."""
        limit = MAX_ADVANCED if advanced or self._advanced else MAX_DEVICES
        return len(self.offers) < limit

    def add(self, offer: SliceDevice) -> None:
        """Append a device."""
        self.offers.append(offer)
        self._advanced += _advanced(offer)

    def shed(self) -> Iterator[SliceDevice]:
        """Remove and yield the last devices above the limit of a slice."""
        while len(self.offers) > (MAX_ADVANCED if self._advanced else MAX_DEVICES):
            offer = self.offers.pop()
            self._advanced -= _advanced(offer)
            yield offer


def _fill(node: str, groups: dict[str, _Group], loose: Iterable[SliceDevice]) -> None:
    """Put each device into the first slice with room, or into a new one."""
    names = (slice_name(node, index) for index in count())
    unused = (name for name in names if name not in groups)
    # True: for devices with advanced features
    with_room = {kind: deque(sorted(groups)) for kind in (False, True)}
    for offer in _sorted(loose):
        advanced = _advanced(offer)
        while with_room[advanced] and not groups[with_room[advanced][0]].fits(advanced=advanced):
            with_room[advanced].popleft()
        if not with_room[advanced]:
            name = next(unused)
            groups[name] = _Group([])
            with_room = {kind: deque(sorted([*names, name])) for kind, names in with_room.items()}
        groups[with_room[advanced][0]].add(offer)


def _sorted(offers: Iterable[SliceDevice]) -> tuple[SliceDevice, ...]:
    return tuple(sorted(offers, key=lambda offer: offer.name))


def _counter_parts(node: str, counters: Sequence[CounterValue]) -> tuple[SliceContent, ...]:
    chunks = {
        name: at // MAX_SETS
        for at, name in enumerate(sorted({counter.set for counter in counters}))
    }
    parts: dict[int, list[CounterValue]] = {}
    for entry in counters:
        parts.setdefault(chunks[entry.set], []).append(entry)
    return tuple(
        SliceContent(counters_name(node, index), counters=tuple(parts[index]))
        for index in sorted(parts)
    )
