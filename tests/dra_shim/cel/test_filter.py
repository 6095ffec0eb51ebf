# ruff: noqa: E501, FBT001  cases in one line read as a table; expectations are booleans
"""The inventory filter in dranet's language, and device matching in the same language."""

import pytest

from dra_shim.cel import SelectorError, filter_devices, matching_devices
from dranet_nri.model import DEFAULT_FILTER, AttributeValue, Device, DeviceKey, Version
from tests.dra_shim.scheduling.nic_slice_device import NIC


def device(name: str = "pci-0000-8a-00-0", **attributes: AttributeValue) -> Device:
    pairs = {key.replace("__", "/"): value for key, value in attributes.items()}
    qualified = {f"dra.net/{key}" if "/" not in key else key: value for key, value in pairs.items()}
    return Device(name, DeviceKey("pci", "0000:8a:00.0", "eth1"), tuple(sorted(qualified.items())))


DEVICE = Device(
    "pci-0000-8a-00-0",
    DeviceKey("pci", "0000:8a:00.0", "eth1"),
    tuple((name, value) for name, value in NIC.attributes if not isinstance(value, tuple)),
)


def test_empty_filter_keeps_all_devices() -> None:
    assert filter_devices("", [DEVICE]) == (DEVICE,)


def test_default_filter_of_dranet_drops_veth_and_keeps_other_devices() -> None:
    veth = device("veth0", type="veth")
    untyped = device("pci-x", rdma=True)

    assert filter_devices(DEFAULT_FILTER, [DEVICE, veth, untyped]) == (DEVICE, untyped)


@pytest.mark.parametrize(
    "value", ["veth", "", "Veth", "device", 0, 1, True, Version("1.0.0"), None], ids=repr
)
def test_default_filter_gives_the_same_result_as_the_cel_library(
    value: AttributeValue | None,
) -> None:
    subject = device(rdma=True) if value is None else device(rdma=True, type=value)

    for select in (filter_devices, matching_devices):
        by_library = select(f"({DEFAULT_FILTER})", [subject])
        assert select(DEFAULT_FILTER, [subject]) == by_library


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ('attributes["dra.net/numaNode"].IntValue == 0', True),
        ('attributes["dra.net/rdma"].BoolValue', True),
        ('attributes["dra.net/firmware"].VersionValue.startsWith("22.")', True),
        ('attributes["dra.net/rdma"].StringValue == ""', True),
        ('attributes["dra.net/virtual"].BoolValue', False),
        ('attributes["dra.net/missing"].BoolValue', True),
        ("1 + 1", False),
    ],
    ids=["int", "bool", "version", "unset-reads-as-zero", "false-drops", "failure-keeps", "other-drops"],
)  # fmt: skip
def test_filter_keeps_and_drops_devices_as_dranet_does(expression: str, matches: bool) -> None:
    assert filter_devices(expression, [DEVICE]) == ((DEVICE,) if matches else ())


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ('attributes["dra.net/rdma"].BoolValue', True),
        ('attributes["dra.net/virtual"].BoolValue', False),
        ('attributes["dra.net/missing"].BoolValue', False),
        ("{1: 1, 1: 1}.size() == 1", False),
        ("1 + 1", False),
        ("", False),
    ],
    ids=["true", "false", "failure", "raised-failure", "other", "none"],
)
def test_device_matches_only_if_the_expression_is_true(expression: str, matches: bool) -> None:
    assert matching_devices(expression, [DEVICE]) == ((DEVICE,) if matches else ())


def test_invalid_expression_is_refused_by_matching_devices() -> None:
    with pytest.raises(SelectorError):
        matching_devices("attribute", [])


def test_filter_distinguishes_true_from_1_on_otherwise_equal_devices() -> None:
    expression = 'attributes["dra.net/x"].BoolValue'
    flag, number = device(x=True), device(x=1)
    assert flag == number

    assert [filter_devices(expression, [entry]) for entry in (flag, number)] == [(flag,), ()]


def test_filter_that_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(SelectorError):
        filter_devices("attribute", [])


TYPE = 'attributes["dra.net/type"]'


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (f'{TYPE}.stringValue == "device"', "undefined field 'stringValue'"),
        (f'{TYPE}.string == "device"', "undefined field 'string'"),
        (f'{TYPE}.Value == "device"', "undefined field 'Value'"),
        (f'has({TYPE}.stringValue) && true', "undefined field 'stringValue'"),
        (f'{TYPE} == "device"', "no matching overload"),
        (f'{TYPE}.IntValue == "device"', "no matching overload"),
        (f"{TYPE}.StringValue == 1", "no matching overload"),
        (f"{TYPE}.BoolValue < 1", "no matching overload"),
        (f'{TYPE}["StringValue"] == "device"', "no matching overload"),
        (f'{TYPE}.VersionValue.minor() == 1', "no matching overload"),
        ("attributes[0].IntValue == 0", "no matching overload"),
        ('attributes["dra.net"]["type"].StringValue == "device"', "no matching overload"),
        ('attributes.exists(name, attributes[name].intValue == 0)', "undefined field 'intValue'"),
        ('device.attributes["dra.net"].rdma', "undeclared reference to 'device.attributes'"),
        (f'!{TYPE}.StringValue', "no matching overload"),
        (f'{TYPE}.IntValues == ["a"]', "no matching overload"),
    ],
)  # fmt: skip
def test_expression_that_dranet_refuses_is_refused_with_the_remedy(
    expression: str, problem: str
) -> None:
    with pytest.raises(SelectorError) as caught:
        filter_devices(expression, [])

    assert caught.value.expression == expression
    assert problem in caught.value.reason
    assert "an attribute has StringValue, IntValue, BoolValue, VersionValue" in caught.value.reason
    assert DEFAULT_FILTER in caught.value.reason


@pytest.mark.parametrize(
    ("member", "values"),
    [
        ("StringValue", ("", "x")),
        ("IntValue", (0, -1)),
        ("BoolValue", (False, True)),
        ("VersionValue", (Version("0.0.0"), Version("1.2.3"))),
    ],
)
def test_has_is_true_only_for_the_member_that_is_set(
    member: str, values: tuple[AttributeValue, ...]
) -> None:
    expression = f'has(attributes["dra.net/x"].{member})'
    others: tuple[AttributeValue, ...] = ("", 0, False, Version("0.0.0"))

    for value in values:
        assert filter_devices(expression, [device(x=value)])
    for value in others:
        assert bool(filter_devices(expression, [device(x=value)])) is (
            type(value) is type(values[0])
        )


def test_has_of_a_list_is_false_for_an_unset_list() -> None:
    assert not filter_devices('has(attributes["dra.net/x"].IntValues)', [device(x=1)])


def test_structs_can_be_compared_and_passed_through_macros() -> None:
    for expression in (
        'attributes["dra.net/x"] == attributes["dra.net/y"]',
        'attributes.exists(name, has(attributes[name].BoolValue) && attributes[name].BoolValue)',
        'attributes.all(name, !has(attributes[name].StringValue))',
        'attributes["dra.net/x"] == v1.DeviceAttribute{BoolValue: true}',
    ):  # fmt: skip
        assert filter_devices(expression, [device(x=True, y=True)]), expression
        assert not filter_devices(expression, [device(x=False, y="a")]), expression
