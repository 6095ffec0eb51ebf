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


def share_of(offer: SliceDevice, requested: tuple[tuple[str, Fraction], ...]) -> CapacityShare:
    """Return the consumption of a request: rounded up by the policy of each capacity."""
    by_name = dict(requested)
    for name in by_name:
        if refusal := _lack(offer, name):
            return CapacityShare(refusal=refusal)
    amounts: list[tuple[str, Fraction]] = []
    for capacity in offer.capacity:
        amount = _consumed(capacity, by_name.get(capacity.name))
        if amount is None or amount > capacity.value:
            needed = by_name.get(capacity.name, capacity.value)
            most = _most(capacity)
            return CapacityShare(
                refusal=f"the request asks for {show_amount(needed)} of capacity {capacity.name}, "
                f"the device gives at most {show_amount(most)} to one request"
            )
        amounts.append((capacity.name, amount))
    return CapacityShare(tuple(amounts) if offer.shared else ())


def _lack(offer: SliceDevice, name: str) -> str:
    """Return the error for a missing capacity, "" if the device has it. Names are qualified."""
    names = {amount.name for amount in offer.capacity}
    if name in names:
        return ""
    full = f"{offer.driver}/{name}"
    remedy = f"; write {full}" if full in names else ""
    return f"the request asks for capacity {name}, which the device lacks{remedy}"


def _consumed(capacity: Capacity, requested: Fraction | None) -> Fraction | None:
    policy = capacity.policy
    if requested is None:
        return capacity.value if policy.default is None else policy.default
    if policy.values:
        return next((value for value in policy.values if value >= requested), None)
    rounded = requested if policy.low is None else _in_range(policy, policy.low, requested)
    return None if policy.high is not None and rounded > policy.high else rounded


def _in_range(policy: Policy, low: Fraction, requested: Fraction) -> Fraction:
    if requested <= low or policy.step is None:
        return max(requested, low)
    return low - (low - requested) // policy.step * policy.step


def _most(capacity: Capacity) -> Fraction:
    policy = capacity.policy
    bounds = [capacity.value, *policy.values[-1:], *([] if policy.high is None else [policy.high])]
    return min(bounds)
