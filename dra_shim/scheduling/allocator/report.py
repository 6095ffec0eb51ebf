"""Allocation report: all checks of all devices per request, and the result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dra_shim.cel.values import show_amount
from dra_shim.resourceapi import Constraint, SliceDevice
from dra_shim.scheduling.allocator.candidates import (
    Candidate,
    Check,
    CheckOutcome,
    PendingRequest,
    RequestAlternative,
    show_attribute,
)
from dra_shim.scheduling.allocator.matching import can_meet
from dra_shim.scheduling.allocator.search import Search


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """Checks of one device for one request."""

    offer: SliceDevice
    chosen: bool
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class AlternativeReport:
    """One request, or one entry of firstAvailable.

    Attributes:
        claim: name of its claim in messages.
        asks: description of the request.
        blocked: why it can never be allocated, "" if it can.
    """

    claim: str
    request: str
    asks: str
    blocked: str
    devices: tuple[DeviceReport, ...]


def report(wants: Sequence[PendingRequest], search: Search) -> tuple[AlternativeReport, ...]:
    """Return the checks of each alternative with the result of the search; before it ran, without.

    In that case a constraint is checked for whether the device could meet it alone.
    """
    picked = {
        (part.claim, part.request.name, candidate.offer.id)
        for picks in search.chosen
        for part, candidate in picks
    }
    unmet = () if any(search.chosen) else wants
    return tuple(
        AlternativeReport(
            part.label,
            part.request.name,
            _asks(part),
            part.blocked,
            tuple(
                _device(part, candidate, search, unmet,
                        picked=(part.claim, part.request.name, candidate.offer.id) in picked)
                for candidate in part.candidates
            ),
        )
        for want in wants
        for part in want.parts
    )  # fmt: skip


def _asks(part: RequestAlternative) -> str:
    request = part.request
    words = [
        "every device" if request.every else f"{part.count} device{'s' if part.count > 1 else ''}"
    ]
    words.append(f"of class {request.device_class}")
    if request.admin_access:
        words.append("with adminAccess")
    if request.capacity:
        capacity = ", ".join(f"{name} {show_amount(value)}" for name, value in request.capacity)
        words.append(f"with capacity {capacity}")
    return " ".join(words)


def _device(
    part: RequestAlternative,
    candidate: Candidate,
    search: Search,
    unmet: Sequence[PendingRequest],
    *,
    picked: bool,
) -> DeviceReport:
    checks = [
        *_availability(part, candidate, search, picked=picked),
        *candidate.checks,
        *_amounts(candidate, search, picked=picked),
        *(
            _prospect(unmet, part, candidate, constraint)
            if unmet and candidate.offer.attribute(constraint.attribute) is not None
            else _constraint(part, candidate, search, constraint, picked=picked)
            for constraint in part.constraints
        ),
    ]
    return DeviceReport(candidate.offer, picked, tuple(checks))


def _availability(
    part: RequestAlternative, candidate: Candidate, search: Search, *, picked: bool
) -> Iterator[Check]:
    taken = "" if picked else search.usage.taken(part, candidate)
    why = candidate.holder or taken
    free = "in use does not matter" if part.request.admin_access else "free"
    yield Check("availability", _outcome(why), why or free)
    if candidate.barrier:
        yield Check("usability", CheckOutcome.FAILED, candidate.barrier)
    elif candidate.offer.taints:
        taints = ", ".join(map(str, candidate.offer.taints))
        yield Check(
            "usability", CheckOutcome.PASSED, f"tainted {taints}, tolerated or without effect"
        )


def _amounts(candidate: Candidate, search: Search, *, picked: bool) -> Iterator[Check]:
    offer = candidate.offer
    if candidate.barrier or not (candidate.share.amounts or offer.counters):
        return
    needs = [
        *(f"capacity {name} {show_amount(value)}" for name, value in candidate.share.amounts),
        *(
            f"counter {counter.set}/{counter.name} {show_amount(counter.value)}"
            for counter in offer.counters
        ),
    ]
    why = "" if picked else search.usage.exhausted(candidate)
    yield Check("capacity and counters", _outcome(why), why or f"needs {', '.join(needs)}")


def _constraint(
    part: RequestAlternative,
    candidate: Candidate,
    search: Search,
    constraint: Constraint,
    *,
    picked: bool,
) -> Check:
    what = f"{constraint.kind} {constraint.attribute}"
    value = candidate.offer.attribute(constraint.attribute)
    shown = "missing" if value is None else show_attribute(value)
    why = "" if picked else search.usage.conflict(part, candidate.offer, constraint)
    text = why.removeprefix(f"{what}: ") or f"is {shown}"
    return Check(what, _outcome(why), text, ((constraint.attribute, shown),))


def _prospect(
    unmet: Sequence[PendingRequest],
    part: RequestAlternative,
    candidate: Candidate,
    constraint: Constraint,
) -> Check:
    """Return the state of a constraint if the search did not complete."""
    met = can_meet(unmet, part, candidate, constraint)
    outcome, text = {
        True: (CheckOutcome.PASSED, "with it this constraint alone can be met"),
        False: (
            CheckOutcome.FAILED,
            f"too few others that can be had {'differ' if constraint.distinct else 'have it too'}",
        ),
        None: (CheckOutcome.OPEN, "could not be judged, because nothing was decided"),
    }[met]
    value = candidate.offer.attribute(constraint.attribute)
    assert value is not None, "asked for devices that have it"
    shown = show_attribute(value)
    what = f"{constraint.kind} {constraint.attribute}"
    return Check(what, outcome, f"is {shown}; {text}", ((constraint.attribute, shown),))


def _outcome(why: str) -> CheckOutcome:
    return CheckOutcome.FAILED if why else CheckOutcome.PASSED
