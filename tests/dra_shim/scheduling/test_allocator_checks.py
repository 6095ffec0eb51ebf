# ruff: noqa: E501  cases in one line read as a table
"""The text of the checks that the allocator makes for every device."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dra_shim.resourceapi import (
    Capacity,
    Constraint,
    Taint,
    Toleration,
)
from dra_shim.scheduling.allocator import NamedClaim, PoolSet
from dra_shim.scheduling.allocator import explained as explained_with
from tests.dra_shim.scheduling.shorthand import (
    BANDWIDTH,
    CLASSES,
    PF,
    RAIL,
    capacity_request,
    claim,
    every,
    exactly,
    pool_set_with,
    refused,
    shared,
    slice_device,
    vf,
)


def checks(
    pool_set: PoolSet, *claims: NamedClaim
) -> dict[tuple[str, str], list[tuple[str, str, str]]]:
    parts, _, _ = explained_with(claims, CLASSES, pool_set, new_uid=str)
    return {
        (one.request, device.device.name): [
            (check.what, str(check.outcome), check.text) for check in device.checks
        ]
        for one in parts
        for device in one.devices
    }


def test_selectors_are_shown_with_their_values() -> None:
    expression = 'device.driver == "x.y" && device.attributes["x.y"].rail == 1 && sign(device.capacity["x.y"].m) > 0 && !device.allowMultipleAllocations'
    pool_set = pool_set_with(
        slice_device("a", rail=1, capacity=(Capacity("m", Fraction(1024)),)), slice_device("b", capacity=(Capacity("x.y/m", Fraction(5)),)), slice_device("c", rail=1)
    )  # fmt: skip

    parts, grants, reason = explained_with(
        [claim(exactly("r", 1, expression, "true"))], CLASSES, pool_set, new_uid=str
    )

    (one,) = parts
    assert (one.claim, one.request, one.description, one.blocked) == (
        "a/c",
        "r",
        "1 device of class nic",
        "",
    )
    assert [device.chosen for device in one.devices] == [True, False, False]
    assert ([grant.device.name for grant in grants], reason) == (["a"], ())
    first, second, third = (device.checks[1] for device in one.devices)
    assert (first.outcome, first.values) == (
        "passed",
        (
            ("driver", '"x.y"'),
            ("x.y/rail", "1"),
            ("x.y/m", "1Ki"),
            ("allowMultipleAllocations", "false"),
        ),
    )
    assert (second.outcome, second.values[1:3]) == (
        "error",
        (("x.y/rail", "missing"), ("x.y/m", "5")),
    )
    assert second.text.startswith(expression)
    assert 'the device has no "rail"; guard it' in second.text
    assert third.values[2] == ("x.y/m", "missing")
    assert [device.checks[2].outcome for device in one.devices] == ["passed"] * 3


def test_decision_shows_why_other_devices_were_not_chosen() -> None:
    pool_set = pool_set_with(
        slice_device("a", rail=1),
        slice_device("b", rail=2),
        slice_device("c", rail=1),
        slice_device("d"),
        in_use={"c": "claim q"},
    )
    rules = (Constraint(RAIL, ("r",)), Constraint(RAIL, distinct=True))

    found = checks(pool_set, claim(exactly("r"), exactly("s"), constraints=rules))

    match, differ = f"matchAttribute {RAIL}", f"distinctAttribute {RAIL}"
    assert found["r", "a"] == [
        ("availability", "passed", "free"),
        (match, "passed", "is 1"),
        (differ, "passed", "is 1"),
    ]
    assert found["r", "b"] == [
        ("availability", "failed", "given to claim a/c request s"),
        (match, "failed", "is 2, other devices have 1"),
        (differ, "failed", "another device has 2 too"),
    ]
    assert found["r", "c"][0] == ("availability", "failed", "in use by claim q")
    assert found["r", "d"][1] == (match, "failed", "the device has no such attribute")


def test_taints_capacity_and_counters_are_shown() -> None:
    link = (Taint("link"),)
    tolerated = {"tolerations": (Toleration("link", exists=True),)}
    pool_set = pool_set_with(
        vf("a", 2, shared=True, capacity=(BANDWIDTH,), taints=link), vf("b"), slice_device("c", taints=link),
        counters=PF,
    )  # fmt: skip
    request = exactly(
        "r", 1, "device.allowMultipleAllocations", **tolerated, **capacity_request(60, "bandwidth")
    )
    parts, _, _ = explained_with(
        [claim(request, exactly("s", 1, admin_access=True))], CLASSES, pool_set, new_uid=str
    )
    found = checks(pool_set, claim(exactly("r", 1, **tolerated)))
    busy = replace(pool_set, in_use={pool_set.pools[0].devices[1].id: "claim q"})
    found |= checks(busy, claim(exactly("s", 1, admin_access=True)))

    assert refused(pool_set, claim(request))
    assert parts[0].description == "1 device of class nic with capacity bandwidth 60"
    assert found["r", "a"] == [
        ("availability", "passed", "free"),
        ("usability", "passed", "tainted link:NoSchedule, tolerated or without effect"),
        ("capacity and counters", "passed", "needs capacity bandwidth 10, counter pf/vfs 2"),
    ]
    assert found["r", "b"][1] == (
        "capacity and counters",
        "failed",
        "counter pf/vfs: needs 1, 0 is left",
    )
    assert found["s", "b"][0] == ("availability", "passed", "in use does not matter")
    assert found["s", "c"][1] == (
        "usability",
        "failed",
        "tainted link:NoSchedule, which the request does not tolerate; add a toleration",
    )


def test_used_up_capacity_is_shown() -> None:
    pool_set = pool_set_with(
        shared("a", Capacity("m", Fraction(3))), shared("b", Capacity("m", Fraction(2)))
    )

    found = checks(
        pool_set,
        claim(
            exactly("r", 1, **capacity_request(2, "m")), exactly("s", 1, **capacity_request(2, "m"))
        ),
    )

    assert found["s", "a"] == [
        ("availability", "passed", "free"),
        ("capacity and counters", "failed", "capacity m: needs 2, 1 is left"),
    ]


def test_failed_decision_has_reasons_and_initial_checks() -> None:
    pool_set = pool_set_with(slice_device("a", rail=1), slice_device("b", rail=2))
    named_claims = claim(every("r"), constraints=(Constraint(RAIL),))

    parts, grants, reason = explained_with([named_claims], CLASSES, pool_set, new_uid=str)

    assert grants == ()
    assert reason[0].startswith(
        "claim a/c: request r: needs every device that its selectors choose (2), but device b: "
    )
    assert [
        (check.outcome, check.text) for device in parts[0].devices for check in device.checks
    ] == [
        ("passed", "free"), ("failed", "is 1; too few other candidates have it too"),
        ("passed", "free"), ("failed", "is 2; too few other candidates have it too"),
    ]  # fmt: skip
    assert parts[0].description == "every device of class nic"


def test_failing_selector_is_the_reason() -> None:
    pool_set = pool_set_with(slice_device("a"))

    parts, grants, reason = explained_with(
        [claim(exactly("r", 1, 'device.attributes["x.y"].rail == 1'))],
        CLASSES,
        pool_set,
        new_uid=str,
    )

    assert grants == ()
    assert parts[0].devices[0].checks[1].outcome == "error"
    assert 'the device has no "rail"' in reason[0]


def test_aborted_search_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dra_shim.scheduling.allocator.search.MAX_TRIES", 100)
    pool_set = pool_set_with(*(slice_device(f"n{i:02}") for i in range(40)))
    named_claims = [claim(exactly("x", 16), exactly("y", 16)), claim(exactly("z", 16), label="a/d")]

    _, grants, reason = explained_with(named_claims, CLASSES, pool_set, new_uid=str)

    assert grants == ()
    assert reason[0].startswith("gave up after 100 tries")
