"""Pods on a real containerd get their NICs and give them back."""

import pytest

from tests.box.attach import (
    assert_home,
    cycle,
    test_a_container_that_lists_a_cdi_id_twice_starts,
    test_a_forged_record_for_a_held_nic_is_refused_with_the_holders_name,
    test_a_host_network_pod_with_a_claim_is_refused,
    test_a_plugin_restart_leaves_running_pods_alone,
    test_a_pod_that_lists_the_claim_only_at_pod_level_gets_its_nic_and_a_warning,
    test_a_second_pod_on_the_claim_is_refused_with_the_holders_name,
    test_nics_come_with_their_addresses_and_go_home_as_they_were,
    test_parameters_of_the_claim_are_applied,
    test_the_container_finds_its_metadata_and_environment,
    test_with_the_plugin_killed_in_the_hook_the_container_waits,
    test_with_the_plugin_slower_than_the_deadline_the_container_waits,
    test_with_the_plugin_stopped_the_container_waits_until_it_is_back,
)
from tests.box.cri import Cri
from tests.box.nics import Nic
from tests.box.plugin import Plugin
from tests.box.waiting import wait_until
from tests.prove.soak import IDLE_THREADS, Held, held, is_flat

__all__ = [
    "test_a_container_that_lists_a_cdi_id_twice_starts",
    "test_a_forged_record_for_a_held_nic_is_refused_with_the_holders_name",
    "test_a_host_network_pod_with_a_claim_is_refused",
    "test_a_plugin_restart_leaves_running_pods_alone",
    "test_a_pod_that_lists_the_claim_only_at_pod_level_gets_its_nic_and_a_warning",
    "test_a_second_pod_on_the_claim_is_refused_with_the_holders_name",
    "test_nics_come_with_their_addresses_and_go_home_as_they_were",
    "test_parameters_of_the_claim_are_applied",
    "test_the_container_finds_its_metadata_and_environment",
    "test_with_the_plugin_killed_in_the_hook_the_container_waits",
    "test_with_the_plugin_slower_than_the_deadline_the_container_waits",
    "test_with_the_plugin_stopped_the_container_waits_until_it_is_back",
]


@pytest.mark.timeout(300)
def test_fifty_cycles_leave_the_host_and_the_plugin_unchanged(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    looked: list[Held] = []
    for _ in range(5):
        cycle(cri, nics[:2], rounds=10)
        wait_until("threads to end", lambda: held(plugin.pid).threads <= IDLE_THREADS)
        looked.append(held(plugin.pid))

    assert_home(before)
    assert is_flat(looked), looked
