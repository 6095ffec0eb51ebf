# ruff: noqa: E501  cases and messages in one line read as a table
"""Reasons for an unsatisfiable claim, for each request and each device."""

import pytest

from dra_shim.cel import SelectorError
from dra_shim.pool import NodeInventory
from dra_shim.resourceapi import (
    Cel,
    ClaimRequest,
    ClaimSpec,
    Constraint,
    DeviceClass,
    DeviceRequest,
)
from dra_shim.scheduling.allocator import NamedClaim
from dra_shim.scheduling.allocator.search import MAX_TRIES
from dranet_nri.model import Version
from tests.dra_shim.scheduling.inventory_shorthand import (
    CLASSES,
    NUMA,
    ROOT,
    allocate,
    names,
    nic,
    refused,
    request,
    wanted,
)


def test_every_device_has_a_reason() -> None:
    missing = 'device.attributes["dra.net"].missing'
    classes = {
        "c": DeviceClass("c", (Cel('device.attributes["dra.net"].ifName != "b"'),)),
    }
    claim = wanted(
        request("nic", 2, f'device.attributes["dra.net"].ifName != "c" && (device.attributes["dra.net"].ifName != "d" || {missing})', cls="c"),
        constraints=[Constraint(ROOT)],
    )  # fmt: skip
    node_devices = NodeInventory(
        (nic("a"), nic("b"), nic("c"), nic("e", {ROOT: "r0"}), nic("f", {ROOT: "r1"}),
         nic("v", {ROOT: Version("1.0.0")})),
        {"a": "claim default/other of pod default/p"},
        (("eth0", "carries the default route"),),
    )  # fmt: skip

    lines = refused([claim], node_devices, classes)

    title = "claim default/nics: request nic: "
    assert [line.removeprefix(title) for line in lines] == [
        "needs 2 devices, 1 of 6 can be allocated together; free a device, or relax the selectors or constraints",
        "device a: in use by claim default/other of pod default/p",
        'device b: selector of class c is false: device.attributes["dra.net"].ifName != "b"',
        f"device c: selector of the request is false: {claim.spec.requests[0].alternatives[0].selectors[0].expression}",
        f'device e: fits; matchAttribute: {ROOT} is "r0"',
        f'device f: fits; matchAttribute: {ROOT} is "r1"',
        f"device v: fits; matchAttribute: {ROOT} is 1.0.0",
        "device eth0: not published: carries the default route",
    ]  # fmt: skip


def test_device_without_the_constraint_attribute_is_reported() -> None:
    lines = refused([wanted(request(), constraints=[Constraint(ROOT)])], NodeInventory((nic("a"),)))

    assert lines[0].startswith(
        "claim default/nics: request nic: needs 1 device, 0 of 1 can be allocated together"
    )
    assert lines[1].endswith(f"device a: matchAttribute {ROOT}: the device has no such attribute")


def test_only_the_infeasible_request_is_explained() -> None:
    claims = [wanted(request("x")), wanted(request("y", 3), label="default/more")]

    lines = refused(claims, NodeInventory((nic("a"), nic("b"))))

    assert all(line.startswith("claim default/more: request y: ") for line in lines)
    assert lines[1].endswith("device a: fits")


def test_jointly_infeasible_requests_are_all_explained() -> None:
    lines = refused([wanted(request("x"), request("y"))], NodeInventory((nic("a"),)))

    assert [line for line in lines if "not together with the other requests" in line] == [
        "claim default/nics: request x: needs 1 device and can be allocated alone, but not together "
        "with the other requests; free a device, or relax the selectors or constraints",
        "claim default/nics: request y: needs 1 device and can be allocated alone, but not together "
        "with the other requests; free a device, or relax the selectors or constraints",
    ]


def test_failing_selector_stops_the_search_if_evaluated() -> None:
    claim = wanted(request("nic", 1, 'device.attributes["dra.net"].numaNode == 1'))

    with pytest.raises(SelectorError) as caught:
        allocate([claim], CLASSES, NodeInventory((nic("a"), nic("b", {NUMA: 1}))), "n")

    assert 'on device a: the device has no "numaNode"' in str(caught.value)


def test_failing_selector_is_ignored_if_not_evaluated() -> None:
    claim = wanted(request("nic", 1, 'device.attributes["dra.net"].numaNode == 1'))
    node_devices = NodeInventory((nic("b", {NUMA: 1}), nic("z")))

    assert names(allocate([claim], CLASSES, node_devices, "n")) == [[("nic", "b")]]


def test_failing_selector_is_a_reason_of_an_infeasible_request() -> None:
    numa_1 = request("nic", 3, 'device.attributes["dra.net"].numaNode == 1')

    lines = refused([wanted(request("x"), numa_1)], NodeInventory((nic("b", {NUMA: 1}), nic("z"))))

    assert lines[2].endswith('device z: on device z: the device has no "numaNode"; guard it: '
                             '"numaNode" in device.attributes["..."] && ...')  # fmt: skip


def test_too_long_search_is_aborted_with_a_remedy() -> None:
    node_devices = NodeInventory(tuple(nic(f"n{i:02}") for i in range(40)))
    claim = wanted(request("x", 16), request("y", 16))
    other = wanted(request("z", 16), label="default/more")

    (line,) = refused([claim, other], node_devices)

    assert line.startswith(f"gave up after {MAX_TRIES} tries on: default/nics request x, ")
    assert "ask for fewer devices" in line


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (ClaimSpec(), "requests no device; add a request"),
        (ClaimSpec((request(cls="x"),)), "request nic: no class 'x' (found: dranet)"),
        (ClaimSpec(violations=("ResourceClaim nics: spec",)), "ResourceClaim nics: spec"),
        (ClaimSpec((request(count=20), request("b", 20))), "requests 40 devices; a claim holds at most 32"),
        (ClaimSpec((ClaimRequest("nic", (DeviceRequest("nic/a", "dranet"), DeviceRequest("nic/b", "y"))),)), "request nic/b: no class 'y' (found: dranet)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_spec_that_no_search_can_satisfy_is_refused_by_name(spec: ClaimSpec, reason: str) -> None:
    (line,) = refused([NamedClaim("default/nics", spec)], NodeInventory((nic("a"),)))

    assert line.startswith(f"claim default/nics: {reason}")


def test_class_that_cannot_be_read_is_an_error_of_a_claim_with_a_request_of_it() -> None:
    classes = {name: DeviceClass(name, violations=(f"{name}: typo",)) for name in ("dranet", "x")}

    lines = refused([wanted(request())], NodeInventory((nic("a"),)), classes)

    assert lines == ("claim default/nics: dranet: typo",)


def test_missing_class_is_reported_without_known_classes() -> None:
    (line,) = refused([wanted(request())], NodeInventory(()), {})

    assert "(found: none)" in line
