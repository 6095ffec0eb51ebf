"""Drivers that are gone from under a pod: seen wherever the device is, so its claim hears of it."""

from dataclasses import replace

import pytest

from dra_shim.pool import NO_CARRIER, NO_DRIVER, NO_RDMA, PORT_DOWN, unhealthy_reasons
from dranet_nri.inventory import HostFacts, PciFunction, RdmaDeviceFacts
from dranet_nri.model import Device, DeviceKey
from tests.dra_shim.resourceslice.pools import PF, function, hca, nic

ETH1 = Device("eth", DeviceKey("pci", PF, "eth1", PF))
IB0 = Device("ib", DeviceKey("pci", PF, "ib0", PF), (), ("mlx5_0",))
SOFT = Device("dummy0", DeviceKey("", "", "dummy0"), (), ("siw0",))
THERE = HostFacts((function(),), all_rdma=True)


def ill(facts: HostFacts, one: Device) -> str:
    """Return what is wrong with a device, "" if nothing is."""
    return unhealthy_reasons(facts, [one]).get(one.name, "")


@pytest.mark.parametrize("driver", ["", "vfio-pci"])
@pytest.mark.parametrize("one", [ETH1, IB0], ids=["Ethernet", "with RDMA"])
def test_function_without_a_driver_is_unusable(one: Device, driver: str) -> None:
    unbound: tuple[PciFunction, ...] = (replace(function(), driver=driver),)

    assert ill(replace(THERE, functions=unbound), one) == NO_DRIVER
    assert ill(THERE, ETH1) == ""


@pytest.mark.parametrize("one", [IB0, SOFT], ids=["hardware", "software"])
def test_missing_rdma_device_is_unhealthy(one: Device) -> None:
    assert ill(THERE, one) == NO_RDMA
    assert ill(replace(THERE, all_rdma=False), one) == "", "it may be in a pod"


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (hca("mlx5_0", "ACTIVE"), ""),
        (hca("mlx5_0", "DOWN"), PORT_DOWN),
        (replace(hca("ibp1s0", "ACTIVE"), bus="pci", parent=PF), ""),
        (replace(hca("mlx5_1", "ACTIVE"), bus="pci", parent="0000:8b:00.0"), NO_RDMA),
    ],
    ids=["there", "down", "under another name", "another's"],
)
def test_renamed_rdma_device_is_found(there: RdmaDeviceFacts, expected: str) -> None:
    assert ill(replace(THERE, rdma=(there,)), IB0) == expected


def test_missing_rdma_device_is_the_reason_before_a_missing_carrier() -> None:
    facts = replace(THERE, netdevs=(nic("ib0", carrier=False),))

    assert ill(facts, IB0) == NO_RDMA
    assert ill(replace(facts, all_rdma=False), IB0) == NO_CARRIER


def test_renamed_software_rdma_device_counts_as_missing() -> None:
    assert ill(replace(THERE, rdma=(hca("siw1", "ACTIVE"),)), SOFT) == NO_RDMA
