"""Reported cases: what each expects, the tests that run its input, and what they see.

`hack/prove cases` runs them on this machine and prints one table. A test of a case fails as the
report describes when the mend is taken away.
"""

from dataclasses import dataclass
from typing import Final

_KERNEL: Final = "tests/system/kernel"
_PLUGIN: Final = "tests/dranet_nri"
_SHIM: Final = "tests/dra_shim"


@dataclass(frozen=True, slots=True)
class Case:
    """One reported case.

    Attributes:
        name: its number, and what was met.
        expected: what a user expects.
        tests: pytest ids, without parameters.
    """

    name: str
    expected: str
    tests: tuple[str, ...]


CASES: Final = (
    Case(
        "01 a reboot on a kubelet that appends",
        "the containers of the pod start again",
        (
            f"{_SHIM}/prepare/test_cdi_ids.py::test_record_after_a_reboot_keeps_its_id",
            f"{_SHIM}/kubeletplugin/test_plugin.py::test_cdi_ids_after_a_reboot_are_resolvable",
        ),
    ),
    Case(
        "02 rails with routes of one destination and metric",
        "every route is back, and every NIC is free at once",
        (
            f"{_KERNEL}/test_equal_routes.py::test_routes_of_the_nics_of_one_claim_are_restored",
            f"{_KERNEL}/test_equal_routes.py::test_routes_of_the_nics_of_two_pods_are_restored",
            f"{_KERNEL}/test_equal_routes.py"
            "::test_route_equal_to_that_of_the_uplink_is_restored_behind_it",
        ),
    ),
    Case(
        "03, c01 a pod without IPv6",
        "inherited IPv6 is left out with a warning, claimed IPv6 is switched on",
        (
            f"{_KERNEL}/test_inherited.py"
            "::test_ipv6_of_the_host_is_omitted_with_a_warning_in_a_pod_without_ipv6",
            f"{_KERNEL}/test_inherited.py::test_claimed_ipv6_is_enabled_on_the_link_only",
        ),
    ),
    Case(
        "04, c36 a default route beside that of the CNI",
        "it gets the next metric, with a warning; routes[].metric is kept",
        (
            f"{_KERNEL}/test_taken_routes.py"
            "::test_claimed_default_route_has_a_higher_metric_than_that_of_the_cni",
            f"{_KERNEL}/test_taken_routes.py::test_claimed_metric_is_kept",
        ),
    ),
    Case(
        "05 a NIC of the CNI by policy routing",
        "it is withheld; --include offers it",
        (
            f"{_PLUGIN}/inventory/test_heuristics.py"
            "::test_nic_used_by_policy_routing_for_forwarding_is_excluded",
            f"{_KERNEL}/test_policy.py::test_policy_rule_is_read_with_the_links_of_its_table",
        ),
    ),
    Case(
        "06, c04 router advertisements on rails",
        "rails are offered, or the reason names --uplink-interfaces",
        (
            f"{_PLUGIN}/inventory/test_uplinks.py"
            "::test_advertised_default_route_counts_only_without_other_evidence",
            f"{_PLUGIN}/inventory/test_uplinks.py"
            "::test_advertised_default_route_is_ignored_beside_the_node_address",
            f"{_PLUGIN}/inventory/test_uplinks.py"
            "::test_reason_of_an_advertised_uplink_names_the_flag",
        ),
    ),
    Case(
        "07 one name or address for a count",
        "validate, allocate and Prepare refuse it",
        (
            f"{_PLUGIN}/config/test_clashes.py::test_value_for_one_device_conflicts_on_several_devices",
            f"{_SHIM}/commands/test_allocate.py"
            "::test_interface_name_for_several_devices_is_refused_and_explained",
            f"{_SHIM}/commands/test_allocate.py"
            "::test_interface_name_used_by_two_claims_of_a_pod_is_refused",
        ),
    ),
    Case(
        "09 a function that cannot be attached, on a server without taints",
        "it is not offered",
        (f"{_SHIM}/pool/test_build.py::test_unattachable_device_is_not_published_without_taints",),
    ),
    Case(
        "10 a PF while its VF is in a pod, on a server without counters",
        "Prepare refuses the second",
        (
            f"{_SHIM}/pool/test_build.py::test_pf_and_vfs_exclude_each_other_without_counters",
            f"{_SHIM}/prepare/test_functions.py"
            "::test_pf_and_vf_are_refused_while_the_other_is_in_a_pod",
        ),
    ),
    Case(
        "12 a DeviceClass in the language of --filter",
        "the message writes the selector",
        (
            f"{_SHIM}/cel/test_mistaken.py"
            "::test_filter_expression_is_reported_with_its_selector_form",
            f"{_SHIM}/cel/test_mistaken.py::test_similar_attribute_name_is_suggested",
        ),
    ),
    Case(
        "14 a RoCE NIC without an address in the pod",
        "a warning: it has no routable GID",
        (
            f"{_PLUGIN}/attach/test_rdma_files.py::test_roce_without_a_routable_gid_is_reported_as_a_warning",
        ),
    ),
    Case(
        "15 --move-ib-interfaces=false",
        "the daemon starts, and IPoIB interfaces stay",
        (f"{_SHIM}/settings/test_run.py::test_ipoib_interfaces_can_stay_on_the_node",),
    ),
    Case(
        "16 GPU and NIC by PCIe root with Data Direct",
        "explain says that the pair need not share a root",
        (
            f"{_SHIM}/commands/test_explain.py"
            "::test_unsatisfiable_claim_shows_the_differing_values_and_exits_with_1",
        ),
    ),
    Case(
        "18 a multipath route of claimed rails",
        "a warning in the pod; the route is whole on the host again",
        (
            f"{_KERNEL}/test_inherited.py"
            "::test_multipath_route_over_several_nics_of_a_pod_is_reported",
            f"{_KERNEL}/test_equal_routes.py"
            "::test_multipath_route_over_two_nics_of_a_claim_is_restored",
            f"{_KERNEL}/test_equal_routes.py"
            "::test_ipv6_multipath_route_gets_its_nexthop_back_while_another_is_missing",
        ),
    ),
    Case(
        "19 no PCI ID database",
        "doctor warns, and says what to install",
        (f"{_PLUGIN}/commands/test_doctor.py::test_missing_pci_id_database_is_reported",),
    ),
    Case(
        "20 interface.acceptRA",
        "0 to 2 are taken and set in the pod",
        (
            f"{_PLUGIN}/config/test_network.py",
            f"{_KERNEL}/test_inherited.py::test_accept_ra_is_set_as_claimed",
        ),
    ),
    Case(
        "21, c48 a macvlan on the NIC, here or in another pod",
        "the NIC is withheld with the reason",
        (
            f"{_PLUGIN}/inventory/test_exclusions.py"
            "::test_nic_whose_move_would_disconnect_other_links_is_excluded",
            f"{_PLUGIN}/inventory/test_exclusions.py"
            "::test_nic_below_a_link_of_another_namespace_is_excluded",
            f"{_KERNEL}/test_other_netns.py::test_upper_links_created_in_pods_are_reported",
        ),
    ),
    Case(
        "c03 addresses, routes and rules of every kind",
        "they arrive as what they are, and return whole",
        (
            f"{_KERNEL}/test_inherited.py::test_inherited_addresses_keep_their_flags_and_peers",
            f"{_KERNEL}/test_restore.py::test_routes_are_restored_with_all_attributes",
        ),
    ),
    Case(
        "c05 subnet addresses of IPv6",
        "no route is there twice; every connected route returns",
        (f"{_KERNEL}/test_restore.py::test_every_address_is_restored_with_its_connected_route",),
    ),
    Case(
        "c07 a NIC in a namespace that a process keeps",
        "the reason says how to find the namespace",
        (
            f"{_PLUGIN}/attach/execution/test_executor_detach.py"
            "::test_c07_lost_virtual_device_is_reported_with_the_command_that_finds_it",
        ),
    ),
    Case(
        "c09 dumps of a namespace that changes",
        "a dump is repeated after growing pauses, within a bound of time",
        (
            f"{_KERNEL}/test_rtnetlink.py::test_interrupted_dump_is_repeated_with_growing_delays",
            f"{_KERNEL}/test_rtnetlink.py::test_permanently_interrupted_dump_is_an_error",
        ),
    ),
    Case(
        "c12 a small MTU and IPv6",
        "inherited IPv6 is left out with a warning, claimed IPv6 is refused",
        (
            f"{_PLUGIN}/plan/test_network_mtu.py"
            "::test_inherited_ipv6_address_below_the_minimum_mtu_is_omitted_with_a_warning",
            f"{_PLUGIN}/plan/test_network_mtu.py::test_ipv6_configuration_below_the_minimum_mtu_is_refused",
        ),
    ),
    Case(
        "c13 names in the pod",
        "eth0 and a second net1 are refused with the remedy, others are given",
        (f"{_KERNEL}/test_names_in_pod.py",),
    ),
    Case(
        "c14 a link-local address where the kernel makes none",
        "it returns",
        (
            f"{_KERNEL}/test_restore.py"
            "::test_link_local_address_is_restored_if_the_kernel_generates_none",
        ),
    ),
    Case(
        "c18 496 alternative names",
        "the NIC returns, and no other link is hidden",
        (
            f"{_KERNEL}/test_large_links.py::test_device_is_restored_with_any_altnames_from_its_pod",
            f"{_KERNEL}/test_large_links.py"
            "::test_inventory_is_unchanged_by_a_link_with_many_altnames",
        ),
    ),
    Case(
        "c19 an RLIMIT_MEMLOCK of the runtime's own",
        "a warning",
        (f"{_PLUGIN}/hooks/test_conformance.py::test_low_memlock_limit_of_the_runtime_is_logged",),
    ),
    Case(
        "c20 a daemon that acts on the NIC at once",
        "the NIC is restored, whether it is renamed, addressed or enslaved",
        (f"{_KERNEL}/test_host_daemons.py",),
    ),
    Case(
        "c24 links that are no wires",
        "they go in and return as they were",
        (
            f"{_KERNEL}/test_restore.py::test_c24_link_that_is_not_ethernet_is_attached_and_restored",
        ),
    ),
    Case(
        "c26 one hardware address for two pods",
        "both have it, and return with their own",
        (
            f"{_KERNEL}/test_names_in_pod.py"
            "::test_c26_nics_with_one_claimed_address_are_restored_with_their_own",
        ),
    ),
    Case(
        "c38 a pod of a VM runtime",
        "it is refused with the remedy",
        (f"{_PLUGIN}/hooks/test_conformance.py::test_pod_with_a_vm_runtime_handler_is_refused",),
    ),
    Case(
        "c51 sysctls of the NIC",
        "all return but those that are listed",
        (
            f"{_KERNEL}/test_restore.py::test_sysctls_reset_by_a_move_are_restored",
            f"{_KERNEL}/test_restore.py::test_every_sysctl_file_of_a_link_is_restored_or_listed",
        ),
    ),
    Case(
        "h1, u1 the documented claim of dranet",
        "it attaches and is restored",
        (
            f"{_KERNEL}/test_taken_routes.py"
            "::test_documented_claim_of_dranet_is_attached_and_restored",
            f"{_KERNEL}/test_taken_routes.py::test_route_to_the_network_of_its_own_address_gets_the_next_metric",
        ),
    ),
    Case(
        "i1 representors, ports, subfunctions, VFs without a driver",
        "each is a device of its own, or is withheld with the reason",
        (
            f"{_PLUGIN}/inventory/test_build.py"
            "::test_representors_and_subfunctions_do_not_get_the_name_of_the_function",
            f"{_PLUGIN}/inventory/test_build.py"
            "::test_representors_numbered_by_an_old_kernel_are_excluded",
            f"{_PLUGIN}/inventory/test_build.py"
            "::test_two_ports_of_a_function_keep_their_names_while_one_is_in_a_pod",
            f"{_PLUGIN}/inventory/test_build.py"
            "::test_functions_for_userspace_or_without_a_driver_are_excluded",
        ),
    ),
    Case(
        "r1 RDMA without uverbs",
        "the container does not start, with the reason",
        (
            f"{_PLUGIN}/attach/test_rdma_files.py"
            "::test_rdma_device_without_a_uverbs_file_is_refused",
        ),
    ),
    Case(
        "r2 two ports of one RDMA device",
        "each claim keeps its port",
        (
            f"{_PLUGIN}/attach/execution/test_executor_ports.py::test_two_claims_of_one_pod_are_verified_by_their_own_port",
        ),
    ),
)
