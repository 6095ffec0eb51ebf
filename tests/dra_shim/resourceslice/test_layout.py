"""Distribution of devices to slices: within the API's limits, with few moves between slices."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.pool import DriverResources
from dra_shim.resourceapi import CounterValue, SliceDevice
from dra_shim.resourceslice import layout
from dra_shim.resourceslice.layout import (
    MAX_ADVANCED,
    MAX_DEVICES,
    SliceContent,
    counters_name,
    laid_out,
    object_name,
    slice_name,
)
from dranet_nri.model.api_names import parse_subdomain
from tests.dra_shim.resourceslice.pools import NODE, contents, many, resources, slice_devices

FIRST, SECOND, THIRD = (slice_name(NODE, index) for index in range(3))


def again(parts: Sequence[SliceContent]) -> Mapping[str, list[str]]:
    """Return the parts as they are once they are published."""
    return {part.name: [slice_device.name for slice_device in part.devices] for part in parts}


def test_slice_names_contain_the_node_and_sort() -> None:
    assert (FIRST, slice_name(NODE, 255)) == ("node-1-dra.net-000", "node-1-dra.net-255")
    assert counters_name(NODE, 0) == "node-1-dra.net-counters-000"
    names = [*(slice_name(NODE, index) for index in range(1000)), counters_name(NODE, 0)]
    assert names == sorted(names)


@pytest.mark.parametrize("length", [230, 231, 253])
def test_long_node_name_is_truncated_and_unique(length: int) -> None:
    node = ("a" * 62 + ".") * 4 + "b"
    node = node[: length - 1] + "x"
    other = node[:-1] + "y"

    names = {entry(one, 999) for one in (node, other) for entry in (slice_name, counters_name)}

    assert len(names) == 4
    assert all(parse_subdomain(name) for name in names)
    assert (object_name(node, "").startswith(node)) == (length <= 232)


@pytest.mark.parametrize(
    ("tainted", "number", "slices"),
    [
        (0, 0, [0]),
        (0, 1, [1]),
        (0, 128, [128]),
        (0, 129, [128, 1]),
        (0, 300, [128, 128, 44]),
        (1, 64, [64]),
        (1, 65, [64, 1]),
        (65, 65, [64, 1]),
        (1024, 1024, [64] * 16),
    ],
)
def test_pool_has_as_few_slices_as_possible(tainted: int, number: int, slices: list[int]) -> None:
    names = many(number)

    parts = laid_out(NODE, resources(*names, taints=names[:tainted]), {})

    assert [size for _, size in contents(parts)] == slices
    assert [part.name for part in parts] == [slice_name(NODE, i) for i in range(len(slices))]
    assert [device.name for part in parts for device in part.devices] == names


def test_devices_with_counters_count_as_advanced() -> None:
    names = many(65)

    parts = laid_out(NODE, resources(*names, drawn=names[:1]), {})

    assert contents(parts) == [(FIRST, 64), (SECOND, 1)]


def test_node_name_is_not_truncated_after_a_dot() -> None:
    node = "a" * 222 + "." + "b" * 20

    assert parse_subdomain(slice_name(node, 0)).startswith("a" * 222 + "-")


def test_slice_has_a_limit_of_advanced_devices() -> None:
    names = many(100)

    parts = laid_out(NODE, resources(*names, taints=names[99:]), {})

    assert contents(parts) == [(FIRST, 99), (SECOND, 1)]


def test_taint_in_a_full_slice_moves_its_last_devices() -> None:
    names = many(100)
    before = again(laid_out(NODE, resources(*names), {}))

    parts = laid_out(NODE, resources(*names, taints=names[3:4]), before)

    assert again(parts) == {FIRST: names[:64], SECOND: names[64:]}


def test_removed_taint_moves_no_device() -> None:
    names = many(100)
    tainted = again(laid_out(NODE, resources(*names, taints=names[:1]), {}))

    parts = laid_out(NODE, resources(*names), tainted)

    assert again(parts) == tainted


def test_device_that_disappears_and_returns_changes_one_slice() -> None:
    names = many(300)
    before = again(laid_out(NODE, resources(*names), {}))

    gone = again(laid_out(NODE, resources(*names[:5], *names[6:]), before))
    back = again(laid_out(NODE, resources(*names), gone))

    assert [name for name in before if before[name] != gone[name]] == [FIRST]
    assert back == before


def test_pool_of_many_small_slices_is_compacted() -> None:
    names = many(300)
    before = again(laid_out(NODE, resources(*names), {}))
    remaining = [*names[:30], *names[128:138], *names[-10:]]

    assert again(laid_out(NODE, resources(*remaining), before)) == {FIRST: remaining}


def test_empty_slice_is_deleted() -> None:
    names = many(200)
    before = again(laid_out(NODE, resources(*names), {}))

    parts = laid_out(NODE, resources(*names[128:], "z"), before)

    assert again(parts) == {SECOND: [*names[128:], "z"]}


def test_new_slice_has_the_first_free_name() -> None:
    names = many(128, "b")
    before = {SECOND: names}

    parts = laid_out(NODE, resources(*names, "a"), before)

    assert again(parts) == {FIRST: ["a"], SECOND: names}


def test_foreign_and_counter_slices_do_not_affect_the_layout() -> None:
    names = many(2)
    before = {
        "0-dra.net-node-1-x7x": names[:1],
        counters_name(NODE, 0): [],
        "node-1-dra.net-00": names[1:],
        "node-1-dra.net-zzz": names[1:],
        "node-2-dra.net-000": names[1:],
    }

    assert again(laid_out(NODE, resources(*names), before)) == {FIRST: names}


@pytest.mark.parametrize(("sets", "slices"), [(1, [1]), (8, [8]), (9, [8, 1]), (20, [8, 8, 4])])
def test_counters_have_their_own_slices(sets: int, slices: list[int]) -> None:
    counters = [CounterValue(f"pf-{i:02d}", "functions", Fraction(4)) for i in range(sets)]
    more = [CounterValue(f"pf-{i:02d}", "others", Fraction(4)) for i in range(sets)]

    parts = laid_out(NODE, DriverResources(slice_devices("a"), (*counters, *more)), {})

    held = parts[1:]
    assert [part.name for part in held] == [counters_name(NODE, i) for i in range(len(slices))]
    assert [len({counter.set for counter in part.counters}) for part in held] == slices
    assert sum(len(part.counters) for part in held) == 2 * sets
    assert all(not part.devices for part in held)


POOLS = st.sets(st.integers(0, 400), max_size=300)


@given(st.lists(st.tuples(POOLS, POOLS), min_size=1, max_size=4))
def test_layout_has_each_device_once_within_the_limits(
    history: list[tuple[set[int], set[int]]],
) -> None:
    before: Mapping[str, list[str]] = {}
    for present, tainted in history:
        names = [f"nic-{index:03d}" for index in sorted(present)]
        unhealthy = {f"nic-{index:03d}" for index in tainted}
        parts = laid_out(NODE, resources(*names, taints=unhealthy), before)
        before = again(parts)

        assert sorted(name for part in before.values() for name in part) == names
        assert all(part == sorted(part) for part in before.values())
        assert laid_out(NODE, resources(*names, taints=unhealthy), before) == parts
        for part in parts:
            limit = MAX_ADVANCED if any(device.taints for device in part.devices) else MAX_DEVICES
            assert len(part.devices) <= limit
        assert len(parts) <= max(1, -(-len(names) // MAX_ADVANCED))


@pytest.mark.parametrize("share", [0, 1, 2])
def test_layout_cost_is_linear_in_the_devices(monkeypatch: pytest.MonkeyPatch, share: int) -> None:
    calls = [0]

    def counted(slice_device: SliceDevice) -> bool:
        calls[0] += 1
        return bool(slice_device.taints)

    monkeypatch.setattr(layout, "_advanced", counted)
    names = many(2048)
    node = resources(*names, taints=names[::share] if share else ())

    parts = laid_out(NODE, node, {})
    laid_out(NODE, node, {FIRST: names})  # all but 64 or 128 must leave it

    assert sum(len(part.devices) for part in parts) == len(names)
    assert calls[0] <= 8 * len(names)
