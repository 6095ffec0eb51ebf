"""Feasibility of an unmet constraint: devices that could meet it together with a given one.

Rules:
1. The constraint is checked alone, with the requests that it binds. Other constraints and requests,
   and exhausted capacity and counters, are ignored.
2. The result is exact or None. It is None where only a search could decide: lists of values that
   must differ, many alternatives, devices on which a selector fails.
"""

from collections.abc import Hashable, Iterable, Sequence
from itertools import product
from math import prod
from typing import Final

from dra_shim.resourceapi import MAX_DEVICES, Constraint
from dra_shim.scheduling.allocator.candidates import Candidate, PendingRequest, RequestAlternative
from dra_shim.scheduling.allocator.usage import Values, values_of

MAX_COMBINATIONS: Final = 16  # of alternatives that are tried

# for each requested device: the tokens that it can have, of which it needs one
Slots = list[list[Hashable]]


def can_meet(
    pending: Sequence[PendingRequest],
    alternative: RequestAlternative,
    candidate: Candidate,
    constraint: Constraint,
) -> bool | None:
    """Return whether devices exist that meet a constraint with this one; None if unknown.

    The device has the attribute. It counts as one of the alternative's devices, even if another
    check excludes it.
    """
    others = [
        request.alternatives
        for request in pending
        if request.claim == alternative.claim
        and all(sibling is not alternative for sibling in request.alternatives)
    ]
    if prod(map(len, others)) > MAX_COMBINATIONS:
        return None
    found = {
        _can_meet((alternative, *_constrained(combination, constraint)), candidate, constraint)
        for combination in product(*others)
    }
    return True if True in found else None if None in found else False


def _constrained(
    alternatives: Iterable[RequestAlternative], constraint: Constraint
) -> Iterable[RequestAlternative]:
    return (other for other in alternatives if constraint in other.constraints)


def _can_meet(
    alternatives: Sequence[RequestAlternative], candidate: Candidate, constraint: Constraint
) -> bool | None:
    if sum(alternative.count for alternative in alternatives) > MAX_DEVICES:
        return None
    own = values_of(candidate.device, constraint.attribute)
    options = [
        _options(alternative, candidate, first=not index)
        for index, alternative in enumerate(alternatives)
    ]
    numbers = [number for _, number in options]
    certain = [[option for option in some if _is_plain(option, constraint)] for some, _ in options]
    if _meets(certain, numbers, own, constraint):
        return True
    return None if _meets([some for some, _ in options], numbers, own, constraint) else False


def _is_plain(option: Candidate, constraint: Constraint) -> bool:
    """Return whether the device can be allocated for certain, with a single value for the
    constraint.
    """
    several = constraint.distinct and len(values_of(option.device, constraint.attribute)) > 1
    return option.failure is None and not several


def _options(
    alternative: RequestAlternative, candidate: Candidate, *, first: bool
) -> tuple[list[Candidate], int]:
    """Return the further candidates of an alternative, and the number of devices it still needs."""
    others = [
        option
        for option in alternative.options
        if option.device.shared or option.device.id != candidate.device.id
    ]
    extra = alternative.request.all_devices and candidate not in alternative.options
    return others, alternative.count - (first and not extra)


def _meets(
    options: Sequence[Sequence[Candidate]],
    numbers: Sequence[int],
    own: Values,
    constraint: Constraint,
) -> bool:
    if constraint.distinct:
        return _all_placed([
            [value for option in some
             if own.isdisjoint(values := values_of(option.device, constraint.attribute))
             for value in values]
            for some, number in zip(options, numbers, strict=True)
            for _ in range(number)
        ])  # fmt: skip
    return any(
        _all_placed(_sharing(value, options, numbers, constraint.attribute)) for value in own
    )


def _sharing(
    value: Hashable,
    options: Iterable[Sequence[Candidate]],
    numbers: Iterable[int],
    attribute: str,
) -> Slots:
    """Return the slots of devices with a value; each share of a shared device has its own token."""
    return [
        [(option.device.id, (which, turn) if option.device.shared else ()) for option in some
         if value in values_of(option.device, attribute)]
        for which, (some, number) in enumerate(zip(options, numbers, strict=True))
        for turn in range(number)
    ]  # fmt: skip


def _all_placed(slots: Slots) -> bool:
    """Return whether each slot can have its own token (augmenting paths)."""
    slot_of: dict[Hashable, int] = {}

    def place(slot: int, visited: set[Hashable]) -> bool:
        for token in slots[slot]:
            if token not in visited:
                visited.add(token)
                if token not in slot_of or place(slot_of[token], visited):
                    slot_of[token] = slot
                    return True
        return False

    return all(place(slot, set()) for slot in range(len(slots)))
