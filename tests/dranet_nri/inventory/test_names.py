"""Names of devices."""

from dataclasses import replace

import pytest

from dranet_nri.inventory import (
    HostFacts,
    NetDevice,
    RdmaDeviceFacts,
    RdmaPortFacts,
    inventory_from_facts,
)
from dranet_nri.inventory.names import (
    interface_device_name,
    pci_device_name,
    port_device_name,
)
from dranet_nri.model import Link
from tests.dranet_nri.inventory.parts import PF, VF, function, names, nic, virtual


def test_pci_function_is_named_after_its_address() -> None:
    assert pci_device_name("0000:8a:00.0") == "pci-0000-8a-00-0"


def test_further_port_adds_its_number() -> None:
    assert port_device_name("0000:8a:00.0", 1) == "pci-0000-8a-00-0-p1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eth0", "eth0"),
        ("a", "a"),
        ("eth:0", "net-mv2gqorq"),
        ("ETH0", "net-ivkeqma"),
        ("eth_int", "net-mv2gqx3jnz2a"),
        ("mlx5_6", "net-nvwhqnk7gy"),
        ("eth0-", "net-mv2gqmbn"),
        ("", ""),
    ],
)
def test_interface_name_is_kept_if_it_is_a_dns_label_and_encoded_otherwise(
    name: str, expected: str
) -> None:
    assert interface_device_name(name) == expected


NO_TEXT = "x\udcff"  # as netlink and sysfs tell a name that is no UTF-8


@pytest.mark.parametrize(
    "netdev",
    [
        nic("eth1", 3, tc_filters=(NO_TEXT,)),
        nic("eth1", 3, tcx_programs=(NO_TEXT,)),
        nic("eth1", 3, port_name=NO_TEXT),
        nic(NO_TEXT, 3),
        NetDevice(
            Link(3, "eth1", alias=NO_TEXT, altnames=(NO_TEXT,), bus="pci", parent=PF), pci=PF
        ),
        virtual(NO_TEXT, 3),
        virtual("dummy0", 3, kind=NO_TEXT),
    ],
    ids=["filter", "tcx", "port", "name", "alias", "virtual", "kind"],
)
@pytest.mark.parametrize("hca", ["mlx5_0", NO_TEXT])
def test_undecodable_name_does_not_prevent_publication(netdev: NetDevice, hca: str) -> None:
    rdma = RdmaDeviceFacts(hca, pci=PF, ports=(RdmaPortFacts(1),))
    facts = HostFacts((function(),), (netdev, nic("eth9", 9, VF)), (rdma,), (), 1)

    inventory = inventory_from_facts(replace(facts, functions=(function(), function(VF))))

    assert "pci-0000-8a-00-1" in names(inventory)
    for device in inventory.devices:
        assert device.name.isascii()
        for _, value in device.attributes:
            assert not isinstance(value, str) or len(value.encode()) <= 64
