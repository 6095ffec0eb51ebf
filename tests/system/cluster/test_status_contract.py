"""The contract of our status reporter, held against a real server."""

import pytest

from tests.dra_shim.kubeapi.client_bench import Subject
from tests.dra_shim.status.test_contract import (
    test_attached_claim_reports_all_devices,
    test_changed_condition_has_its_transition_time,
    test_claim_that_changed_after_prepare_is_read_again,
    test_claim_with_the_same_name_is_not_changed,
    test_failure_is_in_the_device_status_and_an_event,
    test_own_status_is_withdrawn_and_others_are_kept,
    test_pod_without_a_gate_gets_one_event,
    test_repeated_event_is_counted,
    test_restart_causes_no_write,
    test_restored_device_is_not_ready,
    test_status_of_any_record_is_valid,
    test_status_of_dranet_is_replaced,
    test_unallocated_device_is_ignored,
)
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.subject import RealSubject

__all__ = [
    "test_attached_claim_reports_all_devices",
    "test_changed_condition_has_its_transition_time",
    "test_claim_that_changed_after_prepare_is_read_again",
    "test_claim_with_the_same_name_is_not_changed",
    "test_failure_is_in_the_device_status_and_an_event",
    "test_own_status_is_withdrawn_and_others_are_kept",
    "test_pod_without_a_gate_gets_one_event",
    "test_repeated_event_is_counted",
    "test_restart_causes_no_write",
    "test_restored_device_is_not_ready",
    "test_status_of_any_record_is_valid",
    "test_status_of_dranet_is_replaced",
    "test_unallocated_device_is_ignored",
]


@pytest.fixture
def subject(cluster: ControlPlane) -> Subject:
    """Return the real server."""
    return RealSubject(cluster)
