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
from dra_shim.scheduling.allocator.pools import PoolSet
from dra_shim.scheduling.allocator.search import Search
from dra_shim.scheduling.allocator.usage import Usage, values_of

_REMEDY = "free a device, or relax the selectors or constraints"


def explain(pending: Sequence[PendingRequest], pool_set: PoolSet) -> tuple[str, ...]:
    """Return why not all requests can be allocated, device by device."""
    lines: list[str] = []
    for alternative, alone in _unmet(pending, pool_set):
        lines.append(_headline(alternative, alone=alone))
        lines += _device_lines(alternative, pool_set)
    return tuple(lines)


def headlines(pending: Sequence[PendingRequest], pool_set: PoolSet) -> tuple[str, ...]:
    """Return why not all requests can be allocated, one line per request."""
    return tuple(
        _headline(alternative, alone=alone) for alternative, alone in _unmet(pending, pool_set)
    )


def _unmet(
    pending: Sequence[PendingRequest], pool_set: PoolSet
) -> Iterator[tuple[RequestAlternative, bool]]:
    """Yield (alternative, whether its request is infeasible even alone).

    If each request is feasible alone, all alternatives are yielded.
    """
    infeasible = [request for request in pending if _is_infeasible(request, pool_set)]
    for request in infeasible or pending:
        for alternative in request.alternatives:
            yield alternative, bool(infeasible)


def _is_infeasible(request: PendingRequest, pool_set: PoolSet) -> bool:
    """Return whether the request cannot be allocated even alone."""
    try:
        return not Search((request,), pool_set).run()
    except (SelectorError, AllocationError):
        return False


def _best(alternative: RequestAlternative) -> int:
    """Return an upper bound of the devices that the alternative can get alone."""
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for option in alternative.options:
        if not _missing(option, alternative):
            compared = (
                values_of(option.device, constraint.attribute)
                for constraint in alternative.constraints
                if not constraint.distinct
            )
            for common in product(*compared):
                groups.setdefault(common, []).append(option)
    return max((_most_distinct(group, alternative) for group in groups.values()), default=0)


def _most_distinct(group: Sequence[Candidate], alternative: RequestAlternative) -> int:
    values = (
        len({values_of(candidate.device, constraint.attribute) for candidate in group})
        for constraint in alternative.constraints
        if constraint.distinct
    )
    return min(values, default=len(group))


def _missing(candidate: Candidate, alternative: RequestAlternative) -> list[str]:
    return [
        f"{constraint.kind} {constraint.attribute}"
        for constraint in alternative.constraints
        if candidate.device.attribute(constraint.attribute) is None
    ]


def _device_lines(alternative: RequestAlternative, pool_set: PoolSet) -> Iterator[str]:
    title = _title(alternative)
    usage = Usage(pool_set)
    for candidate in alternative.candidates:
        yield f"{title}: device {candidate.device.name}: {_state(candidate, alternative, usage)}"
    for name, why in pool_set.excluded:
        yield f"{title}: device {name}: not published: {why}"


def _title(alternative: RequestAlternative) -> str:
    return f"claim {alternative.label}: request {alternative.request.name}"


def _headline(alternative: RequestAlternative, *, alone: bool) -> str:
    return f"{_title(alternative)}: {_shortage(alternative, alone=alone)}"


def _shortage(alternative: RequestAlternative, *, alone: bool) -> str:
    count = alternative.count
    needed = f"needs {count} device{'s' if count > 1 else ''}"
    if alternative.request.all_devices:
        needed = f"needs every device that its selectors choose ({len(alternative.options)})"
    if alternative.blocked:
        return f"{needed}: {alternative.blocked}; {_REMEDY}"
    if not alone:
        return (
            f"{needed} and can be allocated alone, but not together with the other requests; "
            f"{_REMEDY}"
        )
    best = _best(alternative)
    if best < count:
        total = len(alternative.candidates)
        return f"{needed}, {best} of {total} can be allocated together; {_REMEDY}"
    return (
        f"{needed}, but no {count} of the {len(alternative.options)} that fit go together; "
        f"{_REMEDY}"
        f"{_of_shortage(alternative)}"
    )


def _of_shortage(alternative: RequestAlternative) -> str:
    """Return further remedies for devices that share capacity or counters."""
    if any(option.share.amounts for option in alternative.options):
        return ", or ask for less capacity"
    if any(option.device.counters for option in alternative.options):
        return (
            "; a device waits for the devices that consume its counter: a physical function and "
            "its virtual functions exclude each other"
        )
    return ""


def _state(candidate: Candidate, alternative: RequestAlternative, usage: Usage) -> str:
    if candidate.failure is not None and not candidate.in_use:
        return candidate.failure.reason
    if candidate.why_not:
        return candidate.why_not
    missing = _missing(candidate, alternative)
    if missing:
        return f"{missing[0]}: the device has no such attribute"
    exhausted = usage.exhausted(candidate)
    if exhausted:
        return exhausted
    values = [
        f"{constraint.kind}: {constraint.attribute} is {show_attribute(value)}"
        for constraint in alternative.constraints
        if (value := candidate.device.attribute(constraint.attribute)) is not None
    ]
    return "; ".join(["fits", *values])
