"""The contract of our API client, held against a real server."""

import pytest

from tests.dra_shim.kubeapi.client_bench import Subject
from tests.dra_shim.kubeapi.test_contract import (
    test_a_device_that_the_server_does_not_take_is_named_by_its_place,
    test_a_dry_run_shows_what_would_be_and_creates_nothing,
    test_a_kind_that_the_server_does_not_have_is_said_to_be,
    test_a_list_has_the_objects_of_its_selector_and_no_others,
    test_a_name_is_given_once,
    test_a_status_is_not_applied_to_a_claim_that_has_changed,
    test_a_status_is_not_applied_to_a_namesake,
    test_a_watch_ends_when_its_time_is_over,
    test_a_watch_goes_on_from_any_event,
    test_a_watch_tells_what_happens_after_a_list,
    test_each_manager_keeps_what_it_applied_and_takes_away_what_it_leaves_out,
    test_nobody_replaces_what_somebody_else_changed,
    test_only_the_object_that_was_meant_is_deleted,
    test_replacing_with_the_same_is_no_change,
    test_the_best_version_that_both_know_is_spoken,
    test_what_is_created_can_be_read,
    test_what_is_gone_is_not_replaced,
)
from tests.dra_shim.kubeapi.test_pages import (
    test_a_limit_counts_for_the_newest_state_only,
    test_a_list_comes_in_pages_as_it_was_at_the_first,
    test_nothing_goes_on_from_a_place_that_no_page_named,
)
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.subject import RealSubject

__all__ = [
    "test_a_device_that_the_server_does_not_take_is_named_by_its_place",
    "test_a_dry_run_shows_what_would_be_and_creates_nothing",
    "test_a_kind_that_the_server_does_not_have_is_said_to_be",
    "test_a_limit_counts_for_the_newest_state_only",
    "test_a_list_comes_in_pages_as_it_was_at_the_first",
    "test_a_list_has_the_objects_of_its_selector_and_no_others",
    "test_a_name_is_given_once",
    "test_a_status_is_not_applied_to_a_claim_that_has_changed",
    "test_a_status_is_not_applied_to_a_namesake",
    "test_a_watch_ends_when_its_time_is_over",
    "test_a_watch_goes_on_from_any_event",
    "test_a_watch_tells_what_happens_after_a_list",
    "test_each_manager_keeps_what_it_applied_and_takes_away_what_it_leaves_out",
    "test_nobody_replaces_what_somebody_else_changed",
    "test_nothing_goes_on_from_a_place_that_no_page_named",
    "test_only_the_object_that_was_meant_is_deleted",
    "test_replacing_with_the_same_is_no_change",
    "test_the_best_version_that_both_know_is_spoken",
    "test_what_is_created_can_be_read",
    "test_what_is_gone_is_not_replaced",
]


@pytest.fixture
def subject(cluster: ControlPlane) -> Subject:
    """Return the real server."""
    return RealSubject(cluster)
