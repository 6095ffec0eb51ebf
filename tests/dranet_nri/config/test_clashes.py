"""Conflicts of names and addresses between devices of a pod."""

import pytest

from dranet_nri.config import SameConfig, clashes, parse_network_config
from dranet_nri.model import InterfaceConfig, IpoibConfig, NetworkConfig


def nic(title: str, ifname: str = "", *, several: bool = False, **interface: object) -> SameConfig:
    config = parse_network_config({"interface": interface})
    return SameConfig(title, config, ifname, several)


@pytest.mark.parametrize(
    ("devices", "lines"),
    [
        pytest.param(
            [nic("request a", name="net1", several=True)],
            ['interface.name: "net1": is for every device of request a, but one device'],
            id="a-name-for-several",
        ),
        pytest.param(
            [nic("a", name="net1"), nic("b"), nic("c", name="net1")],
            ['interface.name: "net1": is for a and c, but one device of the pod can have it; give'],
            id="a-name-twice",
        ),
        pytest.param(
            [nic("a", "eth1", name="eth2"), nic("b", "eth2")],
            ['interface.name: "eth2": is for a and b'],
            id="the-name-that-another-keeps",
        ),
        pytest.param(
            [nic("a", altnames=["rail0"], several=True)],
            ['interface.altnames: "rail0": is for every device of a, but one device'],
            id="an-altname-for-several",
        ),
        pytest.param(
            [nic("a", name="net1"), nic("b", altnames=["net1"])],
            ['interface.name: "net1": is for a and b, but one device'],
            id="the-altname-of-another",
        ),
        pytest.param(
            [
                nic("a", addresses=["10.0.0.1/24", "10.0.0.1/16"]),
                nic("b", addresses=["10.0.0.1/8"]),
            ],
            ['interface.addresses: "10.0.0.1": is for a and b, but one device of the pod can have'],
            id="an-address-of-any-length",
        ),
        pytest.param(
            [nic("a", name="blue"), nic("b", vrf={"name": "blue"})],
            ['interface.vrf.name: "blue": is the VRF of b, and a name of a; choose another name'],
            id="the-VRF-of-another",
        ),
        pytest.param(
            [
                nic("a", vrf={"name": "red", "table": 7}),
                nic("b", vrf={"name": "red", "table": 8}, several=True),
            ],
            ["interface.vrf.table: 8: VRF red of b has table 7 for a; write one table"],
            id="a-VRF-of-two-tables",
        ),
        pytest.param(
            [nic("a", addresses=["2001:db8::1/64"], several=True)],
            ["or write a range such as"],
            id="an-address-for-several",
        ),
    ],
)
def test_value_for_one_device_conflicts_on_several_devices(
    devices: list[SameConfig], lines: list[str]
) -> None:
    found = clashes(devices)

    assert len(found) == len(lines)
    assert all(line in text for line, text in zip(lines, found, strict=True))


def test_rdma_name_on_two_devices_conflicts() -> None:
    config = parse_network_config({"rdma": {"name": "hca0"}})

    (line,) = clashes([SameConfig("a", config), SameConfig("b", config)])

    assert line.startswith('rdma.name: "hca0": is for a and b')


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param([nic("a", "eth1"), nic("b", "eth2")], id="own-names"),
        pytest.param(
            [nic("a", vrf={"name": "blue"}, several=True), nic("b", vrf={"name": "blue"})],
            id="one-VRF",
        ),
        pytest.param([nic("a", "eth1", name="eth2"), nic("b", "eth2", name="eth1")], id="swapped"),
        pytest.param([nic("a", addresses=["10.0.0.1-10.0.0.9/24"], several=True)], id="a-range"),
        pytest.param([nic("a", addresses=["fe80::1/64"], several=True)], id="link-local"),
        pytest.param([nic("a", addresses=["10.0.0.1/24"], several=False)], id="one-device"),
        pytest.param([nic("a"), nic("b")], id="no-settings"),
        pytest.param(
            [SameConfig("a", NetworkConfig(InterfaceConfig(ipoib=IpoibConfig())), several=True)],
            id="children",
        ),
    ],
)
def test_values_that_several_devices_can_share_do_not_conflict(devices: list[SameConfig]) -> None:
    assert clashes(devices) == ()
