"""The contract of our publisher, held against a real server."""

import pytest

from tests.dra_shim.kubeapi.client_bench import Subject
from tests.dra_shim.resourceslice.test_contract import (
    test_a_change_of_one_device_is_one_write,
    test_a_device_that_the_server_does_not_take_is_left_out_alone,
    test_a_kubelet_that_starts_takes_all_slices_and_they_come_back,
    test_a_node_that_comes_back_as_another_owns_its_slices,
    test_a_restart_leaves_devices_where_they_are,
    test_a_restart_writes_nothing,
    test_a_slice_belongs_to_its_node,
    test_a_slice_that_somebody_deletes_comes_back,
    test_a_slice_that_somebody_edits_is_put_right,
    test_a_taint_keeps_the_time_since_when_it_is_there,
    test_many_devices_are_several_slices_of_one_generation,
    test_slices_of_an_older_driver_are_replaced,
    test_taints_make_slices_smaller_and_their_end_moves_nothing,
    test_what_a_node_offers_is_what_the_scheduler_sees,
)
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.subject import RealSubject

__all__ = [
    "test_a_change_of_one_device_is_one_write",
    "test_a_device_that_the_server_does_not_take_is_left_out_alone",
    "test_a_kubelet_that_starts_takes_all_slices_and_they_come_back",
    "test_a_node_that_comes_back_as_another_owns_its_slices",
    "test_a_restart_leaves_devices_where_they_are",
    "test_a_restart_writes_nothing",
    "test_a_slice_belongs_to_its_node",
    "test_a_slice_that_somebody_deletes_comes_back",
    "test_a_slice_that_somebody_edits_is_put_right",
    "test_a_taint_keeps_the_time_since_when_it_is_there",
    "test_many_devices_are_several_slices_of_one_generation",
    "test_slices_of_an_older_driver_are_replaced",
    "test_taints_make_slices_smaller_and_their_end_moves_nothing",
    "test_what_a_node_offers_is_what_the_scheduler_sees",
]


@pytest.fixture
def subject(cluster: ControlPlane) -> Subject:
    """Return the real server."""
    return RealSubject(cluster)
