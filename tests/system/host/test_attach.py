"""Pods on a real containerd get their NICs and give them back."""

import pytest

from tests.box.attach import (
    assert_restored,
    cycle,
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
    test_second_pod_on_the_claim_is_refused_with_the_owner,
)
from tests.box.cri import Cri
from tests.box.nics import Nic
from tests.box.plugin import Plugin
from tests.box.waiting import wait_until
from tests.prove.soak import IDLE_THREADS, ProcessResources, is_flat, process_resources

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
    "test_second_pod_on_the_claim_is_refused_with_the_owner",
]


@pytest.mark.timeout(300)
def test_fifty_cycles_leave_the_host_and_the_plugin_unchanged(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    scanned: list[ProcessResources] = []
    for _ in range(5):
        cycle(cri, nics[:2], rounds=10)
        wait_until("threads to end", lambda: process_resources(plugin.pid).threads <= IDLE_THREADS)
        scanned.append(process_resources(plugin.pid))

    assert_restored(before)
    assert is_flat(scanned), scanned
