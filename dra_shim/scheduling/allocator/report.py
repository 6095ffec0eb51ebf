"""Allocation report: all checks of all devices per request, and the result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dra_shim.cel.values import show_amount
from dra_shim.resourceapi import Constraint, DeviceId, SliceDevice
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

    device: SliceDevice
    chosen: bool
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class AlternativeReport:
    """One request, or one entry of firstAvailable.

    Attributes:
        claim: name of its claim in messages.
        description: number, class and requirements of the requested devices.
        blocked: why it can never be allocated, "" if it can.
    """

    claim: str
    request: str
    description: str
    blocked: str
    devices: tuple[DeviceReport, ...]


def report(pending: Sequence[PendingRequest], search: Search) -> tuple[AlternativeReport, ...]:
    """Return the checks of each alternative.

    Args:
        pending: the requests.
        search: a successful search, or one that did not run. Without a result, a constraint is
            checked for whether the device could meet it alone.
    """
    picked = {
        _key(alternative, candidate) for picks in search.chosen for alternative, candidate in picks
    }
    unmet = () if any(search.chosen) else pending
    return tuple(
        AlternativeReport(
            alternative.label,
            alternative.request.name,
            _description(alternative),
            alternative.blocked,
            tuple(
                _device(
                    alternative,
                    candidate,
                    search,
                    unmet,
                    picked=_key(alternative, candidate) in picked,
                )
                for candidate in alternative.candidates
            ),
        )
        for request in pending
        for alternative in request.alternatives
    )


def _key(alternative: RequestAlternative, candidate: Candidate) -> tuple[int, str, DeviceId]:
    return alternative.claim, alternative.request.name, candidate.device.id


def _description(alternative: RequestAlternative) -> str:
    request = alternative.request
    words = [
        "every device"
        if request.all_devices
        else f"{alternative.count} device{'s' if alternative.count > 1 else ''}"
    ]
    words.append(f"of class {request.device_class}")
    if request.admin_access:
        words.append("with adminAccess")
    if request.capacity:
        capacity = ", ".join(f"{name} {show_amount(value)}" for name, value in request.capacity)
        words.append(f"with capacity {capacity}")
    return " ".join(words)


def _device(
    alternative: RequestAlternative,
    candidate: Candidate,
    search: Search,
    unmet: Sequence[PendingRequest],
    *,
    picked: bool,
) -> DeviceReport:
    checks = [
        *_availability(alternative, candidate, search, picked=picked),
        *candidate.checks,
        *_amounts(candidate, search, picked=picked),
        *(
            _prospect(unmet, alternative, candidate, constraint)
            if unmet and candidate.device.attribute(constraint.attribute) is not None
            else _constraint(alternative, candidate, search, constraint, picked=picked)
            for constraint in alternative.constraints
        ),
    ]
    return DeviceReport(candidate.device, picked, tuple(checks))


def _availability(
    alternative: RequestAlternative, candidate: Candidate, search: Search, *, picked: bool
) -> Iterator[Check]:
    taken = "" if picked else search.usage.taken(alternative, candidate)
    why = candidate.in_use or taken
    free = "in use does not matter" if alternative.request.admin_access else "free"
    yield Check("availability", _outcome(why), why or free)
    if candidate.obstacle:
        yield Check("usability", CheckOutcome.FAILED, candidate.obstacle)
    elif candidate.device.taints:
        taints = ", ".join(map(str, candidate.device.taints))
        yield Check(
            "usability", CheckOutcome.PASSED, f"tainted {taints}, tolerated or without effect"
        )


def _amounts(candidate: Candidate, search: Search, *, picked: bool) -> Iterator[Check]:
    device = candidate.device
    if candidate.obstacle or not (candidate.share.amounts or device.counters):
        return
    needs = [
        *(f"capacity {name} {show_amount(value)}" for name, value in candidate.share.amounts),
        *(
            f"counter {counter.set}/{counter.name} {show_amount(counter.value)}"
            for counter in device.counters
        ),
    ]
    why = "" if picked else search.usage.exhausted(candidate)
    yield Check("capacity and counters", _outcome(why), why or f"needs {', '.join(needs)}")


def _constraint(
    alternative: RequestAlternative,
    candidate: Candidate,
    search: Search,
    constraint: Constraint,
    *,
    picked: bool,
) -> Check:
    what = f"{constraint.kind} {constraint.attribute}"
    value = candidate.device.attribute(constraint.attribute)
    shown = "missing" if value is None else show_attribute(value)
    why = "" if picked else search.usage.conflict(alternative, candidate.device, constraint)
    text = why.removeprefix(f"{what}: ") or f"is {shown}"
    return Check(what, _outcome(why), text, ((constraint.attribute, shown),))


def _prospect(
    unmet: Sequence[PendingRequest],
    alternative: RequestAlternative,
    candidate: Candidate,
    constraint: Constraint,
) -> Check:
    """Return the state of a constraint if the search did not complete."""
    met = can_meet(unmet, alternative, candidate, constraint)
    outcome, text = {
        True: (CheckOutcome.PASSED, "with it this constraint alone can be met"),
        False: (
            CheckOutcome.FAILED,
            f"too few other candidates {'differ' if constraint.distinct else 'have it too'}",
        ),
        None: (CheckOutcome.OPEN, "unknown, because the search did not complete"),
    }[met]
    value = candidate.device.attribute(constraint.attribute)
    assert value is not None, "only called for devices with the attribute"
    shown = show_attribute(value)
    what = f"{constraint.kind} {constraint.attribute}"
    return Check(what, outcome, f"is {shown}; {text}", ((constraint.attribute, shown),))


def _outcome(why: str) -> CheckOutcome:
    return CheckOutcome.FAILED if why else CheckOutcome.PASSED
