"""The contract of RDMA devices, held against the kernel: soft-RoCE on two NICs of the node."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.model import DeviceKey, NetnsId, RdmaMode
from dranet_nri.plan.kernel import Kernel
from tests.box import rdma
from tests.box.nics import IGB, ip
from tests.box.target import Node
from tests.system.contract.fabric import NAMES, fixed, movable, shared
from tests.system.contract.test_rdma import (
    test_driver_without_move_support_refuses,
    test_files_are_resolved_in_the_namespace_of_the_device,
    test_files_are_the_existing_ones_of_the_requested_kinds,
    test_host_rdma_device_is_found_by_its_nic,
    test_missing_rdma_device_has_no_files,
    test_move_is_idempotent,
    test_move_of_a_missing_rdma_device_is_an_error,
    test_nic_without_rdma_has_no_rdma_device,
    test_rdma_device_is_not_renamed_from_another_namespace,
    test_rdma_device_is_renamed_and_named_back_in_the_pod,
    test_rdma_device_on_the_host_is_not_searched_in_the_pod,
    test_rdma_device_returns_unchanged,
    test_rdma_device_returns_when_its_namespace_is_deleted,
    test_rdma_device_with_any_name_is_moved,
    test_rdma_device_without_a_parent_is_found_by_its_port,
    test_rdma_device_without_a_parent_is_found_by_name,
    test_rdma_devices_have_own_files,
    test_rdma_move_keeps_index_name_and_guid,
    test_rdma_name_of_any_namespace_is_refused,
    test_recorded_rdma_device_is_found_only_by_its_identity,
    test_recreated_rdma_device_is_another_device,
    test_returned_rdma_device_gets_the_lowest_free_number,
    test_session_without_a_pod_searches_only_the_host,
    test_shared_rdma_device_does_not_move,
    test_shared_rdma_device_has_the_same_files_everywhere,
    test_shared_rdma_devices_are_on_the_host,
    test_unrecorded_rdma_device_in_the_pod_is_found_by_name,
    test_unrecorded_rdma_device_is_found_by_the_claimed_name,
)

pytestmark = pytest.mark.timeout(600)

__all__ = [
    "fixed",
    "movable",
    "shared",
    "test_driver_without_move_support_refuses",
    "test_files_are_resolved_in_the_namespace_of_the_device",
    "test_files_are_the_existing_ones_of_the_requested_kinds",
    "test_host_rdma_device_is_found_by_its_nic",
    "test_missing_rdma_device_has_no_files",
    "test_move_is_idempotent",
    "test_move_of_a_missing_rdma_device_is_an_error",
    "test_nic_without_rdma_has_no_rdma_device",
    "test_rdma_device_is_not_renamed_from_another_namespace",
    "test_rdma_device_is_renamed_and_named_back_in_the_pod",
    "test_rdma_device_on_the_host_is_not_searched_in_the_pod",
    "test_rdma_device_returns_unchanged",
    "test_rdma_device_returns_when_its_namespace_is_deleted",
    "test_rdma_device_with_any_name_is_moved",
    "test_rdma_device_without_a_parent_is_found_by_its_port",
    "test_rdma_device_without_a_parent_is_found_by_name",
    "test_rdma_devices_have_own_files",
    "test_rdma_move_keeps_index_name_and_guid",
    "test_rdma_name_of_any_namespace_is_refused",
    "test_recorded_rdma_device_is_found_only_by_its_identity",
    "test_recreated_rdma_device_is_another_device",
    "test_returned_rdma_device_gets_the_lowest_free_number",
    "test_session_without_a_pod_searches_only_the_host",
    "test_shared_rdma_device_does_not_move",
    "test_shared_rdma_device_has_the_same_files_everywhere",
    "test_shared_rdma_devices_are_on_the_host",
    "test_unrecorded_rdma_device_in_the_pod_is_found_by_name",
    "test_unrecorded_rdma_device_is_found_by_the_claimed_name",
]


class SoftFabric:
    """The kernel we run on, with a soft-RoCE device over each of two NICs."""

    def __init__(self) -> None:
        """Make the devices; the driver is loaded and the mode is set."""
        self.kernel: Kernel = NetlinkKernel(host_path="/proc/self/ns/net")
        self._functions = sorted(IGB.glob("0000:*"))[: len(NAMES)]
        self._spaces: list[str] = []
        for name in NAMES:
            self.plug(name)

    def key(self, name: str) -> DeviceKey:
        """Return the key of the NIC below the device."""
        address = self._functions[NAMES.index(name)].name
        return DeviceKey("pci", address, self._netdev(name), address)

    def _netdev(self, name: str) -> str:
        return next((self._functions[NAMES.index(name)] / "net").iterdir()).name

    def add_netns(self) -> NetnsId:
        """Add a named namespace."""
        name = f"contract{len(self._spaces)}"
        ip("netns", "add", name)
        self._spaces.append(name)
        netns = self.kernel.identify(f"/run/netns/{name}")
        assert netns is not None
        return netns

    def unlink(self, netns: NetnsId) -> None:
        """Remove the name."""
        ip("netns", "del", Path(netns.path).name)

    def plug(self, name: str) -> None:
        """Add a device over the NIC."""
        rdma.add_link(name, self._netdev(name))

    def unplug(self, name: str, netns: NetnsId | None = None) -> None:
        """Remove it where it is."""
        rdma.delete_link(name, Node(Path(netns.path).name if netns else ""))

    def close(self) -> None:
        """Remove the namespaces; what is in them comes back."""
        for name in self._spaces:
            if Path("/run/netns", name).exists():
                ip("netns", "del", name)


@pytest.fixture
def movable_fabric(movable_rdma: None) -> Iterator[SoftFabric]:
    """Return the node in exclusive mode, with the driver whose devices move."""
    with closing(SoftFabric()) as made:
        yield made


@pytest.fixture
def shared_fabric(stock_rdma: None) -> Iterator[SoftFabric]:
    """Return the node in shared mode."""
    with closing(SoftFabric()) as made:
        yield made


@pytest.fixture
def fixed_fabric(stock_rdma: None) -> Iterator[SoftFabric]:
    """Return the node in exclusive mode, with the driver that can't move its devices."""
    rdma.set_netns_mode(RdmaMode.EXCLUSIVE.value)
    with closing(SoftFabric()) as made:
        yield made
