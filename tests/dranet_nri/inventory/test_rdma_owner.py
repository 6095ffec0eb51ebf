"""Ownership of RDMA devices by NICs."""

from collections.abc import Sequence

import pytest

from dranet_nri.inventory import (
    HostFacts,
    NetDevice,
    RdmaDeviceFacts,
    RdmaPortFacts,
    inventory_from_facts,
    own_rdma,
)
from dranet_nri.model import DeviceKey, Link
from tests.dranet_nri.inventory.parts import PF, function, nic, one

SF = "mlx5_core.sf.2"
PF_HCA = RdmaDeviceFacts("mlx5_0", "pci", PF)
SF_HCA = RdmaDeviceFacts("mlx5_2", "auxiliary", SF)
SOFT = RdmaDeviceFacts("rxe0")
PF_KEY = DeviceKey("pci", PF, "eth1", PF)
SF_KEY = DeviceKey("auxiliary", SF, "eth1s88", PF)
VIRTIO = DeviceKey("virtio", "virtio3", "eth2", "0000:8b:00.0")


@pytest.mark.parametrize(
    ("key", "names", "requested"),
    [
        pytest.param(PF_KEY, ["mlx5_0", "rxe0"], ["rxe0"], id="function"),
        pytest.param(SF_KEY, ["mlx5_2", "rxe0"], ["rxe0"], id="subfunction"),
        pytest.param(
            VIRTIO, ["mlx5_0", "mlx5_2", "rxe0"], ["mlx5_0", "mlx5_2", "rxe0"], id="apart"
        ),
        pytest.param(DeviceKey("", "", "eth1.5"), ["rxe0"], ["rxe0"], id="virtual"),
        pytest.param(DeviceKey("vmbus", "f8615163", "eth0"), ["rxe0"], ["rxe0"], id="Hyper-V"),
        pytest.param(DeviceKey("virtio", "virtio1", "", PF), ["mlx5_0"], None, id="bare"),
        pytest.param(DeviceKey("auxiliary", SF, ""), ["mlx5_2"], None, id="bare, no function"),
    ],
)
def test_rdma_device_is_found_by_its_parent_or_else_by_the_net_device_of_a_port(
    key: DeviceKey, names: list[str], requested: list[str] | None
) -> None:
    questions: list[list[str]] = []

    def naming(devices: Sequence[RdmaDeviceFacts]) -> list[str]:
        questions.append([device.name for device in devices])
        return questions[-1]

    found = own_rdma(key, (PF_HCA, SF_HCA, SOFT), naming)

    assert [rdma.name for rdma in found] == names
    assert questions == ([] if requested is None else [requested])


def test_rdma_device_with_another_net_device_is_not_owned() -> None:
    assert own_rdma(VIRTIO, (PF_HCA, SF_HCA), lambda _: {"mlx5_2"}) == (SF_HCA,)


def test_port_net_devices_are_not_read_if_the_parent_decides() -> None:
    assert own_rdma(PF_KEY, (PF_HCA, SF_HCA), lambda _: pytest.fail("asked")) == (PF_HCA,)


def test_subfunction_and_its_function_have_separate_rdma_devices() -> None:
    child = NetDevice(Link(3, "eth1s88", bus="auxiliary", parent=SF), pci=PF)
    rdma = (
        RdmaDeviceFacts("mlx5_0", "pci", PF, PF),
        RdmaDeviceFacts("mlx5_2", "auxiliary", SF, PF),
    )

    inventory = inventory_from_facts(HostFacts((function(),), (nic("eth1", 2), child), rdma))

    assert one(inventory, "eth1s88").rdma_devices == ("mlx5_2",)
    assert one(inventory, "pci-0000-8a-00-0").rdma_devices == ("mlx5_0",)


def test_rdma_device_of_another_function_is_used_only_without_an_own_one() -> None:
    ports = (RdmaPortFacts(1, netdevs=("eth1", "eth2")),)
    other = "0000:8b:00.0"
    facts = HostFacts(
        (function(), function(other)),
        (nic("eth1", 2), nic("eth2", 3, other)),
        (
            RdmaDeviceFacts("mlx5_0", "pci", PF, PF),
            RdmaDeviceFacts("mlx5_9", "pci", "0000:8c:00.0", "", ports=ports),
        ),
    )

    inventory = inventory_from_facts(facts)

    assert one(inventory, "pci-0000-8a-00-0").rdma_devices == ("mlx5_0",)
    assert one(inventory, "pci-0000-8b-00-0").rdma_devices == ("mlx5_9",)
