"""What a virtual device is known by once it was touched."""

from dataclasses import replace

import pytest

from dranet_nri.model import AttachedDevice, Device, DeviceKey, Link, LinkState
from dranet_nri.plan.known import Known, known_as

VETH = Link(7, "nic0", kind="veth", mac="02:00:00:00:00:07")
DEVICE = AttachedDevice(
    "nic",
    Device("nic0", DeviceKey("", "", "nic0")),
    snapshot=LinkState(VETH),
    mac="02:00:00:00:77:07",
)
KNOWN = Known(7, "veth", frozenset({"02:00:00:00:00:07", "02:00:00:00:77:07"}))


def test_a_touched_virtual_device_is_known_by_its_index_kind_and_addresses() -> None:
    assert known_as(DEVICE) == KNOWN


@pytest.mark.parametrize(
    "device",
    [
        replace(DEVICE, snapshot=None),
        replace(DEVICE, home=True),
        replace(DEVICE, device=Device("pci", DeviceKey("pci", "0000:8a:00.0", "eth1"))),
    ],
    ids=["not touched", "home again", "hardware"],
)
def test_others_are_known_by_nothing_more(device: AttachedDevice) -> None:
    assert known_as(device) is None


@pytest.mark.parametrize(
    ("link", "is_it"),
    [
        (VETH, True),
        (replace(VETH, mac="02:00:00:00:00:99"), True),
        (replace(VETH, index=99), True),
        (replace(VETH, index=99, mac="02:00:00:00:00:99"), False),
        (replace(VETH, kind="bridge"), False),
    ],
    ids=["the same", "of another address", "of another index", "of neither", "of another kind"],
)
def test_a_link_of_its_name_may_be_a_namesake(link: Link, is_it: bool) -> None:  # noqa: FBT001 - the expectation
    assert KNOWN.is_it(link) is is_it


@pytest.mark.parametrize(
    ("known", "link", "alike"),
    [
        (KNOWN, replace(VETH, index=99, name="mine"), True),
        (KNOWN, replace(VETH, mac="02:00:00:00:00:99"), False),
        (KNOWN, replace(VETH, kind="bridge"), False),
        (replace(KNOWN, kind="vlan"), replace(VETH, kind="vlan"), False),
    ],
    ids=["renamed", "of another address", "of another kind", "of its parent's address"],
)
def test_a_link_of_another_name_has_to_have_an_address_of_its_own(
    known: Known,
    link: Link,
    alike: bool,  # noqa: FBT001 - the expectation
) -> None:
    assert known.looks_like(link) is alike
