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
from dra_shim.scheduling.allocator.pools import Pool, PoolSet
from dranet_nri.component.replace import replace
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
    """One check.

    Attributes:
        what: subject, such as "selector of class nic".
        values: (name, value) of each field of the device that the check used.
    """

    what: str
    outcome: CheckOutcome
    text: str
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device with the checks of one request.

    Attributes:
        checks: results of all selectors, also after one that is false.
        reason: the selector that is false, "" if none is.
        failure: the selector that failed, None if none failed before one that is false.
        in_use: "in use by OWNER" if that excludes the request, otherwise "".
        obstacle: why it cannot be allocated although its selectors match, "" if it can.
        share: consumption of its capacity by the request.
    """

    device: SliceDevice
    checks: tuple[Check, ...] = ()
    reason: str = ""
    failure: SelectorError | None = None
    in_use: str = ""
    obstacle: str = ""
    share: CapacityShare = NOTHING

    @property
    def why_not(self) -> str:
        """Return why the device is excluded, "" if it is not."""
        return self.in_use or self.reason or self.obstacle


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
    """One request of one claim that is not allocated yet; its alternatives are tried in order."""

    claim: int
    alternatives: tuple[RequestAlternative, ...]


Claims = Sequence[tuple[str, ClaimSpec]]


def pending_requests(
    claims: Claims, classes: Mapping[str, DeviceClass], pool_set: PoolSet
) -> tuple[PendingRequest, ...]:
    """Return the requests in order; all classes are known.

    Raises:
        SelectorError: a selector is not valid CEL.
    """
    problem = next((pool.problem for pool in pool_set.pools if pool.problem), "")
    return tuple(
        _pending(
            index,
            [
                _alternative(
                    (index, label),
                    alternative,
                    classes[alternative.device_class],
                    spec.constraints,
                    pool_set,
                )
                for alternative in request.alternatives
            ],
            problem,
        )
        for index, (label, spec) in enumerate(claims)
        for request in spec.requests
    )


def _pending(
    claim: int, alternatives: Sequence[RequestAlternative], problem: str
) -> PendingRequest:
    """Return a request; with an unusable pool, the scheduler allocates no alternative of a request
    that has one with allocationMode All.
    """
    if problem and any(alternative.request.all_devices for alternative in alternatives):
        alternatives = [replace(alternative, blocked=problem) for alternative in alternatives]
    return PendingRequest(claim, tuple(alternatives))


def show_attribute(value: OneOrMore) -> str:
    """Return the value or values of an attribute for messages."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(show_attribute, value))}]"
    return value.text if isinstance(value, Version) else show(value)


def _alternative(
    claim: tuple[int, str],
    request: DeviceRequest,
    cls: DeviceClass,
    constraints: Sequence[Constraint],
    pool_set: PoolSet,
) -> RequestAlternative:
    candidates = _candidates(request, cls, pool_set)
    bound = tuple(constraint for constraint in constraints if constraint.covers(request.name))
    if not request.all_devices:
        free = tuple(candidate for candidate in candidates if not candidate.why_not)
        return RequestAlternative(*claim, request, candidates, bound, free, request.count)
    selected = tuple(candidate for candidate in candidates if not candidate.reason)
    chosen = tuple(
        candidate for candidate in selected if candidate.failure or not candidate.share.refusal
    )
    blocked = ""
    if not chosen:
        none = "the selectors choose no device"
        blocked = f"{none} with the requested capacity" if selected else none
    if len(chosen) > MAX_DEVICES:
        blocked = f"a claim holds at most {MAX_DEVICES} devices"
    for entry in chosen:
        if entry.why_not:
            blocked = blocked or f"device {entry.device.name}: {entry.why_not}"
    return RequestAlternative(*claim, request, candidates, bound, chosen, len(chosen), blocked)


def _candidates(
    request: DeviceRequest, cls: DeviceClass, pool_set: PoolSet
) -> tuple[Candidate, ...]:
    selectors = [
        *(_compiled(cel, f"selector of class {cls.name}") for cel in cls.selectors),
        *(_compiled(cel, "selector of the request") for cel in request.selectors),
    ]
    return tuple(
        _candidate(device, pool, request, selectors, pool_set)
        for pool in pool_set.pools
        for device in pool.devices
    )


def _compiled(cel: Cel, title: str) -> tuple[str, Selector]:
    return title, compile_selector(cel.expression)


def _candidate(
    device: SliceDevice,
    pool: Pool,
    request: DeviceRequest,
    selectors: Sequence[tuple[str, Selector]],
    pool_set: PoolSet,
) -> Candidate:
    found = [_check(device, title, selector) for title, selector in selectors]
    checks = tuple(check for check, _ in found)
    check, failure = next(
        ((check, failure) for check, failure in found if check.outcome is not CheckOutcome.PASSED),
        (None, None),
    )
    false = check is not None and failure is None
    share = share_of(device, request.capacity)
    return Candidate(
        device,
        checks,
        reason=f"{check.what} is false: {check.text}" if check is not None and false else "",
        failure=failure,
        in_use=_in_use(device, request, pool_set),
        # The scheduler evaluates selectors before it reads taints and capacity.
        obstacle=pool.problem or ("" if failure else _taints(device, request) or share.refusal),
        share=share,
    )


def _in_use(device: SliceDevice, request: DeviceRequest, pool_set: PoolSet) -> str:
    owner = pool_set.in_use.get(device.id, "")
    return f"in use by {owner}" if owner and not request.admin_access else ""


def _taints(device: SliceDevice, request: DeviceRequest) -> str:
    for taint in device.taints:
        blocks = taint.effect in {"NoSchedule", "NoExecute"}
        if blocks and not any(toleration.tolerates(taint) for toleration in request.tolerations):
            return f"tainted {taint}, which the request does not tolerate; add a toleration"
    return ""


def _check(
    device: SliceDevice, title: str, selector: Selector
) -> tuple[Check, SelectorError | None]:
    text = " ".join(selector.expression.split())
    values = _values(device, selector.expression)
    try:
        outcome = CheckOutcome.PASSED if selector.matches(device) else CheckOutcome.FAILED
    except SelectorError as error:
        return Check(title, CheckOutcome.ERROR, f"{text}: {error.reason}", values), error
    return Check(title, outcome, text, values), None


def _values(device: SliceDevice, expression: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name or table, _shown_value(device, table, name)) for table, name in names_in(expression)
    )


def _shown_value(device: SliceDevice, table: str, name: str) -> str:
    match table:
        case "driver":
            return show(device.driver)
        case "allowMultipleAllocations":
            return show(device.shared)
        case "attributes":
            value = device.attribute(name)
            return "missing" if value is None else show_attribute(value)
    amounts = dict(device.amounts)
    amount = amounts.get(name, amounts.get(name.removeprefix(f"{device.driver}/")))
    return "missing" if amount is None else show_amount(amount)
