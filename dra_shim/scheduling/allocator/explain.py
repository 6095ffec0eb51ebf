"""Explanation of a failed search: reasons, device by device."""

from collections.abc import Iterator, Sequence
from itertools import product

from dra_shim.cel import SelectorError
from dra_shim.scheduling.allocator.candidates import (
    Candidate,
    PendingRequest,
    RequestAlternative,
    show_attribute,
)
from dra_shim.scheduling.allocator.errors import AllocationError
from dra_shim.scheduling.allocator.pools import CandidatePools
from dra_shim.scheduling.allocator.search import Search
from dra_shim.scheduling.allocator.usage import Usage, values_of

_REMEDY = "free a device, or relax the selectors or constraints"


def explain(wants: Sequence[PendingRequest], supply: CandidatePools) -> tuple[str, ...]:
    """Return why not all requests can be allocated, device by device."""
    lines: list[str] = []
    for part, alone in _unmet(wants, supply):
        lines.append(_headline(part, alone=alone))
        lines += _device_lines(part, supply)
    return tuple(lines)


def headlines(wants: Sequence[PendingRequest], supply: CandidatePools) -> tuple[str, ...]:
    """Return why not all requests can be allocated, one line per request."""
    return tuple(_headline(part, alone=alone) for part, alone in _unmet(wants, supply))


def _unmet(
    wants: Sequence[PendingRequest], supply: CandidatePools
) -> Iterator[tuple[RequestAlternative, bool]]:
    """Yield the alternatives that cannot be allocated even alone; all if each can be."""
    hopeless = [want for want in wants if _is_hopeless(want, supply)]
    for want in hopeless or wants:
        for part in want.parts:
            yield part, bool(hopeless)


def _is_hopeless(want: PendingRequest, supply: CandidatePools) -> bool:
    """Return whether the request cannot be allocated even alone."""
    try:
        return not Search((want,), supply).run()
    except (SelectorError, AllocationError):
        return False


def _best(part: RequestAlternative) -> int:
    """Return an upper bound of the devices that the alternative can get alone."""
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for option in part.options:
        if not _missing(option, part):
            compared = (
                values_of(option.offer, one.attribute)
                for one in part.constraints
                if not one.distinct
            )
            for agreed in product(*compared):
                groups.setdefault(agreed, []).append(option)
    return max((_most_distinct(group, part) for group in groups.values()), default=0)


def _most_distinct(group: Sequence[Candidate], part: RequestAlternative) -> int:
    values = (
        len({values_of(candidate.offer, one.attribute) for candidate in group})
        for one in part.constraints
        if one.distinct
    )
    return min(values, default=len(group))


def _missing(candidate: Candidate, part: RequestAlternative) -> list[str]:
    return [
        f"{constraint.kind} {constraint.attribute}"
        for constraint in part.constraints
        if candidate.offer.attribute(constraint.attribute) is None
    ]


def _device_lines(part: RequestAlternative, supply: CandidatePools) -> Iterator[str]:
    title = _title(part)
    usage = Usage(supply)
    for candidate in part.candidates:
        yield f"{title}: device {candidate.offer.name}: {_state(candidate, part, usage)}"
    for name, why in supply.excluded:
        yield f"{title}: device {name}: not published: {why}"


def _title(part: RequestAlternative) -> str:
    return f"claim {part.label}: request {part.request.name}"


def _headline(part: RequestAlternative, *, alone: bool) -> str:
    return f"{_title(part)}: {_shortage(part, alone=alone)}"


def _shortage(part: RequestAlternative, *, alone: bool) -> str:
    count = part.count
    needed = f"needs {count} device{'s' if count > 1 else ''}"
    if part.request.every:
        needed = f"needs every device that its selectors choose ({len(part.options)})"
    if part.blocked:
        return f"{needed}: {part.blocked}; {_REMEDY}"
    if not alone:
        return (
            f"{needed} and could have them alone, but not together with the other requests; "
            f"{_REMEDY}"
        )
    best = _best(part)
    if best < count:
        return f"{needed}, {best} of {len(part.candidates)} can be had together; {_REMEDY}"
    return (
        f"{needed}, but no {count} of the {len(part.options)} that fit go together; {_REMEDY}"
        f"{_of_shortage(part)}"
    )


def _of_shortage(part: RequestAlternative) -> str:
    """Return further remedies for devices that share capacity or counters."""
    if any(option.share.amounts for option in part.options):
        return ", or ask for less capacity"
    if any(option.offer.counters for option in part.options):
        return (
            "; a device whose counter is used up waits for those that draw on it: a physical "
            "function and its virtual functions exclude each other"
        )
    return ""


def _state(candidate: Candidate, part: RequestAlternative, usage: Usage) -> str:
    if candidate.failure is not None and not candidate.holder:
        return candidate.failure.reason
    if candidate.why_not:
        return candidate.why_not
    missing = _missing(candidate, part)
    if missing:
        return f"{missing[0]}: the device has no such attribute"
    exhausted = usage.exhausted(candidate)
    if exhausted:
        return exhausted
    values = [
        f"{constraint.kind}: {constraint.attribute} is {show_attribute(value)}"
        for constraint in part.constraints
        if (value := candidate.offer.attribute(constraint.attribute)) is not None
    ]
    return "; ".join(["fits", *values])
