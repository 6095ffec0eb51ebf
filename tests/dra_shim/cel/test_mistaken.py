# ruff: noqa: E501  one case per line reads as a table
"""Reports on selectors that never match."""

import pytest

from dra_shim.cel import (
    drivers_in,
    unknown_attribute,
    unknown_attributes,
    unknown_in_filter,
    wrong_reference,
    wrong_types,
)
from dra_shim.cel.mistaken import close_to


@pytest.mark.parametrize(
    ("expression", "replacement"),
    [
        ("device.attributes['dra.net/isSriovVf'].BoolValue", 'device.attributes["dra.net"].isSriovVf'),
        ('attributes["dra.net/type"].StringValue == "veth"', 'device.attributes["dra.net"].type'),
        ('device.attributes["dra.net/mtu"] > 1500', 'device.attributes["dra.net"].mtu'),
        ('"dra.net/type" in attributes', '"type" in device.attributes["dra.net"]'),
        ("'dra.net/rdma' in device.attributes", '"rdma" in device.attributes["dra.net"]'),
        ('device.attributes["dra.net"].rdma.BoolValue', 'device.attributes["dra.net"].rdma'),
        ('device.attributes["dra.net"]["mtu"].IntValues[0] > 1', 'device.attributes["dra.net"]["mtu"]'),
    ],
)  # fmt: skip
def test_filter_expression_is_reported_with_its_selector_form(
    expression: str, replacement: str
) -> None:
    assert wrong_reference(expression).endswith(
        f"is in the language of --filter; write {replacement}"
    )


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        ('device.attributes["dra.net"].rdma.bool', ': a value has no fields; write device.attributes["dra.net"].rdma'),
        ('device.attributes["x.y"]["name"].string == "a"', ': a value has no fields; write device.attributes["x.y"]["name"]'),
        ('device.capacity["x.y"].memory.value.isLessThan(quantity("1"))', ': a value has no fields; write device.capacity["x.y"].memory'),
        ('device.attributes.dra.net.ifName.startsWith("e")', ': write device.attributes["dra.net"].ifName'),
        ('device.attributes.resource.kubernetes.io.pcieRoot == "a"', ': write device.attributes["resource.kubernetes.io"].pcieRoot'),
        ('device.attributes["ifName"] == "eth0"', ': write device.attributes["dra.net"].ifName'),
    ],
)  # fmt: skip
def test_reference_that_no_attribute_can_have_is_reported(expression: str, remedy: str) -> None:
    assert wrong_reference(expression).endswith(remedy)


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["dra.net"].rdma',
        'device.attributes["dra.net"].ifName.startsWith("eth")',
        'device.attributes["x.y"].version.major() == 1',
        'device.attributes["rdma"].type == "a"',
        'device.driver == "dra.net"',
        '"rdma" in device.attributes["dra.net"]',
        'device.attributes["x.y"].name == "a/b"',
        'device.attributes["x.y"].BoolValue',
        "device.attributes.gpu.type == 'a'",
        'device.capacity["x.y"].memory.isGreaterThan(quantity("1Gi"))',
    ],
)
def test_selector_is_not_reported_as_a_filter_expression(expression: str) -> None:
    assert wrong_reference(expression) == ""


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        ('attributes["dra.net/ifname"].StringValue == "a"', ['dra.net has no attribute "ifname" (did you mean "ifName"?); correct it']),
        ('"dra.net/RDMA" in attributes && attributes["dra.net/RDMA"].BoolValue', ['dra.net has no attribute "RDMA" (did you mean "rdma"?); correct it']),
        ('attributes["ifName"].StringValue == "a"', ['"ifName" has no domain; write "dra.net/ifName"']),
        ('attributes["dra.net/rail"].IntValue == 1 && attributes["rail"].IntValue == 1', []),
        ('attributes["dra.net/ifName"].StringValue == "a"', []),
    ],
)  # fmt: skip
def test_misspelt_attribute_of_a_filter_is_reported(expression: str, lines: list[str]) -> None:
    assert list(unknown_in_filter(expression)) == lines


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("dra.net/rdma", []),
        ("resource.kubernetes.io/numaNode", []),
        ("gpu.example.com/anything", []),
        ("resource.kubernetes.io/socket", []),
        ("resource.kubernetes.io/macAddress", []),
        ("dra.net/interfaceName", ['dra.net has no attribute "interfaceName" (did you mean "ifName"?); correct it']),
        ("dra.net/RDMA", ['dra.net has no attribute "RDMA" (did you mean "rdma"?); correct it']),
        ("dra.net/pcieRoot", ['dra.net has no attribute "pcieRoot" (did you mean "resource.kubernetes.io/pcieRoot"?); correct it']),
        ("resource.kubernetes.io/pcieroot", ['resource.kubernetes.io has no attribute "pcieroot" (did you mean "pcieRoot"?); correct it']),
        ("dra.net/pciBusID", ['dra.net has no attribute "pciBusID" (did you mean "resource.kubernetes.io/pciBusID"?); correct it']),
        ("dra.net/macAddress", ['dra.net has no attribute "macAddress" (did you mean "dra.net/mac"?); correct it']),
        ("dra.net/cloudNetwork", ['dra.net has no attribute "cloudNetwork" (did you mean "gce.dra.net/networkName"?); correct it']),
        ("dra.net/rail", ["dra.net has no attribute \"rail\"; 'dranet-nri inventory --output json' shows them"]),
    ],
)  # fmt: skip
def test_unknown_attribute_of_our_devices_is_reported(name: str, lines: list[str]) -> None:
    assert list(unknown_attribute(name)) == lines


@pytest.mark.parametrize(
    ("tested", "count"),
    [
        ('has(device.attributes["dra.net"].rail)', 0),
        ('has( device.attributes["dra.net"]. rail )', 0),
        ('has(device.attributes["dra.net"].rails)', 2),
        ('has(device.attributes["dra.net"].ifName)', 1),
    ],
)
def test_tested_attribute_can_be_one_of_a_webhook(tested: str, count: int) -> None:
    expression = f'{tested} && device.attributes["dra.net"].rail == "r1"'

    assert len(list(unknown_attributes(expression))) == count


def test_unknown_attributes_and_capacities_of_an_expression_are_reported() -> None:
    expression = (
        'device.driver == "dra.net" && has(device.attributes["dra.net"].rdmaDevices)'
        ' && sign(device.capacity["dra.net"].foo) > 0'
    )

    attribute, capacity = unknown_attributes(expression)

    assert '"rdmaDevices" (did you mean "rdmaDevice"?)' in attribute
    assert capacity == 'dra.net has no capacity "foo", only "bandwidth"; correct it'


@pytest.mark.parametrize("domain", ["dra.net", "gpu.example.com"])
def test_capacities_of_ours_and_of_other_drivers_are_accepted(domain: str) -> None:
    name = "bandwidth" if domain == "dra.net" else "memory"

    assert not list(unknown_attributes(f'sign(device.capacity["{domain}"].{name}) > 0'))


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ('device.attributes["dra.net"].rdma == "true"', 'dra.net/rdma is of type bool, and "true" of type string: unlike types are never equal, and ordering them is an error; write true'),
        ('device.driver == "dra.net" && 9000 <= device.attributes["dra.net"].ifName', "dra.net/ifName is of type string, and 9000 of type int: unlike types are never equal, and ordering them is an error; write \"9000\""),
        ("('1500' == device.attributes['dra.net'].mtu)", "dra.net/mtu is of type int, and '1500' of type string: unlike types are never equal, and ordering them is an error; write 1500"),
        ('device.attributes["dra.net"].mtu in ["9000" ]', 'dra.net/mtu is of type int, and "9000" of type string: unlike types are never equal, and ordering them is an error; write 9000'),
        ("device.attributes['dra.net'].rdma != 'yes'", "and 'yes' of type string: unlike types are never equal, and ordering them is an error; correct the value"),
        ('has(device.attributes["dra.net"].mtu) && device.attributes["dra.net"].mtu == "9000"', "dra.net/mtu is of type int, and \"9000\" of type string: unlike types are never equal, and ordering them is an error; write 9000"),
        ('device.attributes["dra.net"].mtu == true', "and true of type bool: unlike types are never equal, and ordering them is an error; correct the value"),
        ('device.attributes["dra.net"]["sriovVfs"] == "-1"', "write -1"),
        ('device.attributes["resource.kubernetes.io"].?numaNode == "0"', "write 0"),
        ('device.attributes["dra.net"].ibRate == 400', 'dra.net/ibRate is of type string, and 400 of type int: unlike types are never equal, and ordering them is an error; write "400"'),
        ('device.attributes["dra.net"].ifName == false', 'write "false"'),
        ('device.attributes["dra.net"].mtu >= "9000"', "write 9000"),
        ('device.attributes["dra.net"].mtu < "9000"', "write 9000"),
        (
            "device.capacity['dra.net'].bandwidth > '10G'",
            'compare device.capacity["dra.net"].bandwidth.compareTo(quantity("10G")) with 0',
        ),
        ('5 <= device.capacity["x.y"].z', 'x.y/z is a quantity, and 5 is none; compare'),
    ],
)  # fmt: skip
def test_comparison_with_a_value_of_another_type_is_reported(expression: str, line: str) -> None:
    (found,) = wrong_types(expression)

    assert line in found


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["dra.net"].rdma == true && device.attributes["dra.net"].mtu == 9000',
        'device.attributes["dra.net"].ifName == "eth1" || device.attributes["x.y"].z == "1"',
        'device.attributes["dra.net"].mtu == device.attributes["dra.net"].linkSpeed',
        'device.attributes["dra.net"].mtu == "9000".size()',
        'device.attributes["dra.net"].mtu > 1500',
        '1 == 1 && "1".size() == device.attributes["dra.net"].mtu',
        'device.attributes["dra.net"].mtu in [1500, 9000] && 1500 < device.attributes["dra.net"].mtu',
        'device.attributes["dra.net"].new == "1"',
        'device.driver == "dra.net"',
        'device.capacity["dra.net"].bandwidth == quantity("1G")',
        '0 < device.capacity["dra.net"].bandwidth.compareTo(quantity("1G"))',
        '4 <= device.attributes["dra.net"].ifName.size()',
        '"eth10" == device.attributes["dra.net"].mtu + "0"',
    ],
)
def test_valid_comparison_is_not_reported(expression: str) -> None:
    assert list(wrong_types(expression)) == []


def test_similar_attribute_name_is_suggested() -> None:
    assert close_to("rdmaa", []) == ' (did you mean "rdma"?)'
    assert close_to("hardwareQueues", ["dra.net/hardwareQueue"]).endswith('"hardwareQueue"?)')
    assert close_to("rdma", []) == "", "a device may lack it"


def test_drivers_of_an_expression_are_those_of_device_driver_and_of_domains() -> None:
    expression = 'device.driver == "dranet" && device.attributes["dra-net"].mtu == 1500'

    assert [name for name in drivers_in(expression) if name] == ["dranet", "dra-net"]
