# ruff: noqa: E501  cases in one line read as a table
"""Reasons for each device under a constraint that cannot be satisfied: none is false."""

from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from dra_shim.resourceapi import ClaimRequest, Constraint, SliceDevice
from dra_shim.scheduling.allocator import NamedClaim, PoolSet, explained
from tests.dra_shim.scheduling.shorthand import (
    CLASSES,
    RAIL,
    claim,
    every,
    exactly,
    first_available,
    part,
    pool_set_with,
    slice_device,
)

MATCH = Constraint(RAIL)
DIFFER = Constraint(RAIL, distinct=True)
HOPELESS = exactly("none", 1, "false")  # so that the claim cannot be met, whatever else is asked
SHARED = pool_set_with(slice_device("a", rail=1, shared=True), slice_device("b", rail=2))
PORTED = SliceDevice("x.y", "p", "b", (("rail", 1), ("port", 1)))
UNBOUND = ("r", "s", "t")


def outcomes_by_device(
    pool_set: PoolSet, *claims: NamedClaim
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (request, device) → the first constraint's outcome and text."""
    parts, grants, reason = explained(claims, CLASSES, pool_set, new_uid=str)
    assert (grants, bool(reason)) == ((), True)
    return {
        (one.request, device.device.name): (str(check.outcome), check.text)
        for one in parts
        for device in one.devices
        for check in device.checks
        if check.what.endswith(RAIL)
    }


def outcomes(pool_set: PoolSet, constraint: Constraint, *requests: ClaimRequest) -> str:
    """Return the first letters of the outcomes for the first request, device by device."""
    bound = Constraint(RAIL, tuple(request.name for request in requests), constraint.distinct)
    found = outcomes_by_device(pool_set, claim(*requests, HOPELESS, constraints=(bound,)))
    first = requests[0].alternatives[0].name
    return "".join(entry[0] for (name, _), (entry, _) in found.items() if name == first)


def rails(*values: object) -> PoolSet:
    return pool_set_with(*(slice_device(f"n{i}", rail=value) for i, value in enumerate(values)))


def test_outcomes_have_descriptions() -> None:
    one = exactly("r", 2)
    found = outcomes_by_device(
        rails(1, 1, 2), claim(one, HOPELESS, constraints=(Constraint(RAIL, ("r",)),))
    )
    other = outcomes_by_device(
        rails(1, 1), claim(one, HOPELESS, constraints=(Constraint(RAIL, ("r",), distinct=True),))
    )

    assert found["r", "n0"] == ("passed", "is 1; with it this constraint alone can be met")
    assert found["r", "n2"] == ("failed", "is 2; too few other candidates have it too")
    assert other["r", "n0"] == ("failed", "is 1; too few other candidates differ")


@pytest.mark.parametrize(
    ("pool_set", "constraint", "requests", "expected"),
    [
        (rails(1, 1, 2, None), MATCH, [exactly("r", 2)], "ppff"),
        (rails(1, 1, 2, None), DIFFER, [exactly("r", 2)], "pppf"),
        (rails(1, 1, 2), DIFFER, [exactly("r", 3)], "fff"),
        (rails(1, 1, 2), MATCH, [exactly("r"), exactly("s", 2)], "fff"),
        (rails(1, 1, 1, 2), MATCH, [exactly("r"), exactly("s", 2)], "pppf"),
        (rails(1, 2), MATCH, [every("r")], "ff"),
        (rails(1, 1), MATCH, [every("r")], "pp"),
        (rails(1, 1, 2), MATCH, [every("r", 'device.attributes["x.y"].rail == 1')], "ppf"),
        (rails(1, 1, 2), DIFFER, [exactly("r", 1, 'device.attributes["x.y"].rail == 1'), exactly("s")], "ppp"),
        (rails((1, 2), 2, 3), MATCH, [exactly("r", 2)], "ppf"),
        (rails((1, 2), 2, 3), DIFFER, [exactly("r", 2)], "ppp"),
        (rails((1, 2), (3, 4), 5), DIFFER, [exactly("r", 3)], "ooo"),
        (rails((1, 2), 2), DIFFER, [exactly("r", 2)], "ff"),
        (rails(*range(40)), DIFFER, [every("r")], "o" * 40),
        (rails(1, 1, 2), MATCH, [exactly("r"), first_available("s", part("s/a", 2), part("s/b"))], "ppf"),
        (rails(1, 1), MATCH, [exactly("r"), *(first_available(n, part(f"{n}/a"), part(f"{n}/b"), part(f"{n}/c")) for n in "stu")], "oo"),
        (SHARED, MATCH, [exactly("r", 3)], "pf"),
        (SHARED, MATCH, [every("r", "device.allowMultipleAllocations")], "pf"),
        (pool_set_with(slice_device("a", rail=1), PORTED, slice_device("c", rail=1)), MATCH, [exactly("r"), exactly("s"), exactly("t", 1, 'has(device.attributes["x.y"].port)')], "pfp"),
    ],
)  # fmt: skip
def test_device_is_checked_with_the_other_devices(
    pool_set: PoolSet, constraint: Constraint, requests: list[ClaimRequest], expected: str
) -> None:
    assert outcomes(pool_set, constraint, *requests) == expected


def test_failing_selector_leaves_the_result_open() -> None:
    pool_set = pool_set_with(
        slice_device("a", rail=1), slice_device("b", rail=1), slice_device("c", rail=2)
    )
    broken = exactly("s", 1, 'device.attributes["x.y"].nothing == 1')
    found = outcomes(pool_set, MATCH, exactly("r"), broken)

    assert found == "oof"


def test_other_claims_and_unbound_requests_do_not_count() -> None:
    bound = Constraint(RAIL, ("r",))
    found = outcomes_by_device(
        rails(1, 1), claim(exactly("r", 2), exactly("s", 2), constraints=(bound,)),
        claim(HOPELESS, label="a/d"),
    )  # fmt: skip
    others = claim(HOPELESS, constraints=(MATCH,), label="a/d")
    alike = outcomes_by_device(rails(1, 1), claim(exactly("r", 2), constraints=(MATCH,)), others)

    assert found["r", "n0"][0] == alike["r", "n0"][0] == "passed"


def ways(left: tuple[int, ...], numbers: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield each way to give so many devices to each request."""
    if not numbers:
        yield ()
        return
    for some in combinations(left, numbers[0]):
        for more in ways(
            tuple(candidate for candidate in left if candidate not in some), numbers[1:]
        ):
            yield (some, *more)


def possible(
    devices: tuple[SliceDevice, ...], numbers: tuple[int, ...], one: int, *, distinct: bool
) -> bool:
    """Whether a way that gives one to the first request meets the constraint."""
    for way in ways(tuple(range(len(devices))), numbers):
        if one in way[0]:
            values = [devices[candidate].attribute(RAIL) for some in way for candidate in some]
            if len(set(values)) == (len(values) if distinct else 1):
                return True
    return False


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_result_equals_an_exhaustive_search(seed: int, distinct: bool) -> None:  # noqa: FBT001
    rng = Random(seed)
    devices = tuple(
        slice_device(f"n{i}", rail=rng.randrange(4)) for i in range(rng.randrange(2, 7))
    )
    numbers = tuple(rng.randrange(1, 3) for _ in range(rng.randrange(1, 4)))
    requests = [exactly(name, number) for name, number in zip(UNBOUND, numbers, strict=False)]

    expected = outcomes(pool_set_with(*devices), DIFFER if distinct else MATCH, *requests)

    assert expected == "".join(
        "p" if possible(devices, numbers, i, distinct=distinct) else "f"
        for i in range(len(devices))
    )
