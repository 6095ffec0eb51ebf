# ruff: noqa: E501  cases in one line read as a table
"""Devices of a request: distinct devices, all devices, or the first alternative."""

import pytest

from dra_shim.cel import SelectorError
from dra_shim.pool import NodeInventory
from dra_shim.resourceapi import (
    ClaimSpec,
    Constraint,
    DeviceClass,
    DeviceRequest,
    SliceDevice,
    Taint,
)
from dra_shim.scheduling.allocator import NamedClaim, Pool, PoolSet, allocate
from dranet_nri.config import ConfigEntry, ConfigSource
from dranet_nri.model import Device, DeviceKey
from tests.dra_shim.scheduling.shorthand import (
    RAIL,
    claim,
    every,
    exactly,
    first_available,
    given,
    part,
    pool_set_with,
    refused,
    slice_device,
)

# --------------------------------------------------------------------------- distinctAttribute


def test_distinct_devices_differ_pairwise() -> None:
    pool_set = pool_set_with(
        *(slice_device(f"d{i}", rail=i % 2) for i in range(4)), slice_device("e", rail=2)
    )

    found = given(pool_set, claim(exactly("r", 3), constraints=(Constraint(RAIL, distinct=True),)))

    assert [name for _, name in found] == ["d0", "d1", "e"]


def test_device_without_the_attribute_is_not_distinct() -> None:
    pool_set = pool_set_with(slice_device("a"), slice_device("b", rail=1))
    distinct = (Constraint(RAIL, distinct=True),)

    assert given(pool_set, claim(exactly(), constraints=distinct)) == [("r", "b")]
    lines = refused(pool_set, claim(exactly("r", 2), constraints=distinct))
    assert lines[0].endswith(
        "r: needs 2 devices, 1 of 2 can be allocated together; free a device, or relax the selectors or constraints"
    )
    assert lines[1:] == (
        f"claim a/c: request r: device a: distinctAttribute {RAIL}: the device has no such attribute",
        f"claim a/c: request r: device b: fits; distinctAttribute: {RAIL} is 1",
    )


def test_distinct_holds_across_requests() -> None:
    pool_set = pool_set_with(
        SliceDevice("x.y", "p", "a", (("rail", 0), ("numa", 0))), SliceDevice("x.y", "p", "b", (("rail", 0), ("numa", 1))),
        SliceDevice("x.y", "p", "c", (("rail", 1), ("numa", 1))),
    )  # fmt: skip
    rules = (Constraint(RAIL, distinct=True), Constraint("x.y/numa"))

    found = given(pool_set, claim(exactly("q"), exactly("r"), constraints=rules))

    assert found == [("q", "b"), ("r", "c")]


# --------------------------------------------------------------------------- All


def test_all_mode_takes_every_selected_device() -> None:
    pool_set = pool_set_with(
        slice_device("a", rail=1), slice_device("b", rail=2), slice_device("c", rail=1)
    )

    assert given(pool_set, claim(every("r", 'device.attributes["x.y"].rail == 1'))) == [
        ("r", "a"), ("r", "c"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pool_set", "reason"),
    [
        (pool_set_with(), "needs every device that its selectors choose (0): the selectors choose no device"),
        (pool_set_with(slice_device("a"), slice_device("b"), in_use={"b": "claim q"}), "(2): device b: in use by claim q"),
        (pool_set_with(slice_device("a", taints=(Taint("k"),))), "(1): device a: tainted k:NoSchedule, which the request does not tolerate"),
        (pool_set_with(slice_device("a"), problem="pool x.y/p is incomplete"), "(1): pool x.y/p is incomplete"),
        (pool_set_with(*(slice_device(f"d{i}") for i in range(33))), "(33): a claim holds at most 32 devices"),
    ],
    ids=["none", "in-use", "tainted", "incomplete", "too-many"],
)  # fmt: skip
def test_failed_all_mode_names_the_device(pool_set: PoolSet, reason: str) -> None:
    assert reason in refused(pool_set, claim(every()))[0]


def test_all_mode_fails_if_a_device_violates_a_constraint() -> None:
    pool_set = pool_set_with(slice_device("a", rail=1), slice_device("b", rail=2))

    assert refused(pool_set, claim(every(), constraints=(Constraint(RAIL),))) == (
        "claim a/c: request r: needs every device that its selectors choose (2), but device b: matchAttribute x.y/rail: is 2, other devices have 1; "
        "the scheduler then tries no other devices for earlier requests; list this request first, or relax the selectors or constraints",
    )


def test_constraint_of_all_mode_stops_the_search() -> None:
    pool_set = pool_set_with(
        *(slice_device(name, rail=rail) for name, rail in (("a", 1), ("b", 2), ("c", 2)))
    )
    rule = (Constraint(RAIL),)
    every_2 = every("r", 'device.attributes["x.y"].rail == 2')
    pick = first_available("r", part("r/all", all_devices=True), part("r/one"))

    lines = refused(pool_set, claim(exactly("s"), every_2, constraints=rule))

    assert "choose (2), but device b: matchAttribute x.y/rail: is 2, other" in lines[0]
    assert "request r/all: needs every" in refused(pool_set, claim(pick, constraints=rule))[0]


def test_all_mode_concerns_all_alternatives_of_a_request() -> None:
    usable = Pool("x.y", "q", (SliceDevice("x.y", "q", "ok"),))
    broken = pool_set_with(slice_device("a"), problem="broken").pools[0]
    fails = part("r/all", 1, 'device.attributes["x.y"].rail == 1', all_devices=True)

    with pytest.raises(SelectorError):
        given(PoolSet((usable,)), claim(first_available("r", part("r/one"), fails)))
    lines = refused(
        PoolSet((usable, broken)),
        claim(first_available("r", part("r/one"), part("r/all", all_devices=True))),
    )
    assert lines[0].startswith("claim a/c: request r/one: needs 1 device: broken")


def test_incomplete_pool_is_skipped_for_counted_requests() -> None:
    good, bad = (
        Pool("x.y", "q", (SliceDevice("x.y", "q", "ok"),)),
        pool_set_with(slice_device("a"), problem="broken").pools[0],
    )

    assert given(PoolSet((bad, good)), claim(exactly())) == [("r", "ok")]
    assert refused(PoolSet((bad,)), claim(exactly()))[1].endswith("device a: broken")


def test_failing_selector_stops_all_mode() -> None:
    pool_set = pool_set_with(slice_device("a", rail=1), slice_device("b"))

    with pytest.raises(SelectorError):
        given(pool_set, claim(every("r", 'device.attributes["x.y"].rail == 1')))


# --------------------------------------------------------------------------- firstAvailable


def test_first_feasible_alternative_is_taken() -> None:
    pool_set = pool_set_with(slice_device("a"), slice_device("b"))
    pick = first_available("r", part("r/many", 3), part("r/two", 2), part("r/one"))

    assert given(pool_set, claim(pick)) == [("r/two", "a"), ("r/two", "b")]
    assert given(pool_set, claim(pick, exactly("s"))) == [("r/one", "a"), ("s", "b")]


def test_failing_selector_of_an_infeasible_alternative_stops_the_search() -> None:
    fails = part("r/two", 2, 'device.attributes["x.y"].rail == 1')
    pick = first_available("r", fails, part("r/one"))

    with pytest.raises(SelectorError, match='device a: the device has no "rail"'):
        given(pool_set_with(slice_device("a")), claim(pick))
    assert given(pool_set_with(slice_device("a", rail=1)), claim(pick)) == [("r/one", "a")]


def test_constraint_on_a_request_covers_its_subrequests() -> None:
    pool_set = pool_set_with(
        slice_device("a", rail=1), slice_device("b", rail=2), slice_device("c", rail=2)
    )
    pick = first_available("r", part("r/x", 2), part("r/y", 1))

    assert given(pool_set, claim(exactly("s"), pick, constraints=(Constraint(RAIL, ("s", "r")),))) == [
        ("s", "b"), ("r/y", "c"),
    ]  # fmt: skip
    assert given(pool_set, claim(exactly("s"), pick, constraints=(Constraint(RAIL, ("s", "r/x")),))) == [
        ("s", "a"), ("r/y", "b"),
    ]  # fmt: skip


def test_alternative_above_the_device_limit_is_skipped() -> None:
    pool_set = pool_set_with(*(slice_device(f"d{i:02}") for i in range(40)))
    pick = first_available("r", part("r/many", 10), part("r/one", 1))

    found = given(pool_set, claim(exactly("s", 30), pick))

    assert found[-1] == ("r/one", "d30")


def test_every_infeasible_alternative_is_explained() -> None:
    lines = refused(
        pool_set_with(slice_device("a")),
        claim(first_available("r", part("r/x", 3), part("r/y", 2))),
    )

    assert [line.split(";")[0] for line in lines if "needs" in line] == [
        "claim a/c: request r/x: needs 3 devices, 1 of 1 can be allocated together",
        "claim a/c: request r/y: needs 2 devices, 1 of 1 can be allocated together",
    ]


def test_configuration_of_a_request_covers_its_alternatives() -> None:
    def mtu(source: ConfigSource, value: int, *requests: str) -> ConfigEntry:
        return ConfigEntry(source, "dra.net", {"interface": {"mtu": value}}, requests, "c")

    classes = {
        "nic": DeviceClass("nic", (), (mtu(ConfigSource.CLASS, 1400),)),
        "big": DeviceClass("big", (), (mtu(ConfigSource.CLASS, 9000),)),
    }
    pick = first_available("r", DeviceRequest("r/big", "big"), DeviceRequest("r/small", "nic"))
    node_devices = NodeInventory((Device("a", DeviceKey("", "", "a")),))

    def result(*configs: ConfigEntry) -> tuple[str, int | None]:
        spec = ClaimSpec((pick,), (), configs)
        ((device,),) = allocate([NamedClaim("a/c", spec)], classes, node_devices, "n", new_uid=str)
        return device.request, device.config.interface.mtu

    assert result() == ("r", 9000)
    assert result(mtu(ConfigSource.CLAIM, 2000, "r")) == ("r", 2000)
    assert result(mtu(ConfigSource.CLAIM, 2000, "r/small")) == ("r", 9000)
