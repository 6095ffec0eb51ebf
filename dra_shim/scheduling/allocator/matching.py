"""Feasibility of an unmet constraint: devices that could meet it together with a given one.

Rules:
1. The constraint is checked alone, with the requests that it binds. Other constraints and requests,
   and exhausted capacity and counters, are ignored.
2. An answer is always true. There is no answer where it would need a search: lists of values that
   must differ, many alternatives, devices on which a selector fails.
"""

from collections.abc import Hashable, Iterable, Sequence
from itertools import product
from math import prod
from typing import Final

from dra_shim.resourceapi import MAX_DEVICES, Constraint
from dra_shim.scheduling.allocator.candidates import Candidate, PendingRequest, RequestAlternative
from dra_shim.scheduling.allocator.usage import Values, values_of

MAX_WAYS: Final = 16  # combinations of alternatives that are tried

# for each requested device: the tokens that it can have, of which it needs one
Slots = list[list[Hashable]]


def can_meet(
    wants: Sequence[PendingRequest],
    part: RequestAlternative,
    candidate: Candidate,
    constraint: Constraint,
) -> bool | None:
    """Return whether devices exist that meet a constraint with this one; None if unknown.

    The device has the attribute. It counts as one of the alternative's devices, even if another
    check excludes it.
    """
    others = [
        want.parts
        for want in wants
        if want.claim == part.claim and all(sibling is not part for sibling in want.parts)
    ]
    if prod(map(len, others)) > MAX_WAYS:
        return None
    found = {
        _can_meet((part, *(peer for peer in way if constraint in peer.constraints)),
                  candidate, constraint)
        for way in product(*others)
    }  # fmt: skip
    return True if True in found else None if None in found else False


def _can_meet(
    parts: Sequence[RequestAlternative], candidate: Candidate, constraint: Constraint
) -> bool | None:
    if sum(part.count for part in parts) > MAX_DEVICES:
        return None
    own = values_of(candidate.offer, constraint.attribute)
    options = [_options(part, candidate, first=not index) for index, part in enumerate(parts)]
    numbers = [number for _, number in options]
    sure = [[option for option in some if _is_plain(option, constraint)] for some, _ in options]
    if _meets(sure, numbers, own, constraint):
        return True
    return None if _meets([some for some, _ in options], numbers, own, constraint) else False


def _is_plain(option: Candidate, constraint: Constraint) -> bool:
    """Return whether the device can be allocated for certain, with a single value for the
    constraint.
    """
    several = constraint.distinct and len(values_of(option.offer, constraint.attribute)) > 1
    return option.failure is None and not several


def _options(
    part: RequestAlternative, candidate: Candidate, *, first: bool
) -> tuple[list[Candidate], int]:
    """Return the further candidates of an alternative, and the number of devices it still needs."""
    others = [
        option
        for option in part.options
        if option.offer.shared or option.offer.id != candidate.offer.id
    ]
    extra = part.request.every and candidate not in part.options
    return others, part.count - (first and not extra)


def _meets(
    options: Sequence[Sequence[Candidate]],
    numbers: Sequence[int],
    own: Values,
    constraint: Constraint,
) -> bool:
    if constraint.distinct:
        return _all_placed([
            [value for option in some
             if own.isdisjoint(values := values_of(option.offer, constraint.attribute))
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
    """Return the slots of devices with a value; each share of a shared device has a token."""
    return [
        [(option.offer.id, (which, turn) if option.offer.shared else ()) for option in some
         if value in values_of(option.offer, attribute)]
        for which, (some, number) in enumerate(zip(options, numbers, strict=True))
        for turn in range(number)
    ]  # fmt: skip


def _all_placed(slots: Slots) -> bool:
    """Return whether each slot can have its own token (augmenting paths)."""
    held: dict[Hashable, int] = {}

    def place(slot: int, visited: set[Hashable]) -> bool:
        for token in slots[slot]:
            if token not in visited:
                visited.add(token)
                if token not in held or place(held[token], visited):
                    held[token] = slot
                    return True
        return False

    return all(place(slot, set()) for slot in range(len(slots)))
