"""Configuration of a share of a device, which stays unchanged on the host for several pods."""

import pytest

from dranet_nri.config import parse_network_config, violations_for_device, violations_for_share
from dranet_nri.model import AttributeValue, Device, DeviceKey

NAMED: tuple[tuple[str, AttributeValue], ...] = (
    ("dra.net/encapsulation", "infiniband"),
    ("dra.net/ifName", "ib0"),
)
IB0 = Device("nic", DeviceKey("pci", "0", "ib0"), NAMED, ("mlx5_0",))
RDMA_ALONE = Device("hca", DeviceKey("pci", "0", ""), (), ("mlx5_0",))
WITHOUT_RDMA = Device("nic", DeviceKey("pci", "0", "eth0"), (("dra.net/ifName", "eth0"),))
RULE = (
    "not possible on a share of a device, which stays on the host as it is; remove it, or claim a"
    " device that is not shared"
)


@pytest.mark.parametrize(
    ("document", "reported"),
    [
        ({}, []),
        ({"rdma": {"charDevices": ["umad"]}, "interface": {"forwarding": False}}, []),
        ({"interface": {"mtu": 4000}}, ["interface.mtu: 4000"]),
        ({"interface": {"name": "net1"}}, ['interface.name: "net1"']),
        ({"interface": {"addresses": ["10.0.0.5/24"]}}, ["interface.addresses"]),
        ({"routes": [{"destination": "10.9.0.0/16", "scope": 253}]}, ["routes"]),
        ({"ethtool": {"features": {"tso": False}}}, ["ethtool"]),
        ({"rdma": {"name": "hca0"}}, ['rdma.name: "hca0"']),
        ({"interface": {"type": "IPoIB", "name": "net1", "mtu": 2000}}, []),
    ],
    ids=["nothing", "files", "mtu", "name", "addresses", "routes", "ethtool", "rdma", "child"],
)
def test_share_accepts_only_device_files_and_an_ipoib_child(
    document: object, reported: list[str]
) -> None:
    config = parse_network_config(document)

    assert violations_for_share(config) == tuple(f"{violation}: {RULE}" for violation in reported)
    assert violations_for_device(config, IB0, share=True) == violations_for_share(config)
    assert violations_for_device(config, IB0) == ()


def test_missing_interface_is_reported_before_the_share() -> None:
    (reported,) = violations_for_device(
        parse_network_config({"interface": {"mtu": 4000}}), RDMA_ALONE, share=True
    )

    assert reported.startswith("interface.mtu: not possible on a device with RDMA but no network")


def test_share_of_a_device_without_rdma_is_refused() -> None:
    config = parse_network_config({})

    (reported,) = violations_for_device(config, WITHOUT_RDMA, share=True)

    assert reported.startswith("a share of it gives a pod nothing: ")
    assert "--shared" in reported
    assert violations_for_device(config, WITHOUT_RDMA) == ()
    assert violations_for_device(config, RDMA_ALONE, share=True) == ()


def test_share_with_an_ipoib_child_is_accepted_without_rdma_attributes() -> None:
    parent = Device("nic", IB0.key, NAMED)
    child = parse_network_config({"interface": {"type": "IPoIB"}})

    assert violations_for_device(child, parent, share=True) == ()
