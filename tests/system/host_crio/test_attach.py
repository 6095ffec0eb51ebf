"""Pods on a real CRI-O get their NICs and give them back, as on containerd."""

from tests.box.attach import (
    test_container_has_its_metadata_and_environment,
    test_container_that_lists_a_cdi_id_twice_starts,
    test_container_waits_after_the_plugin_was_killed_in_the_hook,
    test_container_waits_if_the_plugin_exceeds_the_deadline,
    test_container_waits_until_the_stopped_plugin_is_back,
    test_forged_record_for_an_owned_nic_is_refused_with_the_owner,
    test_host_network_pod_with_a_claim_is_refused,
    test_nics_are_attached_with_their_addresses_and_restored,
    test_parameters_of_the_claim_are_applied,
    test_plugin_restart_does_not_affect_running_pods,
    test_pod_that_lists_the_claim_only_at_pod_level_gets_its_nic_and_a_warning,
    test_runtime_restart_keeps_the_nics_of_running_pods,
    test_second_pod_on_the_claim_is_refused_with_the_owner,
)

__all__ = [
    "test_container_has_its_metadata_and_environment",
    "test_container_that_lists_a_cdi_id_twice_starts",
    "test_container_waits_after_the_plugin_was_killed_in_the_hook",
    "test_container_waits_if_the_plugin_exceeds_the_deadline",
    "test_container_waits_until_the_stopped_plugin_is_back",
    "test_forged_record_for_an_owned_nic_is_refused_with_the_owner",
    "test_host_network_pod_with_a_claim_is_refused",
    "test_nics_are_attached_with_their_addresses_and_restored",
    "test_parameters_of_the_claim_are_applied",
    "test_plugin_restart_does_not_affect_running_pods",
    "test_pod_that_lists_the_claim_only_at_pod_level_gets_its_nic_and_a_warning",
    "test_runtime_restart_keeps_the_nics_of_running_pods",
    "test_second_pod_on_the_claim_is_refused_with_the_owner",
]
