"""Unhealthy devices. Only observed devices are judged."""

from dataclasses import replace

import pytest

from dra_shim.pool import NO_CARRIER, NO_INTERFACE, PORT_DOWN, VANISHED, unhealthy_reasons
from dranet_nri.inventory import HostFacts, NetDevice, RdmaDeviceFacts
from dranet_nri.model import Device, DeviceKey, Link
from tests.dra_shim.resourceslice.pools import PF, device, function, hca, nic

ETH1 = device("eth", PF, "eth1")
IB0 = Device("ib", DeviceKey("pci", PF, "ib0", PF), (), ("mlx5_0",))
RDMA_ALONE = Device("hca", DeviceKey("pci", PF, "", PF), (), ("mlx5_0",))


def unhealthy(
    one: Device, *netdevs: NetDevice, rdma: tuple[RdmaDeviceFacts, ...] = (), there: bool = True
) -> str:
    """Return what is wrong with a device, "" if nothing is."""
    functions = (function(),) if there else ()
    return judged(HostFacts(functions, netdevs, rdma), one)


def judged(facts: HostFacts, one: Device) -> str:
    return unhealthy_reasons(facts, [one]).get(one.name, "")


@pytest.mark.parametrize(
    ("netdev", "ill"),
    [
        (nic("eth1"), ""),
        (nic("eth1", carrier=False), NO_CARRIER),
        (nic("eth1", up=False, carrier=False), ""),
        (nic("eth1", carrier=False, virtual=True), ""),
        (nic("eth2", carrier=False), ""),
        (nic("eth1", "0000:8b:00.0", carrier=False), ""),
    ],
    ids=["well", "no carrier", "not set up", "virtual", "another's", "a namesake's"],
)
def test_health_of_ethernet_is_the_carrier_if_the_link_is_up(netdev: NetDevice, ill: str) -> None:
    assert unhealthy(ETH1, netdev) == ill


def test_health_of_a_nic_in_a_pod_is_not_checked() -> None:
    assert unhealthy(ETH1) == ""
    assert unhealthy(ETH1, nic("eth9", carrier=False)) == ""


def test_device_without_an_interface_is_unhealthy() -> None:
    assert unhealthy(device("eth", PF), nic("eth9")) == NO_INTERFACE


@pytest.mark.parametrize(
    ("rdma", "ill"),
    [
        (hca("mlx5_0", "ACTIVE"), ""),
        (hca("mlx5_0", "DOWN"), PORT_DOWN),
        (hca("mlx5_0", "INIT"), PORT_DOWN),
        (hca("mlx5_0", "DOWN", layer="Ethernet"), ""),
        (hca("mlx5_0", "ACTIVE", "DOWN", netdev="ib0"), PORT_DOWN),
        (hca("mlx5_0", "DOWN", "ACTIVE", netdev="ib0"), ""),
        (hca("mlx5_0", "DOWN", "ACTIVE", netdev="ib7"), ""),
        (hca("mlx5_0", "DOWN", "DOWN"), PORT_DOWN),
        (hca("mlx5_9", "DOWN"), ""),
    ],
    ids=[
        "well", "down", "no subnet manager", "Ethernet", "its port is down", "its port is well",
        "one port is well", "all ports are down", "another's",
    ],
)  # fmt: skip
def test_health_of_infiniband_is_the_port_state(rdma: RdmaDeviceFacts, ill: str) -> None:
    assert unhealthy(IB0, nic("ib0", up=False), rdma=(rdma,)) == ill


def test_port_that_is_down_is_the_reason_before_a_missing_carrier() -> None:
    assert unhealthy(IB0, nic("ib0", carrier=False), rdma=(hca("mlx5_0", "DOWN"),)) == PORT_DOWN
    assert unhealthy(RDMA_ALONE, rdma=(hca("mlx5_0", "DOWN"),)) == PORT_DOWN


def test_active_port_is_healthy_without_carrier() -> None:
    """IPoIB has none before it is in the broadcast group; RDMA does not need it."""
    link, both = nic("ib0", carrier=False), hca("mlx5_0", "ACTIVE", "ACTIVE", netdev="ib0")
    first, second = both.ports
    vpi = replace(both, ports=(first, replace(second, link_layer="Ethernet")))

    assert unhealthy(IB0, link, rdma=(hca("mlx5_0", "ACTIVE"),)) == ""
    assert unhealthy(IB0, link, rdma=(both,)) == ""
    assert unhealthy(IB0, link, rdma=(vpi,)) == NO_CARRIER, "its own port is Ethernet"
    assert unhealthy(IB0, link) == NO_CARRIER, "the RDMA device is not seen"


@pytest.mark.parametrize("gone", [ETH1, IB0, RDMA_ALONE], ids=["Ethernet", "IPoIB", "RDMA alone"])
def test_hardware_absent_from_the_bus_has_vanished(gone: Device) -> None:
    assert unhealthy(gone, there=False) == VANISHED


def test_hardware_of_another_class_with_rdma_device_in_a_pod_exists() -> None:
    assert judged(HostFacts(other_functions=frozenset({PF})), RDMA_ALONE) == ""
    assert judged(HostFacts(other_functions=frozenset({"0000:8b:00.0"})), RDMA_ALONE) == VANISHED


def test_virtual_device_does_not_vanish() -> None:
    virtual = Device("dummy0", DeviceKey("", "", "dummy0"))

    assert unhealthy(virtual, NetDevice(Link(9, "dummy0", up=True)), there=False) == NO_CARRIER
    assert (
        unhealthy(virtual, NetDevice(Link(9, "dummy0", up=True), virtual=True), there=False) == ""
    )
