"""Consumption of a device's capacity by one request (KEP-5075)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dra_shim.cel.values import show_amount
from dra_shim.resourceapi import Capacity, Policy, SliceDevice


@dataclass(frozen=True, slots=True)
class CapacityShare:
    """(published capacity, amount) pairs that a share consumes, or why it is impossible."""

    amounts: tuple[tuple[str, Fraction], ...] = ()
    refusal: str = ""


NOTHING: Final = CapacityShare()


def share_of(device: SliceDevice, requested: tuple[tuple[str, Fraction], ...]) -> CapacityShare:
    """Return the consumption of a request: rounded up by the policy of each capacity."""
    by_name = dict(requested)
    for name in by_name:
        if refusal := _missing_capacity(device, name):
            return CapacityShare(refusal=refusal)
    amounts: list[tuple[str, Fraction]] = []
    for capacity in device.capacity:
        amount = _consumed(capacity, by_name.get(capacity.name))
        if amount is None or amount > capacity.value:
            needed = by_name.get(capacity.name, capacity.value)
            most = _maximum(capacity)
            return CapacityShare(
                refusal=f"the request needs {show_amount(needed)} of capacity {capacity.name}, "
                f"the device allows at most {show_amount(most)} per request"
            )
        amounts.append((capacity.name, amount))
    return CapacityShare(tuple(amounts) if device.shared else ())


def _missing_capacity(device: SliceDevice, name: str) -> str:
    """Return the error for a missing capacity, "" if the device has it. Names are qualified."""
    names = {amount.name for amount in device.capacity}
    if name in names:
        return ""
    full = f"{device.driver}/{name}"
    remedy = f"; write {full}" if full in names else ""
    return f"the request needs capacity {name}, which the device lacks{remedy}"


def _consumed(capacity: Capacity, requested: Fraction | None) -> Fraction | None:
    policy = capacity.policy
    if requested is None:
        return capacity.value if policy.default is None else policy.default
    if policy.values:
        return next((value for value in policy.values if value >= requested), None)
    rounded = requested if policy.minimum is None else _in_range(policy, policy.minimum, requested)
    return None if policy.maximum is not None and rounded > policy.maximum else rounded


def _in_range(policy: Policy, minimum: Fraction, requested: Fraction) -> Fraction:
    if requested <= minimum or policy.step is None:
        return max(requested, minimum)
    return minimum - (minimum - requested) // policy.step * policy.step


def _maximum(capacity: Capacity) -> Fraction:
    policy = capacity.policy
    bounds = [
        capacity.value,
        *policy.values[-1:],
        *([] if policy.maximum is None else [policy.maximum]),
    ]
    return min(bounds)
