"""Devices published on Hyper-V and Azure."""

from dataclasses import replace

import pytest

from dranet_nri.inventory import (
    AzureHost,
    HostFacts,
    NetDevice,
    RdmaDeviceFacts,
    RdmaPortFacts,
    inventory_from_facts,
)
from dranet_nri.model import Link
from tests.dranet_nri.inventory.parts import PF, function, names, nic, one

IB = "0101:00:00.0"
ACCELERATED = "8a1b:00:02.0"
HYPER_V = NetDevice(Link(2, "eth0", mac="02:00:00:00:00:01", bus="vmbus", parent="f8615163"))


def test_vf_on_hyper_v_is_excluded_before_it_is_enslaved() -> None:
    early = nic("eth1", 3, ACCELERATED)
    early = replace(early, link=replace(early.link, mac=HYPER_V.link.mac))
    facts = HostFacts((function(ACCELERATED, "mlx5_core"),), (HYPER_V, early))

    inventory = inventory_from_facts(facts)

    assert names(inventory) == ["eth0"]
    assert inventory.excluded == (
        ("pci-8a1b-00-02-0", "eth1: the VF behind eth0: Hyper-V shows one NIC as two"),
    )


def test_hyper_v_publishes_only_infiniband_without_a_net_device() -> None:
    rdma = (
        RdmaDeviceFacts(
            "mlx5_0", "pci", IB, IB, ports=(RdmaPortFacts(1, link_layer="InfiniBand"),)
        ),
        RdmaDeviceFacts(
            "mlx5_8",
            "pci",
            ACCELERATED,
            ACCELERATED,
            ports=(RdmaPortFacts(1, link_layer="Ethernet", netdevs=("eth0",)),),
        ),
    )
    functions = (function(IB, "mlx5_core"), function(ACCELERATED, "mlx5_core"))

    azure = inventory_from_facts(HostFacts(functions, (HYPER_V,), rdma))
    elsewhere = inventory_from_facts(HostFacts(functions, (), rdma))

    assert names(azure) == ["eth0", "pci-0101-00-00-0"]
    assert one(azure, "eth0").rdma_devices == ()
    assert azure.excluded == (
        (
            "pci-8a1b-00-02-0",
            "Ethernet RDMA without its net device on Hyper-V: accelerated networking",
        ),
    )
    assert names(elsewhere) == ["pci-0101-00-00-0", "pci-8a1b-00-02-0"]


def test_function_without_a_driver_on_hyper_v_keeps_its_own_reason() -> None:
    rdma = RdmaDeviceFacts("m", "pci", PF, PF, ports=(RdmaPortFacts(1, link_layer="Ethernet"),))
    facts = HostFacts((function(driver="vfio-pci"),), (HYPER_V,), (rdma,))

    assert inventory_from_facts(facts).excluded == (
        ("pci-0000-8a-00-0", "bound to vfio-pci for userspace"),
    )


V4 = AzureHost(vm_size="Standard_ND96asr_v4")


@pytest.mark.parametrize(
    ("reported", "nodes", "published"),
    [
        pytest.param(-1, 4, 3, id="filled-in"),
        pytest.param(1, 4, 1, id="known-to-the-kernel"),
        pytest.param(-1, 2, None, id="no-such-node"),
    ],
)
def test_azure_table_supplies_facts_missing_in_the_kernel(
    reported: int, nodes: int, published: int | None
) -> None:
    nic_of_8 = function("0105:00:00.0", "mlx5_core", numa_node=reported)

    (device,) = inventory_from_facts(HostFacts((nic_of_8,), numa_nodes=nodes, azure=V4)).devices

    assert device.attribute("resource.kubernetes.io/numaNode") == published
    assert device.attribute("azure.dra.net/gpuDomains") == "000b,000c"


def test_function_missing_in_the_azure_table_is_unchanged() -> None:
    (device,) = inventory_from_facts(HostFacts((function(),), azure=V4)).devices

    assert device.attribute("azure.dra.net/gpuDomains") is None
    assert device.attribute("resource.kubernetes.io/numaNode") is None
