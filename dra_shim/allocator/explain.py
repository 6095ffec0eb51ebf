"""A search without an answer → lines that say why, device by device."""

from collections import Counter
from collections.abc import Iterator, Sequence

from dra_shim.allocator.candidates import Candidate, Slot, Stock, attribute_of, typed_attribute
from dranet_nri.config import show
from dranet_nri.model import AttributeValue, Version


def explain(slots: Sequence[Slot], stock: Stock) -> tuple[str, ...]:
    """Return why the slots cannot all be filled: the hopeless ones, or all if each has a chance."""
    hopeless = [slot for slot in slots if _best(slot) < slot.request.count]
    lines: list[str] = []
    for slot in hopeless or slots:
        lines += _slot_lines(slot, stock, alone=slot in hopeless)
    return tuple(lines)


def _best(slot: Slot) -> int:
    """Return how many devices the slot could get if it were alone."""
    free = [candidate for candidate in slot.candidates if not candidate.reason]
    if not slot.constraints:
        return len(free)
    groups = Counter(
        tuple(typed_attribute(each.device, c.attribute) for c in slot.constraints)
        for each in free
        if not _missing(each, slot)
    )
    return max(groups.values(), default=0)


def _missing(candidate: Candidate, slot: Slot) -> list[str]:
    return [
        constraint.attribute
        for constraint in slot.constraints
        if attribute_of(candidate.device, constraint.attribute) is None
    ]


def _slot_lines(slot: Slot, stock: Stock, *, alone: bool) -> Iterator[str]:
    title = f"claim {slot.label}: request {slot.request.name}"
    count = slot.request.count
    needed = f"needs {count} device{'s' if count > 1 else ''}"
    if alone:
        found = f"{_best(slot)} of {len(slot.candidates)} can be had together"
        yield f"{title}: {needed}, {found}; free a device, or relax the selectors or constraints"
    else:
        yield (
            f"{title}: {needed} and could have them alone, but not together with the other "
            "requests; free a device, or relax the selectors or constraints"
        )
    for candidate in slot.candidates:
        yield f"{title}: device {candidate.device.name}: {_state(candidate, slot)}"
    for name, why in stock.excluded:
        yield f"{title}: device {name}: not published: {why}"


def _state(candidate: Candidate, slot: Slot) -> str:
    if candidate.reason:
        return candidate.reason
    if candidate.failure is not None:
        return candidate.failure.reason
    missing = _missing(candidate, slot)
    if missing:
        return f"matchAttribute {missing[0]}: the device has no such attribute"
    values = [
        f"{each.attribute} is {_shown(attribute_of(candidate.device, each.attribute))}"
        for each in slot.constraints
    ]
    return f"fits; matchAttribute: {', '.join(values)}" if values else "fits"


def _shown(value: AttributeValue | None) -> str:
    return value.text if isinstance(value, Version) else show(value)
