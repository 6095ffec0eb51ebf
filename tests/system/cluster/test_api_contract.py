"""The contract of our API client, held against a real server."""

import pytest

from tests.dra_shim.kubeapi.client_bench import Subject
from tests.dra_shim.kubeapi.test_contract import (
    test_apply_changes_only_the_fields_of_its_field_manager,
    test_create_with_an_existing_name_is_a_conflict,
    test_created_object_can_be_read,
    test_delete_requires_the_uid_and_resource_version,
    test_dry_run_returns_the_object_and_creates_nothing,
    test_invalid_device_is_named_by_its_field_path,
    test_list_has_only_the_objects_of_its_selector,
    test_newest_common_api_version_is_used,
    test_replace_of_a_changed_object_is_a_conflict,
    test_replace_of_a_deleted_object_fails,
    test_replace_without_a_change_keeps_the_resource_version,
    test_status_is_not_applied_to_a_changed_claim,
    test_status_is_not_applied_to_an_object_with_another_uid,
    test_unknown_kind_is_reported_as_not_served,
    test_watch_continues_from_the_resource_version_of_an_event,
    test_watch_ends_after_its_timeout,
    test_watch_returns_the_changes_after_a_list,
)
from tests.dra_shim.kubeapi.test_pages import (
    test_all_pages_of_a_list_are_of_the_state_of_the_first_page,
    test_limit_applies_only_to_a_list_of_the_newest_state,
    test_unknown_continue_token_is_refused,
)
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.subject import RealSubject

__all__ = [
    "test_all_pages_of_a_list_are_of_the_state_of_the_first_page",
    "test_apply_changes_only_the_fields_of_its_field_manager",
    "test_create_with_an_existing_name_is_a_conflict",
    "test_created_object_can_be_read",
    "test_delete_requires_the_uid_and_resource_version",
    "test_dry_run_returns_the_object_and_creates_nothing",
    "test_invalid_device_is_named_by_its_field_path",
    "test_limit_applies_only_to_a_list_of_the_newest_state",
    "test_list_has_only_the_objects_of_its_selector",
    "test_newest_common_api_version_is_used",
    "test_replace_of_a_changed_object_is_a_conflict",
    "test_replace_of_a_deleted_object_fails",
    "test_replace_without_a_change_keeps_the_resource_version",
    "test_status_is_not_applied_to_a_changed_claim",
    "test_status_is_not_applied_to_an_object_with_another_uid",
    "test_unknown_continue_token_is_refused",
    "test_unknown_kind_is_reported_as_not_served",
    "test_watch_continues_from_the_resource_version_of_an_event",
    "test_watch_ends_after_its_timeout",
    "test_watch_returns_the_changes_after_a_list",
]


@pytest.fixture
def subject(cluster: ControlPlane) -> Subject:
    """Return the real server."""
    return RealSubject(cluster)
