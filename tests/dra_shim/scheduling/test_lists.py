"""Attributes with several values (KEP-5491): what constraints and selectors make of them."""

import pytest

from dra_shim.cel import SelectorError, compile_selector, filter_devices, matching_devices
from dra_shim.resourceapi import Constraint, SliceDevice
from dra_shim.scheduling.allocator import NamedClaim, PoolSet
from dranet_nri.inventory import NUMA_NODE
from dranet_nri.model import Device, DeviceKey, Version
from tests.dra_shim.scheduling.shorthand import (
    RAIL,
    claim,
    exactly,
    given,
    pool_set_with,
    refused,
    slice_device,
)

MATCH = (Constraint(RAIL),)
DISTINCT = (Constraint(RAIL, distinct=True),)


def names(pool_set: PoolSet, *claims: NamedClaim) -> list[str]:
    """Return the devices that are given."""
    return [name for _, name in given(pool_set, *claims)]


@pytest.mark.parametrize(
    ("rails", "expected"),
    [
        (((6, 4, 5, 7), (5, 4, 6, 7)), ["a", "b"]),
        (((6, 4), 5, 4), ["a", "c"]),
        (((1, 2), (2, 3), (3, 1), (2, 1)), ["a", "b"]),
    ],
    ids=["lists overlap", "a value is a list of one", "the first that fit"],
)
def test_matching_devices_have_a_common_value(
    rails: tuple[object, ...], expected: list[str]
) -> None:
    devices = [slice_device(name, rail=rail) for name, rail in zip("abcd", rails, strict=False)]

    assert names(pool_set_with(*devices), claim(exactly("r", 2), constraints=MATCH)) == expected


def test_all_matching_devices_have_one_common_value() -> None:
    devices = [
        slice_device("a", rail=(1, 2)),
        slice_device("b", rail=(2, 3)),
        slice_device("c", rail=(3, 1)),
    ]
    three = claim(exactly("r", 3), constraints=MATCH)

    assert names(pool_set_with(*devices, slice_device("d", rail=(2, 1))), three) == ["a", "b", "d"]
    lines = refused(pool_set_with(*devices), three)
    assert "2 of 3 can be allocated together" in "\n".join(lines)


def test_distinct_devices_have_no_common_value() -> None:
    devices = [
        slice_device("a", rail=(1, 2)),
        slice_device("b", rail=(2, 3)),
        slice_device("c", rail=3),
    ]
    two = claim(exactly("r", 2), constraints=DISTINCT)

    assert names(pool_set_with(*devices), two) == ["a", "c"]


def test_true_is_not_1_in_a_list() -> None:
    devices = [slice_device("a", rail=(True,)), slice_device("b", rail=1)]

    refused(pool_set_with(*devices), claim(exactly("r", 2), constraints=MATCH))


LISTED = SliceDevice(
    "x.y", "p", "a",
    (
        (NUMA_NODE, (6, 4)), ("one", 4), ("yes", True), ("flags", (True,)), ("words", ("a", "b")),
        ("versions", (Version("1.2.3"), Version("2.0.0"))),
    ),
)  # fmt: skip
NUMA = 'device.attributes["resource.kubernetes.io"].numaNode'
OWN = 'device.attributes["x.y"]'


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        (f"{NUMA}.includes(4)", True),
        (f"{NUMA}.includes(5)", False),
        (f"4 in {NUMA}", True),
        (f"{NUMA}[0] == 6", True),
        (f"{NUMA} == 6", False),
        (f"{OWN}.one.includes(4)", True),
        (f'{OWN}.one.includes("4")', False),
        (f"{OWN}.yes.includes(1)", False),
        (f"{OWN}.flags.includes(true)", True),
        (f'{OWN}.words.includes("b")', True),
        (f'{OWN}.versions.includes(semver("2.0.0"))', True),
        ('"model-a".includes("model-a")', True),
    ],
)
def test_selectors_can_read_lists(expression: str, result: bool) -> None:  # noqa: FBT001
    assert compile_selector(expression).matches(LISTED) is result


def test_list_is_not_a_number() -> None:
    with pytest.raises(SelectorError):
        compile_selector(f"{NUMA} < 7").matches(LISTED)


NIC = Device("eth1", DeviceKey("", "", "eth1"), ((NUMA_NODE, 6),))
WITHOUT_ATTRIBUTES = Device("eth2", DeviceKey("", "", "eth2"))
INTS = f'attributes["{NUMA_NODE}"].IntValues'


@pytest.mark.parametrize(
    ("expression", "near", "matches"),
    [
        (f"4 in {INTS}", {6: (6, 4)}, True),
        (f"4 in {INTS}", None, False),
        (f"{INTS} == [6]", {}, True),
        (f'attributes["{NUMA_NODE}"].IntValue == 6', {6: (6, 4)}, True),
    ],
    ids=["list", "off", "nobody knows what is near", "the node all the same"],
)
def test_filter_reads_the_published_attributes(
    expression: str,
    near: dict[int, tuple[int, ...]] | None,
    matches: bool,  # noqa: FBT001
) -> None:
    assert filter_devices(expression, [NIC], near) == ((NIC,) if matches else ())
    assert matching_devices(expression, [NIC, WITHOUT_ATTRIBUTES], near) == (
        (NIC,) if matches else ()
    )
