"""The node in a box without a virtual machine, before the plugin runs in it."""

from tests.box.smoke import (
    test_cdi_device_without_a_spec_is_refused_until_one_appears,
    test_host_network_pod_has_no_namespace_of_its_own,
    test_pod_lives_and_ends_with_its_own_network,
    test_pods_survive_a_runtime_that_is_killed,
    test_runtime_listens_for_plugins,
)

__all__ = [
    "test_cdi_device_without_a_spec_is_refused_until_one_appears",
    "test_host_network_pod_has_no_namespace_of_its_own",
    "test_pod_lives_and_ends_with_its_own_network",
    "test_pods_survive_a_runtime_that_is_killed",
    "test_runtime_listens_for_plugins",
]
