"""Depth-first, first fit, with back-tracking over combinations."""

from collections.abc import Iterator, Sequence
from typing import Final

from dra_shim.allocator.candidates import Candidate, Slot, attribute_of
from dra_shim.allocator.errors import AllocationError
from dra_shim.claims import Constraint
from dranet_nri.model import Device

# Devices tried before giving up. A search that looks ahead needs few; only requests that compete
# for the same devices without a constraint between them can come near.
MAX_TRIES: Final = 20_000

Picks = tuple[tuple[Slot, Device], ...]


def search(slots: Sequence[Slot]) -> tuple[tuple[Device, ...], ...] | None:
    """Return the devices of each slot, or None if there is no answer.

    Raises:
        SelectorError: a selector failed on a device that was tried.
        AllocationError: no answer was found within MAX_TRIES.
    """
    picks = _Search(slots).place((), 0, 0)
    if picks is None:
        return None
    return tuple(tuple(device for owner, device in picks if owner is slot) for slot in slots)


class _Search:
    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._tries = 0

    def place(self, picks: Picks, index: int, start: int) -> Picks | None:
        """Fill slot index from its candidate start on, then the slots after it."""
        if index == len(self._slots):
            return picks
        slot = self._slots[index]
        if _taken_by(slot, picks) == slot.request.count:
            return self.place(picks, index + 1, 0)
        for position in range(start, len(slot.candidates)):
            candidate = slot.candidates[position]
            if not _usable(candidate, slot, picks):
                continue
            if candidate.failure is not None:
                raise candidate.failure
            self._count_try()
            more = (*picks, (slot, candidate.device))
            if self._can_finish(more, index, position + 1):
                found = self.place(more, index, position + 1)
                if found is not None:
                    return found
        return None

    def _can_finish(self, picks: Picks, index: int, start: int) -> bool:
        """Look ahead: does each slot still have enough devices, taken by itself?"""
        for later in range(index, len(self._slots)):
            slot = self._slots[later]
            rest = slot.candidates[start if later == index else 0 :]
            left = sum(_usable(candidate, slot, picks) for candidate in rest)
            if left < slot.request.count - _taken_by(slot, picks):
                return False
        return True

    def _count_try(self) -> None:
        self._tries += 1
        if self._tries > MAX_TRIES:
            names = ", ".join(f"{slot.label} request {slot.request.name}" for slot in self._slots)
            raise AllocationError(
                [
                    f"gave up after {MAX_TRIES} tries on: {names}; "
                    "make the selectors of competing requests disjoint, or ask for fewer devices"
                ]
            )


def _taken_by(slot: Slot, picks: Picks) -> int:
    return sum(owner is slot for owner, _ in picks)


def _usable(candidate: Candidate, slot: Slot, picks: Picks) -> bool:
    if candidate.reason or any(device is candidate.device for _, device in picks):
        return False
    return candidate.failure is not None or all(
        _admits(constraint, candidate.device, _bound(constraint, slot, picks))
        for constraint in slot.constraints
    )


def _bound(constraint: Constraint, slot: Slot, picks: Picks) -> Iterator[Device]:
    """Yield the devices already picked under a constraint of the slot's claim."""
    return (
        device
        for owner, device in picks
        if owner.claim == slot.claim and constraint.covers(owner.request.name)
    )


def _admits(constraint: Constraint, device: Device, bound: Iterator[Device]) -> bool:
    """Whether a device may join those bound by matchAttribute: same type, same value."""
    value = attribute_of(device, constraint.attribute)
    if value is None:
        return False
    first = next(bound, device)
    other = attribute_of(first, constraint.attribute)
    return type(other) is type(value) and other == value
