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
from tests.box.place import Node
from tests.system.contract.fabric import NAMES, fixed, movable, shared
from tests.system.contract.test_rdma import (
    test_a_device_comes_home_as_it_was,
    test_a_device_comes_home_by_itself_when_its_namespace_dies,
    test_a_device_in_the_pod_that_nobody_remembers_is_found_by_its_claims_name,
    test_a_device_in_the_pod_that_nobody_remembers_is_found_by_its_name,
    test_a_device_is_not_renamed_from_another_namespace,
    test_a_device_moves_whatever_name_it_has,
    test_a_device_of_the_host_is_found_by_its_nic_and_tells_other_names,
    test_a_device_that_comes_back_gets_the_lowest_free_number,
    test_a_device_that_is_nowhere_has_no_files,
    test_a_device_that_its_driver_made_anew_is_another_one_on_the_host,
    test_a_device_that_nothing_is_above_is_found_by_its_name,
    test_a_device_that_nothing_is_above_is_found_by_the_net_device_of_its_port,
    test_a_driver_that_cannot_move_its_device_refuses_and_keeps_it,
    test_a_move_keeps_index_name_and_guid,
    test_a_name_is_given_in_the_pod_and_taken_off_there,
    test_a_name_that_a_device_of_any_namespace_has_is_refused,
    test_a_nic_without_rdma_has_none,
    test_a_shared_device_does_not_move,
    test_a_shared_device_has_the_same_files_in_every_namespace,
    test_files_are_resolved_where_the_device_is_and_nowhere_else,
    test_files_are_those_of_the_kinds_that_are_asked_for_and_exist,
    test_moving_twice_is_moving_once,
    test_moving_what_no_namespace_of_the_session_has_is_an_error,
    test_shared_devices_count_as_being_on_the_host,
    test_two_devices_have_files_of_their_own,
    test_what_is_on_the_host_is_not_looked_for_in_the_pod,
    test_what_is_remembered_is_looked_for_by_nothing_else,
    test_without_a_pod_only_the_host_is_looked_at,
)

pytestmark = pytest.mark.timeout(600)

__all__ = [
    "fixed",
    "movable",
    "shared",
    "test_a_device_comes_home_as_it_was",
    "test_a_device_comes_home_by_itself_when_its_namespace_dies",
    "test_a_device_in_the_pod_that_nobody_remembers_is_found_by_its_claims_name",
    "test_a_device_in_the_pod_that_nobody_remembers_is_found_by_its_name",
    "test_a_device_is_not_renamed_from_another_namespace",
    "test_a_device_moves_whatever_name_it_has",
    "test_a_device_of_the_host_is_found_by_its_nic_and_tells_other_names",
    "test_a_device_that_comes_back_gets_the_lowest_free_number",
    "test_a_device_that_is_nowhere_has_no_files",
    "test_a_device_that_its_driver_made_anew_is_another_one_on_the_host",
    "test_a_device_that_nothing_is_above_is_found_by_its_name",
    "test_a_device_that_nothing_is_above_is_found_by_the_net_device_of_its_port",
    "test_a_driver_that_cannot_move_its_device_refuses_and_keeps_it",
    "test_a_move_keeps_index_name_and_guid",
    "test_a_name_is_given_in_the_pod_and_taken_off_there",
    "test_a_name_that_a_device_of_any_namespace_has_is_refused",
    "test_a_nic_without_rdma_has_none",
    "test_a_shared_device_does_not_move",
    "test_a_shared_device_has_the_same_files_in_every_namespace",
    "test_files_are_resolved_where_the_device_is_and_nowhere_else",
    "test_files_are_those_of_the_kinds_that_are_asked_for_and_exist",
    "test_moving_twice_is_moving_once",
    "test_moving_what_no_namespace_of_the_session_has_is_an_error",
    "test_shared_devices_count_as_being_on_the_host",
    "test_two_devices_have_files_of_their_own",
    "test_what_is_on_the_host_is_not_looked_for_in_the_pod",
    "test_what_is_remembered_is_looked_for_by_nothing_else",
    "test_without_a_pod_only_the_host_is_looked_at",
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
