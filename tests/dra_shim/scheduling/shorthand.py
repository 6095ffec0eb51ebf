"""Short constructors of claims, devices and pools, and results of the allocator."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import count

import pytest

from dra_shim.cel.values import parse_amount
from dra_shim.resourceapi import (
    Capacity,
    Cel,
    ClaimRequest,
    ClaimSpec,
    Constraint,
    CounterValue,
    DeviceClass,
    DeviceRequest,
    Policy,
    SliceDevice,
)
from dra_shim.scheduling.allocator import (
    AllocationError,
    Grant,
    NamedClaim,
    Pool,
    PoolSet,
    choose,
)

CLASSES = {"nic": DeviceClass("nic"), "big": DeviceClass("big")}
RAIL = "x.y/rail"


def slice_device(name: str, **fields: object) -> SliceDevice:
    rail = fields.pop("rail", None)
    attributes = (("rail", rail),) if rail is not None else ()
    return SliceDevice("x.y", "p", name, attributes, **fields)  # type: ignore[arg-type]


def pool_set_with(
    *slice_devices: SliceDevice,
    in_use: Mapping[str, str] | None = None,
    counters: tuple[CounterValue, ...] = (),
    problem: str = "",
) -> PoolSet:
    used = {("x.y", "p", name): who for name, who in (in_use or {}).items()}
    return PoolSet((Pool("x.y", "p", slice_devices, counters, problem),), used)


def exactly(name: str = "r", number: int = 1, *selectors: str, **fields: object) -> ClaimRequest:
    cels = tuple(map(Cel, selectors))
    return ClaimRequest(name, (DeviceRequest(name, "nic", cels, number, **fields),))  # type: ignore[arg-type]


def every(name: str = "r", *selectors: str, **fields: object) -> ClaimRequest:
    return exactly(name, 1, *selectors, all_devices=True, **fields)


def first_available(name: str, *parts: DeviceRequest) -> ClaimRequest:
    return ClaimRequest(name, parts)


def claim(
    *requests: ClaimRequest, constraints: tuple[Constraint, ...] = (), label: str = "a/c"
) -> NamedClaim:
    return NamedClaim(label, ClaimSpec(requests, constraints))


def grants(pool_set: PoolSet, *claims: NamedClaim) -> tuple[Grant, ...]:
    numbers = count(1)
    return choose(claims, CLASSES, pool_set, new_uid=lambda: f"share-{next(numbers)}")


def given(pool_set: PoolSet, *claims: NamedClaim) -> list[tuple[str, str]]:
    return [(grant.request, grant.device.name) for grant in grants(pool_set, *claims)]


def refused(pool_set: PoolSet, *claims: NamedClaim) -> tuple[str, ...]:
    with pytest.raises(AllocationError) as caught:
        grants(pool_set, *claims)
    return caught.value.lines


def amount(text: str) -> Fraction:
    return parse_amount(text)


def part(name: str, number: int = 1, *selectors: str, **fields: object) -> DeviceRequest:
    return DeviceRequest(name, "nic", tuple(map(Cel, selectors)), number, **fields)  # type: ignore[arg-type]


def vf(name: str, consumed: int = 1, **fields: object) -> SliceDevice:
    return replace(
        slice_device(name, **fields), counters=(CounterValue("pf", "vfs", Fraction(consumed)),)
    )


PF = (CounterValue("pf", "vfs", Fraction(2)),)


BANDWIDTH = Capacity(
    "bandwidth", Fraction(100), Policy(Fraction(10), (), Fraction(10), Fraction(60), Fraction(20))
)


def shared(name: str, *capacity: Capacity) -> SliceDevice:
    return slice_device(name, capacity=capacity, shared=True)


def capacity_request(number: int, name: str = "bandwidth") -> dict[str, object]:
    return {"capacity": ((name, Fraction(number)),)}
