"""Depth-first, first fit, with back-tracking over combinations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dra_shim.allocator.candidates import Candidate, Slot, typed_attribute
from dra_shim.allocator.errors import AllocationError
from dra_shim.claims import Constraint
from dranet_nri.model import AttributeValue, Device

# Devices tried before giving up. A search that looks ahead needs few; only requests that compete
# for the same devices without a constraint between them can come near.
MAX_TRIES: Final = 20_000

Typed = tuple[str, AttributeValue]


def search(slots: Sequence[Slot]) -> tuple[tuple[Device, ...], ...] | None:
    """Return the devices of each slot, or None if there is no answer.

    Raises:
        SelectorError: a selector failed on a device that was tried.
        AllocationError: no answer was found within MAX_TRIES.
    """
    run = _Search(slots)
    return tuple(map(tuple, run.chosen)) if run.place(0, 0) else None


@dataclass(frozen=True, slots=True)
class _Option:
    """A candidate with what each constraint of its slot would compare."""

    candidate: Candidate
    values: tuple[tuple[Constraint, Typed | None], ...]

    @property
    def device(self) -> Device:
        return self.candidate.device


class _Search:
    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._options = [list(_options(slot)) for slot in slots]
        self._taken: set[str] = set()
        self._agreed: dict[tuple[int, Constraint], Typed] = {}
        self._tries = 0
        self.chosen: list[list[Device]] = [[] for _ in slots]

    def place(self, index: int, start: int) -> bool:
        """Fill slot index from its option start on, then the slots after it."""
        if index == len(self._slots):
            return True
        if self._wanting(index) == 0:
            return self.place(index + 1, 0)
        for position in range(start, len(self._options[index])):
            option = self._options[index][position]
            if not self._is_open(index, option):
                continue
            if option.candidate.failure is not None:
                raise option.candidate.failure
            self._count_try()
            agreed = self._take(index, option)
            if self._can_finish(index, position + 1) and self.place(index, position + 1):
                return True
            self._give_back(index, option, agreed)
        return False

    def _wanting(self, index: int) -> int:
        return self._slots[index].request.count - len(self.chosen[index])

    def _is_open(self, index: int, option: _Option) -> bool:
        """Whether an option may be taken now; one whose selector failed is not yet decided."""
        if option.device.name in self._taken:
            return False
        claim = self._slots[index].claim
        return option.candidate.failure is not None or all(
            value is not None and self._agreed.get((claim, constraint), value) == value
            for constraint, value in option.values
        )

    def _can_finish(self, index: int, start: int) -> bool:
        """Look ahead: does each slot still have enough options, taken by itself?"""
        for later in range(index, len(self._slots)):
            wanting = self._wanting(later)
            options = self._options[later]
            position = start if later == index else 0
            while wanting > 0 and position < len(options):
                wanting -= self._is_open(later, options[position])
                position += 1
            if wanting > 0:
                return False
        return True

    def _take(self, index: int, option: _Option) -> list[tuple[int, Constraint]]:
        """Take an option; return the constraints whose value it was the first to set."""
        self._taken.add(option.device.name)
        self.chosen[index].append(option.device)
        claim = self._slots[index].claim
        first: list[tuple[int, Constraint]] = []
        for constraint, value in option.values:
            key = (claim, constraint)
            if value is not None and key not in self._agreed:
                self._agreed[key] = value
                first.append(key)
        return first

    def _give_back(
        self, index: int, option: _Option, agreed: Sequence[tuple[int, Constraint]]
    ) -> None:
        self._taken.discard(option.device.name)
        self.chosen[index].pop()
        for key in agreed:
            del self._agreed[key]

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


def _options(slot: Slot) -> Iterator[_Option]:
    for candidate in slot.candidates:
        if not candidate.reason:
            values = tuple(
                (each, typed_attribute(candidate.device, each.attribute))
                for each in slot.constraints
            )
            yield _Option(candidate, values)
