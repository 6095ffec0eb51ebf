"""The contract of our publisher, held against a real server."""

import pytest

from tests.dra_shim.kubeapi.client_bench import Subject
from tests.dra_shim.resourceslice.test_contract import (
    test_change_of_a_device_is_one_write,
    test_deleted_slice_is_created_again,
    test_many_devices_are_several_slices_of_one_generation,
    test_only_the_refused_device_is_left_out,
    test_recreated_node_owns_its_slices,
    test_removed_taint_moves_no_device,
    test_restart_causes_no_write,
    test_restart_keeps_devices_in_their_slices,
    test_slice_edited_by_others_is_restored,
    test_slice_has_its_node_as_owner,
    test_slices_contain_the_devices_of_the_node,
    test_slices_deleted_by_a_starting_kubelet_are_created_again,
    test_slices_of_an_older_driver_are_replaced,
    test_taint_keeps_its_time,
)
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.subject import RealSubject

__all__ = [
    "test_change_of_a_device_is_one_write",
    "test_deleted_slice_is_created_again",
    "test_many_devices_are_several_slices_of_one_generation",
    "test_only_the_refused_device_is_left_out",
    "test_recreated_node_owns_its_slices",
    "test_removed_taint_moves_no_device",
    "test_restart_causes_no_write",
    "test_restart_keeps_devices_in_their_slices",
    "test_slice_edited_by_others_is_restored",
    "test_slice_has_its_node_as_owner",
    "test_slices_contain_the_devices_of_the_node",
    "test_slices_deleted_by_a_starting_kubelet_are_created_again",
    "test_slices_of_an_older_driver_are_replaced",
    "test_taint_keeps_its_time",
]


@pytest.fixture
def subject(cluster: ControlPlane) -> Subject:
    """Return the real server."""
    return RealSubject(cluster)
