"""The contract of our status reporter, held against a real server."""

import pytest

from tests.dra_shim.kubeapi.client_bench import Subject
from tests.dra_shim.status.test_contract import (
    test_a_claim_that_changed_after_prepare_read_it_is_read_again,
    test_a_device_that_is_home_is_not_ready,
    test_a_device_that_is_not_allocated_spoils_nothing,
    test_a_failure_is_said_of_the_device_and_to_the_pod,
    test_a_namesake_is_left_alone,
    test_a_pod_without_a_gate_is_told_once,
    test_a_restart_writes_nothing,
    test_a_status_that_changes_has_the_time_of_its_change,
    test_an_attached_claim_tells_of_all_its_devices,
    test_the_same_event_again_is_counted,
    test_what_dranet_wrote_is_replaced,
    test_what_ends_is_withdrawn_and_what_others_say_stays,
    test_whatever_a_record_says_the_server_takes_it,
)
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.subject import RealSubject

__all__ = [
    "test_a_claim_that_changed_after_prepare_read_it_is_read_again",
    "test_a_device_that_is_home_is_not_ready",
    "test_a_device_that_is_not_allocated_spoils_nothing",
    "test_a_failure_is_said_of_the_device_and_to_the_pod",
    "test_a_namesake_is_left_alone",
    "test_a_pod_without_a_gate_is_told_once",
    "test_a_restart_writes_nothing",
    "test_a_status_that_changes_has_the_time_of_its_change",
    "test_an_attached_claim_tells_of_all_its_devices",
    "test_the_same_event_again_is_counted",
    "test_what_dranet_wrote_is_replaced",
    "test_what_ends_is_withdrawn_and_what_others_say_stays",
    "test_whatever_a_record_says_the_server_takes_it",
]


@pytest.fixture
def subject(cluster: ControlPlane) -> Subject:
    """Return the real server."""
    return RealSubject(cluster)
