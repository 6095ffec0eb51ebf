"""Candidates of a request: each device with its checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dra_shim.cel import Selector, SelectorError, compile_selector, names_in
from dra_shim.cel.values import OneOrMore, show_amount
from dra_shim.resourceapi import (
    MAX_DEVICES,
    Cel,
    ClaimSpec,
    Constraint,
    DeviceClass,
    DeviceRequest,
    SliceDevice,
)
from dra_shim.scheduling.allocator.capacity import NOTHING, CapacityShare, share_of
from dra_shim.scheduling.allocator.pools import CandidatePools, Pool
from dranet_nri.config import show
from dranet_nri.model import Version


class CheckOutcome(StrEnum):
    """Result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"  # a selector failed, which stops the scheduler
    OPEN = "open"  # unknown, because the search did not complete


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its subject, result and text, and the values that it used."""

    what: str
    outcome: CheckOutcome
    text: str
    saw: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device with the checks of one request.

    Attributes:
        checks: results of all selectors, also after one that is false.
        reason: the selector that is false, "" if none is.
        failure: the selector that failed, None if none failed before one that is false.
        holder: its owner, if that excludes the request.
        barrier: why it cannot be allocated although its selectors match.
        share: consumption of its capacity by the request.
    """

    offer: SliceDevice
    checks: tuple[Check, ...] = ()
    reason: str = ""
    failure: SelectorError | None = None
    holder: str = ""
    barrier: str = ""
    share: CapacityShare = NOTHING

    @property
    def why_not(self) -> str:
        """Return why the device is excluded, "" if it is not."""
        return self.holder or self.reason or self.barrier


@dataclass(frozen=True, slots=True)
class RequestAlternative:
    """One alternative of a request: the request itself, or one entry of firstAvailable.

    Attributes:
        claim: index of the claim.
        label: name of the claim in messages.
        options: candidates to allocate; with allocationMode All, all of them.
        count: number of devices.
        blocked: why it can never be allocated, "" if it can.
    """

    claim: int
    label: str
    request: DeviceRequest
    candidates: tuple[Candidate, ...]
    constraints: tuple[Constraint, ...]
    options: tuple[Candidate, ...]
    count: int
    blocked: str = ""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """One request of one claim: its alternatives are tried in order."""

    claim: int
    parts: tuple[RequestAlternative, ...]


Claims = Sequence[tuple[str, ClaimSpec]]


def pending_requests(
    claims: Claims, classes: Mapping[str, DeviceClass], supply: CandidatePools
) -> tuple[PendingRequest, ...]:
    """Return the requests in order; all classes are known.

    Raises:
        SelectorError: a selector is not valid CEL.
    """
    return tuple(
        PendingRequest(
            index,
            tuple(
                _part((index, label), part, classes[part.device_class], spec.constraints, supply)
                for part in request.alternatives
            ),
        )
        for index, (label, spec) in enumerate(claims)
        for request in spec.requests
    )


def show_attribute(value: OneOrMore) -> str:
    """Return the value or values of an attribute for messages."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(show_attribute, value))}]"
    return value.text if isinstance(value, Version) else show(value)


def _part(
    owner: tuple[int, str],
    request: DeviceRequest,
    cls: DeviceClass,
    constraints: Sequence[Constraint],
    supply: CandidatePools,
) -> RequestAlternative:
    candidates = _candidates(request, cls, supply)
    bound = tuple(constraint for constraint in constraints if constraint.covers(request.name))
    if not request.every:
        free = tuple(candidate for candidate in candidates if not candidate.why_not)
        return RequestAlternative(*owner, request, candidates, bound, free, request.count)
    selected = tuple(candidate for candidate in candidates if not candidate.reason)
    chosen = tuple(
        candidate for candidate in selected if candidate.failure or not candidate.share.refusal
    )
    blocked = next((pool.problem for pool in supply.pools if pool.problem), "")
    if not chosen:
        none = "the selectors choose no device"
        blocked = blocked or (f"{none} with the capacity that is asked for" if selected else none)
    if len(chosen) > MAX_DEVICES:
        blocked = blocked or f"a claim holds at most {MAX_DEVICES} devices"
    for entry in chosen:
        if entry.why_not:
            blocked = blocked or f"device {entry.offer.name}: {entry.why_not}"
    return RequestAlternative(*owner, request, candidates, bound, chosen, len(chosen), blocked)


def _candidates(
    request: DeviceRequest, cls: DeviceClass, supply: CandidatePools
) -> tuple[Candidate, ...]:
    selectors = [
        *(_compiled(cel, f"selector of class {cls.name}") for cel in cls.selectors),
        *(_compiled(cel, "selector of the request") for cel in request.selectors),
    ]
    return tuple(
        _candidate(offer, pool, request, selectors, supply)
        for pool in supply.pools
        for offer in pool.offers
    )


def _compiled(cel: Cel, owner: str) -> tuple[str, Selector]:
    return owner, compile_selector(cel.expression)


def _candidate(
    offer: SliceDevice,
    pool: Pool,
    request: DeviceRequest,
    selectors: Sequence[tuple[str, Selector]],
    supply: CandidatePools,
) -> Candidate:
    found = [_check(offer, owner, selector) for owner, selector in selectors]
    checks = tuple(check for check, _ in found)
    check, failure = next(
        ((check, failure) for check, failure in found if check.outcome is not CheckOutcome.PASSED),
        (None, None),
    )
    false = check is not None and failure is None
    share = share_of(offer, request.capacity)
    return Candidate(
        offer,
        checks,
        reason=f"{check.what} is false: {check.text}" if check is not None and false else "",
        failure=failure,
        holder=_holder(offer, request, supply),
        barrier=pool.problem or _taints(offer, request) or share.refusal,
        share=share,
    )


def _holder(offer: SliceDevice, request: DeviceRequest, supply: CandidatePools) -> str:
    who = supply.in_use.get(offer.id, "")
    return f"in use by {who}" if who and not request.admin_access else ""


def _taints(offer: SliceDevice, request: DeviceRequest) -> str:
    for taint in offer.taints:
        blocks = taint.effect in {"NoSchedule", "NoExecute"}
        if blocks and not any(toleration.covers(taint) for toleration in request.tolerations):
            return f"tainted {taint}, which the request does not tolerate; add a toleration"
    return ""


def _check(
    offer: SliceDevice, owner: str, selector: Selector
) -> tuple[Check, SelectorError | None]:
    text = " ".join(selector.expression.split())
    saw = _saw(offer, selector.expression)
    try:
        outcome = CheckOutcome.PASSED if selector.matches(offer) else CheckOutcome.FAILED
    except SelectorError as error:
        return Check(owner, CheckOutcome.ERROR, f"{text}: {error.reason}", saw), error
    return Check(owner, outcome, text, saw), None


def _saw(offer: SliceDevice, expression: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name or table, _shown_value(offer, table, name)) for table, name in names_in(expression)
    )


def _shown_value(offer: SliceDevice, table: str, name: str) -> str:
    match table:
        case "driver":
            return show(offer.driver)
        case "allowMultipleAllocations":
            return show(offer.shared)
        case "attributes":
            value = offer.attribute(name)
            return "missing" if value is None else show_attribute(value)
    amounts = dict(offer.amounts)
    amount = amounts.get(name, amounts.get(name.removeprefix(f"{offer.driver}/")))
    return "missing" if amount is None else show_amount(amount)
