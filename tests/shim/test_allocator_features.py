# ruff: noqa: E501  cases in one line read as a table
"""What a request can ask for beyond "so many": All, alternatives, sharing, counters, taints."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import count

import pytest

from dra_shim.allocator import AllocationError, Grant, Pool, Stock, Supply, Wanted, allocate, choose
from dra_shim.allocator import explained as explained_with
from dra_shim.allocator.capacity import share_of
from dra_shim.cel import SelectorError
from dra_shim.cel.values import parse_amount
from dra_shim.claims import (
    Capacity,
    Cel,
    ClaimSpec,
    Constraint,
    Counter,
    DeviceClass,
    DeviceRequest,
    Offer,
    Policy,
    Request,
    Taint,
    Toleration,
)
from dranet_nri.config import ConfigEntry, ConfigSource
from dranet_nri.model import Device, DeviceKey, NetworkConfig

CLASSES = {"nic": DeviceClass("nic"), "big": DeviceClass("big")}
RAIL = "x.y/rail"


def offer(name: str, **fields: object) -> Offer:
    rail = fields.pop("rail", None)
    attributes = (("rail", rail),) if rail is not None else ()
    return Offer("x.y", "p", name, attributes, **fields)  # type: ignore[arg-type]


def supply(
    *offers: Offer,
    in_use: Mapping[str, str] | None = None,
    counters: tuple[Counter, ...] = (),
    problem: str = "",
) -> Supply:
    used = {("x.y", "p", name): who for name, who in (in_use or {}).items()}
    return Supply((Pool("x.y", "p", offers, counters, problem),), used)


def exactly(name: str = "r", number: int = 1, *selectors: str, **fields: object) -> Request:
    cels = tuple(map(Cel, selectors))
    return Request(name, (DeviceRequest(name, "nic", cels, number, **fields),))  # type: ignore[arg-type]


def every(name: str = "r", *selectors: str, **fields: object) -> Request:
    return exactly(name, 1, *selectors, every=True, **fields)


def first_available(name: str, *parts: DeviceRequest) -> Request:
    return Request(name, parts)


def claim(
    *requests: Request, constraints: tuple[Constraint, ...] = (), label: str = "a/c"
) -> Wanted:
    return Wanted(label, ClaimSpec(requests, constraints))


def grants(stock: Supply, *claims: Wanted) -> tuple[Grant, ...]:
    numbers = count(1)
    return choose(claims, CLASSES, stock, new_uid=lambda: f"share-{next(numbers)}")


def given(stock: Supply, *claims: Wanted) -> list[tuple[str, str]]:
    return [(each.request, each.offer.name) for each in grants(stock, *claims)]


def refused(stock: Supply, *claims: Wanted) -> tuple[str, ...]:
    with pytest.raises(AllocationError) as caught:
        grants(stock, *claims)
    return caught.value.lines


def amount(text: str) -> Fraction:
    return parse_amount(text)


# --------------------------------------------------------------------------- distinctAttribute


def test_distinct_devices_differ_pairwise_not_only_from_the_last() -> None:
    stock = supply(*(offer(f"d{i}", rail=i % 2) for i in range(4)), offer("e", rail=2))

    found = given(stock, claim(exactly("r", 3), constraints=(Constraint(RAIL, distinct=True),)))

    assert [name for _, name in found] == ["d0", "d1", "e"]


def test_a_device_without_the_attribute_is_not_distinct() -> None:
    stock = supply(offer("a"), offer("b", rail=1))
    distinct = (Constraint(RAIL, distinct=True),)

    assert given(stock, claim(exactly(), constraints=distinct)) == [("r", "b")]
    lines = refused(stock, claim(exactly("r", 2), constraints=distinct))
    assert lines[0].endswith(
        "r: needs 2 devices, 1 of 2 can be had together; free a device, or relax the selectors or constraints"
    )
    assert lines[1:] == (
        f"claim a/c: request r: device a: distinctAttribute {RAIL}: the device has no such attribute",
        f"claim a/c: request r: device b: fits; distinctAttribute: {RAIL} is 1",
    )


def test_distinct_holds_across_requests_and_among_those_that_match_elsewhere() -> None:
    stock = supply(
        Offer("x.y", "p", "a", (("rail", 0), ("numa", 0))), Offer("x.y", "p", "b", (("rail", 0), ("numa", 1))),
        Offer("x.y", "p", "c", (("rail", 1), ("numa", 1))),
    )  # fmt: skip
    rules = (Constraint(RAIL, distinct=True), Constraint("x.y/numa"))

    found = given(stock, claim(exactly("q"), exactly("r"), constraints=rules))

    assert found == [("q", "b"), ("r", "c")]


# --------------------------------------------------------------------------- All


def test_all_takes_every_device_that_the_selectors_choose() -> None:
    stock = supply(offer("a", rail=1), offer("b", rail=2), offer("c", rail=1))

    assert given(stock, claim(every("r", 'device.attributes["x.y"].rail == 1'))) == [
        ("r", "a"), ("r", "c"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stock", "why"),
    [
        (supply(), "needs every device that its selectors choose (0): the selectors choose no device"),
        (supply(offer("a"), offer("b"), in_use={"b": "claim q"}), "(2): device b: in use by claim q"),
        (supply(offer("a", taints=(Taint("k"),))), "(1): device a: tainted k:NoSchedule, which the request does not tolerate"),
        (supply(offer("a"), problem="pool x.y/p is incomplete"), "(1): pool x.y/p is incomplete"),
        (supply(*(offer(f"d{i}") for i in range(33))), "(33): a claim holds at most 32 devices"),
    ],
    ids=["none", "in-use", "tainted", "incomplete", "too-many"],
)  # fmt: skip
def test_all_fails_as_a_whole_and_says_on_which_device(stock: Supply, why: str) -> None:
    assert why in refused(stock, claim(every()))[0]


def test_all_fails_where_one_device_breaks_a_constraint() -> None:
    stock = supply(offer("a", rail=1), offer("b", rail=2))

    lines = refused(stock, claim(every(), constraints=(Constraint(RAIL),)))

    assert (
        "needs every device that its selectors choose (2), 1 of 2 can be had together" in lines[0]
    )


def test_an_incomplete_pool_gives_nothing_to_a_counted_request_and_another_pool_does() -> None:
    good, bad = (
        Pool("x.y", "q", (Offer("x.y", "q", "ok"),)),
        supply(offer("a"), problem="broken").pools[0],
    )

    assert given(Supply((bad, good)), claim(exactly())) == [("r", "ok")]
    assert refused(Supply((bad,)), claim(exactly()))[1].endswith("device a: broken")


def test_a_selector_that_fails_on_any_device_stops_all() -> None:
    stock = supply(offer("a", rail=1), offer("b"))

    with pytest.raises(SelectorError):
        given(stock, claim(every("r", 'device.attributes["x.y"].rail == 1')))


# --------------------------------------------------------------------------- firstAvailable


def part(name: str, number: int = 1, *selectors: str, **fields: object) -> DeviceRequest:
    return DeviceRequest(name, "nic", tuple(map(Cel, selectors)), number, **fields)  # type: ignore[arg-type]


def test_the_first_alternative_that_allows_the_whole_is_taken() -> None:
    stock = supply(offer("a"), offer("b"))
    pick = first_available("r", part("r/many", 3), part("r/two", 2), part("r/one"))

    assert given(stock, claim(pick)) == [("r/two", "a"), ("r/two", "b")]
    assert given(stock, claim(pick, exactly("s"))) == [("r/one", "a"), ("s", "b")]


def test_a_constraint_on_the_request_binds_its_alternatives_and_one_on_a_part_only_that() -> None:
    stock = supply(offer("a", rail=1), offer("b", rail=2), offer("c", rail=2))
    pick = first_available("r", part("r/x", 2), part("r/y", 1))

    assert given(stock, claim(exactly("s"), pick, constraints=(Constraint(RAIL, ("s", "r")),))) == [
        ("s", "b"), ("r/y", "c"),
    ]  # fmt: skip
    assert given(stock, claim(exactly("s"), pick, constraints=(Constraint(RAIL, ("s", "r/x")),))) == [
        ("s", "a"), ("r/y", "b"),
    ]  # fmt: skip


def test_an_alternative_that_would_pass_the_limit_of_a_claim_is_passed_over() -> None:
    stock = supply(*(offer(f"d{i:02}") for i in range(40)))
    pick = first_available("r", part("r/many", 10), part("r/one", 1))

    found = given(stock, claim(exactly("s", 30), pick))

    assert found[-1] == ("r/one", "d30")


def test_each_alternative_is_explained_when_none_will_do() -> None:
    lines = refused(supply(offer("a")), claim(first_available("r", part("r/x", 3), part("r/y", 2))))

    assert [line.split(";")[0] for line in lines if "needs" in line] == [
        "claim a/c: request r/x: needs 3 devices, 1 of 1 can be had together",
        "claim a/c: request r/y: needs 2 devices, 1 of 1 can be had together",
    ]


def test_configuration_of_the_request_covers_its_alternatives_and_the_record_has_the_request() -> (
    None
):
    def mtu(source: ConfigSource, value: int, *requests: str) -> ConfigEntry:
        return ConfigEntry(source, "dra.net", {"interface": {"mtu": value}}, requests, "c")

    classes = {
        "nic": DeviceClass("nic", (), (mtu(ConfigSource.CLASS, 1400),)),
        "big": DeviceClass("big", (), (mtu(ConfigSource.CLASS, 9000),)),
    }
    pick = first_available("r", DeviceRequest("r/big", "big"), DeviceRequest("r/small", "nic"))
    stock = Stock((Device("a", DeviceKey("", "", "a")),))

    def result(*configs: ConfigEntry) -> tuple[str, int | None]:
        spec = ClaimSpec((pick,), (), configs)
        ((device,),) = allocate([Wanted("a/c", spec)], classes, stock, "n", new_uid=str)
        return device.request, device.config.interface.mtu

    assert result() == ("r", 9000)
    assert result(mtu(ConfigSource.CLAIM, 2000, "r")) == ("r", 2000)
    assert result(mtu(ConfigSource.CLAIM, 2000, "r/small")) == ("r", 9000)


# --------------------------------------------------------------------------- adminAccess


def test_admin_access_looks_at_devices_in_use_and_takes_nothing() -> None:
    stock = supply(offer("a"), in_use={"a": "claim q"})

    (grant,) = grants(stock, claim(exactly(admin_access=True)))

    assert (grant.offer.name, grant.admin_access) == ("a", True)


def test_admin_access_is_recorded_without_configuration() -> None:
    stock = Stock((Device("a", DeviceKey("", "", "a")),), {"a": "claim q"})
    config = ConfigEntry(ConfigSource.CLAIM, "dra.net", {"interface": {"mtu": 9000}}, (), "c")
    spec = ClaimSpec((exactly(admin_access=True),), (), (config,))

    ((device,),) = allocate([Wanted("a/c", spec)], CLASSES, stock, "n", new_uid=str)

    assert (device.admin_access, device.config, device.share_id) == (True, NetworkConfig(), "")


def test_admin_access_gets_a_device_once_per_claim_and_after_other_claims_of_the_pod() -> None:
    stock = supply(offer("a"))
    looks = exactly("look", admin_access=True)

    assert refused(stock, claim(looks, exactly("again", admin_access=True)))
    assert given(stock, claim(exactly()), claim(looks, label="a/d")) == [("r", "a"), ("look", "a")]
    assert refused(stock, claim(looks), claim(exactly(), label="a/d"))


def test_admin_access_still_needs_to_tolerate_taints() -> None:
    stock = supply(offer("a", taints=(Taint("k", "v", "NoExecute"),)))

    assert "tainted k=v:NoExecute" in refused(stock, claim(exactly(admin_access=True)))[1]


# --------------------------------------------------------------------------- counters


def vf(name: str, consumed: int = 1, **fields: object) -> Offer:
    return replace(offer(name, **fields), counters=(Counter("pf", "vfs", Fraction(consumed)),))


PF = (Counter("pf", "vfs", Fraction(2)),)


def test_devices_draw_on_the_counters_of_their_pool() -> None:
    stock = supply(vf("whole", 2), vf("a"), vf("b"), vf("c"), counters=PF)

    assert given(stock, claim(exactly())) == [("r", "whole")]
    assert given(stock, claim(exactly("r", 2))) == [("r", "a"), ("r", "b")]
    assert refused(stock, claim(exactly("r", 3)))[0].endswith(
        "r: needs 3 devices, but no 3 of the 4 that fit go together; free a device, or relax the selectors or constraints, or ask for less capacity"
    )


def test_devices_in_use_have_drawn_their_counters_already() -> None:
    stock = supply(vf("whole", 2), vf("a"), vf("b"), counters=PF, in_use={"a": "claim q"})

    assert given(stock, claim(exactly())) == [("r", "b")]


def test_admin_access_draws_no_counter() -> None:
    stock = supply(vf("whole", 2), vf("a"), counters=PF)

    assert given(stock, claim(exactly("r", 1, admin_access=True), exactly("s"))) == [
        ("r", "whole"), ("s", "a"),
    ]  # fmt: skip


def test_shares_of_one_device_draw_its_counters_once() -> None:
    stock = supply(vf("a", 2, shared=True), vf("b"), counters=PF)

    assert given(stock, claim(exactly("r"), exactly("s"))) == [("r", "a"), ("s", "a")]
    assert refused(stock, claim(exactly("r"), exactly("s", 2)))


# --------------------------------------------------------------------------- capacity

BANDWIDTH = Capacity(
    "bandwidth", Fraction(100), Policy(Fraction(10), (), Fraction(10), Fraction(60), Fraction(20))
)


def shared(name: str, *capacity: Capacity) -> Offer:
    return offer(name, capacity=capacity, shared=True)


def asks(number: int, name: str = "x.y/bandwidth") -> dict[str, object]:
    return {"capacity": ((name, Fraction(number)),)}


def test_a_shared_device_serves_claims_until_its_capacity_is_used_up() -> None:
    stock = supply(shared("a", BANDWIDTH), shared("b", BANDWIDTH))
    claims = [claim(exactly("r", 1, **asks(40)), label=f"a/{i}") for i in range(3)]

    found = grants(stock, *claims)

    assert [(each.offer.name, each.share_id, each.consumed) for each in found] == [
        ("a", "share-1", (("bandwidth", Fraction(50)),)),
        ("a", "share-2", (("bandwidth", Fraction(50)),)),
        ("b", "share-3", (("bandwidth", Fraction(50)),)),
    ]


def test_one_request_gets_a_shared_device_once() -> None:
    assert refused(supply(shared("a", BANDWIDTH)), claim(exactly("r", 2)))


def test_what_is_asked_must_be_there_and_be_allowed() -> None:
    def why(number: int, name: str = "bandwidth") -> str:
        stock = supply(shared("a", BANDWIDTH))
        return refused(stock, claim(exactly("r", 1, **asks(number, name))))[1].rpartition("a: ")[2]

    assert why(1, "memory") == "the request asks for capacity memory, which the device lacks"
    assert (
        why(61)
        == "the request asks for 61 of capacity bandwidth, the device gives at most 60 to one request"
    )


def test_a_device_that_is_not_shared_must_have_what_is_asked_and_is_given_whole() -> None:
    stock = supply(*(offer(f"d{i}", capacity=(Capacity("memory", Fraction(i)),)) for i in (4, 8)))

    (grant,) = grants(stock, claim(exactly("r", 1, **asks(5, "memory"))))

    assert (grant.offer.name, grant.share_id, grant.consumed) == ("d8", "", ())


RANGE = Policy(amount("2"), (), amount("1"), amount("8"), amount("1.5"))
VALUES = Policy(amount("1"), (amount("1"), amount("2"), amount("4")))


@pytest.mark.parametrize(
    ("policy", "asked", "consumed"),
    [
        (Policy(), None, "10"),
        (Policy(), "3", "3"),
        (Policy(), "11", None),
        (Policy(amount("2")), None, "2"),
        (Policy(amount("2")), "3", "3"),
        (RANGE, None, "2"),
        (RANGE, "500m", "1"),
        (RANGE, "1", "1"),
        (RANGE, "1.1", "2.5"),
        (RANGE, "2.5", "2.5"),
        (RANGE, "7", "7"),
        (RANGE, "7.1", None),
        (Policy(None, (), amount("1")), "3.3", "3.3"),
        (VALUES, None, "1"),
        (VALUES, "1.5", "2"),
        (VALUES, "4", "4"),
        (VALUES, "4.1", None),
    ],
)  # fmt: skip
def test_an_amount_is_rounded_up_by_the_policy(
    policy: Policy, asked: str | None, consumed: str | None
) -> None:
    device = shared("a", Capacity("m", amount("10"), policy))

    share = share_of(device, (("m", amount(asked)),) if asked else ())

    assert share.amounts == ((("m", amount(consumed)),) if consumed else ())
    assert bool(share.refusal) is (consumed is None)


@pytest.mark.parametrize(
    ("published", "asked"), [("m", "x.y/m"), ("x.y/m", "m"), ("o.z/m", "o.z/m")]
)
def test_a_capacity_of_the_driver_goes_by_its_bare_name_too(published: str, asked: str) -> None:
    device = shared("a", Capacity(published, Fraction(4)))

    assert share_of(device, ((asked, Fraction(1)),)).amounts == ((published, Fraction(1)),)


# --------------------------------------------------------------------------- taints


@pytest.mark.parametrize(
    ("taint", "tolerations", "free"),
    [
        (Taint("k", "v", "NoSchedule"), (), False),
        (Taint("k", "v", "NoExecute"), (), False),
        (Taint("k", "v", "None"), (), True),
        (Taint("k", "v", "NoSchedule"), (Toleration("q", exists=True), Toleration("k", "v")), True),
        (Taint("k", "v", "NoExecute"), (Toleration("k", "v", effect="NoSchedule"),), False),
    ],
)  # fmt: skip
def test_a_tainted_device_needs_a_toleration(
    taint: Taint,
    tolerations: tuple[Toleration, ...],
    free: bool,  # noqa: FBT001 a column
) -> None:
    stock = supply(offer("a", taints=(taint,)), offer("b"))

    assert given(stock, claim(exactly("r", 1, tolerations=tolerations))) == [
        ("r", "a" if free else "b")
    ]


def test_a_hopeless_request_is_told_though_a_selector_of_another_would_fail() -> None:
    stock = supply(offer("a"))
    fails = exactly("s", 1, 'device.attributes["x.y"].rail == 1')

    lines = refused(stock, claim(exactly("r", 2), fails))

    assert lines[0].startswith("claim a/c: request r: needs 2 devices, 1 of 1 can be had together")
    assert not any("request s" in line for line in lines)


# --------------------------------------------------------------------------- every check


def checks(stock: Supply, *claims: Wanted) -> dict[tuple[str, str], list[tuple[str, str, str]]]:
    parts, _, _ = explained_with(claims, CLASSES, stock, new_uid=str)
    return {
        (one.request, device.offer.name): [
            (check.what, str(check.outcome), check.text) for check in device.checks
        ]
        for one in parts
        for device in one.devices
    }


def test_every_selector_is_shown_with_the_values_it_saw() -> None:
    expression = 'device.driver == "x.y" && device.attributes["x.y"].rail == 1 && device.capacity["x.y"].m.sign() > 0 && !device.allowMultipleAllocations'
    stock = supply(
        offer("a", rail=1, capacity=(Capacity("m", Fraction(1024)),)), offer("b", capacity=(Capacity("x.y/m", Fraction(5)),)), offer("c", rail=1)
    )  # fmt: skip

    parts, got, why = explained_with(
        [claim(exactly("r", 1, expression, "true"))], CLASSES, stock, new_uid=str
    )

    (one,) = parts
    assert (one.claim, one.request, one.asks, one.blocked) == (
        "a/c",
        "r",
        "1 device of class nic",
        "",
    )
    assert [each.chosen for each in one.devices] == [True, False, False]
    assert ([grant.offer.name for grant in got], why) == (["a"], ())
    first, second, third = (each.checks[1] for each in one.devices)
    assert (first.outcome, first.saw) == (
        "passed",
        (
            ("driver", '"x.y"'),
            ("x.y/rail", "1"),
            ("x.y/m", "1Ki"),
            ("allowMultipleAllocations", "false"),
        ),
    )
    assert (second.outcome, second.saw[1:3]) == ("error", (("x.y/rail", "missing"), ("x.y/m", "5")))
    assert second.text.startswith(expression)
    assert 'the device has no "rail"; guard it' in second.text
    assert third.saw[2] == ("x.y/m", "missing")
    assert [each.checks[2].outcome for each in one.devices] == ["passed"] * 3


def test_a_decision_shows_why_the_others_were_passed_over() -> None:
    stock = supply(
        offer("a", rail=1),
        offer("b", rail=2),
        offer("c", rail=1),
        offer("d"),
        in_use={"c": "claim q"},
    )
    rules = (Constraint(RAIL, ("r",)), Constraint(RAIL, distinct=True))

    found = checks(stock, claim(exactly("r"), exactly("s"), constraints=rules))

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
    stock = supply(
        vf("a", 2, shared=True, capacity=(BANDWIDTH,), taints=link), vf("b"), offer("c", taints=link),
        counters=PF,
    )  # fmt: skip
    ask = exactly(
        "r",
        1,
        "device.allowMultipleAllocations",
        tolerations=(Toleration("link", exists=True),),
        **asks(60, "bandwidth"),
    )
    parts, _, _ = explained_with(
        [claim(ask, exactly("s", 1, admin_access=True))], CLASSES, stock, new_uid=str
    )
    found = checks(
        stock,
        claim(
            exactly("r", 1, tolerations=(Toleration("link", exists=True),)),
            exactly("s", 1, admin_access=True),
        ),
    )

    assert refused(stock, claim(ask))
    assert parts[0].asks == "1 device of class nic with capacity bandwidth 60"
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
    stock = supply(shared("a", Capacity("m", Fraction(3))), shared("b", Capacity("m", Fraction(2))))

    found = checks(stock, claim(exactly("r", 1, **asks(2, "m")), exactly("s", 1, **asks(2, "m"))))

    assert found["s", "a"] == [
        ("availability", "passed", "free"),
        ("capacity and counters", "failed", "capacity m: needs 2, 1 is left"),
    ]


def test_without_a_decision_the_reasons_are_given_and_checks_are_those_of_a_fresh_start() -> None:
    stock = supply(offer("a", rail=1), offer("b", rail=2))
    wanted = claim(every("r"), constraints=(Constraint(RAIL),))

    parts, got, why = explained_with([wanted], CLASSES, stock, new_uid=str)

    assert got == ()
    assert why[0].startswith(
        "claim a/c: request r: needs every device that its selectors choose (2), 1 of 2"
    )
    assert [check.outcome for device in parts[0].devices for check in device.checks] == [
        "passed"
    ] * 4
    assert parts[0].asks == "every device of class nic"


def test_a_failing_selector_is_the_reason() -> None:
    stock = supply(offer("a"))

    parts, got, why = explained_with(
        [claim(exactly("r", 1, 'device.attributes["x.y"].rail == 1'))], CLASSES, stock, new_uid=str
    )

    assert got == ()
    assert parts[0].devices[0].checks[1].outcome == "error"
    assert 'the device has no "rail"' in why[0]


def test_a_search_that_gave_up_is_the_reason() -> None:
    stock = supply(*(offer(f"n{i:02}") for i in range(40)))
    wanted = [claim(exactly("x", 16), exactly("y", 16)), claim(exactly("z", 16), label="a/d")]

    _, got, why = explained_with(wanted, CLASSES, stock, new_uid=str)

    assert got == ()
    assert why[0].startswith("gave up after")
