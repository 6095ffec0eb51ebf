"""Promises about reported faults: how each is broken on purpose, and the test that must fail."""

from typing import Final

from tests.prove.promise import Break
from tests.prove.reported import REPORTED

_GUARD: Final = "dranet_nri/attach/checks/guard.py"
_HAZARDS: Final = "dranet_nri/inventory/hazards.py"
_HOST: Final = "dranet_nri/kernel/host.py"
_PRIVILEGED: Final = "dranet_nri/facts/privileged.py"

_POOL: Final = "dra_shim/pool/build.py"

_TEST_POOL: Final = "tests/dra_shim/pool/test_build.py"
_TEST_GUESSES: Final = "tests/dranet_nri/inventory/test_heuristics.py"
_TEST_HOST: Final = "tests/dranet_nri/kernel/test_host_facts.py"
_TEST_PRIVILEGED: Final = "tests/dranet_nri/facts/test_privileged.py"
_TEST_BESIDE: Final = "tests/dranet_nri/plan/routes/test_conflicts.py"

FIELD: Final = (
    Break(
        "the youngest connection is closed for a new one, not the longest idle one",
        "dra_shim/web/server.py",
        "return not self._served, self._since",
        "return not self._served, -self._since",
        "tests/dra_shim/web/test_server.py"
        "::test_new_client_above_the_limit_replaces_the_longest_idle_one",
    ),
    Break(
        "a host route is lost whose gateway the host no longer reaches",
        "dranet_nri/kernel/ip/routes.py",
        "partial(_put_with_gateways if append else _put, netlink, what)",
        "partial(_put, netlink, what)",
        "tests/system/kernel/test_far_gateways.py"
        "::test_route_with_an_unreachable_gateway_is_restored",
    ),
    Break(
        "the NIC of a split default route is published",
        "dranet_nri/model/network.py",
        "        if route.partial or route.metric == best[route.family]\n",
        "        if not route.partial and route.metric == best[route.family]\n",
        "tests/dranet_nri/inventory/test_uplinks.py::test_partial_default_routes_add_uplinks",
    ),
    Break(
        "hardware is identified by its settable address before its permanent one",
        "dranet_nri/kernel/find_link.py",
        "        lambda _, link: identity.has_perm_mac(link),\n"
        "        lambda _, link: identity.has_mac(link),\n",
        "        lambda _, link: identity.has_mac(link),\n"
        "        lambda _, link: identity.has_perm_mac(link),\n",
        "tests/system/kernel/test_find_link.py::test_recorded_port_is_found_among_several",
    ),
    Break(
        "an IPv6 route of a claim keeps its host bits",
        "dranet_nri/config/scalars.py",
        "    return ip_network((address, length), strict=False)",
        "    network = ip_network((address, length), strict=False)\n"
        "    if address.version == 6:\n"
        "        network.network_address = address\n"
        "    return network",
        "tests/dranet_nri/config/test_network.py::test_every_supported_field_is_parsed_into_its_canonical_form",
    ),
    Break(
        "the deadline of a hook counts from its submission, not its arrival",
        "dranet_nri/nri/stub/dispatcher.py",
        "deadline_of(event.call, arrival)",
        "deadline_of(event.call, self._clock())",
        "tests/dranet_nri/nri/stub/test_connection_link.py::test_hook_deadline_counts_from_arrival",
    ),
    Break(
        "a device without a net device is not checked at attach",
        _GUARD,
        "        if reason:",
        "        if reason and index is not None:",
        "tests/dranet_nri/attach/checks/test_guard.py::test_compromised_shim_cannot_attach_an_unpublished_device",
    ),
    Break(
        "a NIC below a tunnel of the node is published",
        _HAZARDS,
        "            or self._carried.get(index)\n",
        "",
        "tests/dranet_nri/inventory/test_build.py::test_nic_below_a_tunnel_of_the_node_is_excluded",
    ),
    Break(
        "a NIC with representors is published",
        _HAZARDS,
        "            or self._switched.get(index)\n",
        "",
        "tests/dranet_nri/inventory/test_build.py"
        "::test_representors_and_subfunctions_do_not_get_the_name_of_the_function",
    ),
    Break(
        "a wireless interface is published by kernels that do not report it",
        "dranet_nri/facts/scan.py",
        "pinned=host_link.pinned or place.wireless,",
        "pinned=host_link.pinned,",
        "tests/dranet_nri/facts/test_scan.py"
        "::test_wireless_interface_is_excluded_by_kernels_that_do_not_report_it",
    ),
    Break(
        "the shim does not trust the new CA after a rotation",
        "dra_shim/kubeapi/ca_file.py",
        "if identity != self._identity:",
        "if False:",
        "tests/dra_shim/kubeapi/test_access.py"
        "::test_ca_of_a_rotation_is_trusted_by_the_next_connection",
    ),
    Break(
        "a NIC through which a tunnel reaches its remote end is published",
        "dranet_nri/inventory/exclusions.py",
        "if source in own or over == device.link.index:",
        "if source in own:",
        f"{_TEST_GUESSES}::test_nic_through_which_a_tunnel_sends_is_excluded",
    ),
    Break(
        "an InfiniBand interface below an IPoIB child in use is published",
        "dranet_nri/model/network.py",
        '{"bareudp", "geneve", "gtp", ',
        '{"bareudp", "geneve", "gtp", "ipoib", ',
        "tests/dranet_nri/inventory/test_exclusions.py::test_nic_below_an_ipoib_child_with_host_addresses_is_excluded",
    ),
    Break(
        "--include does not match the PCI function of a NIC",
        _HAZARDS,
        "device.link.name, device.pci, device.link.parent",
        "device.link.name, device.link.parent",
        f"{_TEST_GUESSES}::test_include_matches_a_nic_by_its_function_or_its_parent",
    ),
    Break(
        "a link that cannot leave its namespace is attached",
        _HOST,
        "pinned=u8(dumped.attrs.get(IFLA_NETNS_IMMUTABLE)) == 1",
        "pinned=False",
        f"{_TEST_HOST}::test_link_with_an_immutable_namespace_is_pinned",
    ),
    Break(
        "a port of an embedded switch is attached",
        _HOST,
        "port_name=text(dumped.attrs.get(IFLA_PHYS_PORT_NAME))",
        'port_name=""',
        f"{_TEST_HOST}::test_port_name_of_a_switch_port_is_read",
    ),
    Break(
        "a kernel that reports no parents makes every device unknown at attach",
        _HOST,
        "parents = sysfs_parents(parents_root, links) if parents_root else {}",
        "parents: Parents = {}",
        f"{_TEST_HOST}::test_parent_is_read_from_sysfs_if_the_kernel_does_not_report_it",
    ),
    Break(
        "a failure to list TCX programs is taken for none",
        _PRIVILEGED,
        "if error.code != EPERM:",
        "if False:",
        f"{_TEST_PRIVILEGED}::test_other_error_on_programs_is_raised",
    ),
    Break(
        "a plugin without a capability reports no TCX programs",
        _PRIVILEGED,
        "return _facts(bpf.tcx_names(), uppers)",
        "return read_allowed_facts()",
        f"{_TEST_PRIVILEGED}::test_plugin_raises_eperm_on_programs",
    ),
    Break(
        "a link that a pod creates over a NIC is not seen by the next attach",
        "dranet_nri/linux/netlink/other_netns.py",
        "concerned.add(event.number)",
        "pass",
        "tests/system/kernel/test_other_netns.py::test_changed_namespace_is_read_again",
    ),
    Break(
        "a route that ends with its link is still in use",
        "dranet_nri/linux/netlink/main_routes.py",
        "return index in self.links and not is_running",
        "return False",
        "tests/system/kernel/test_main_routes.py::test_routes_of_a_link_without_ipv6_end_with_it",
    ),
    Break(
        "two devices of a pod get one route with one metric",
        "dranet_nri/plan/routes/conflicts.py",
        "        keys.assigned.add(free)\n",
        "",
        f"{_TEST_BESIDE}::test_later_device_gets_the_next_metric",
    ),
    Break(
        "the connected route of an address has no metric of the address",
        "dranet_nri/plan/routes/comparison.py",
        "address.metric or (IP6",
        "(IP6",
        f"{_TEST_BESIDE}::test_implied_route_has_the_metric_of_its_address",
    ),
    Break(
        "a deprecated address of the host becomes permanent in the pod",
        "dranet_nri/plan/inherit.py",
        'return "it is deprecated" if address.preferred_s == 0 else ""',
        'return ""',
        "tests/dranet_nri/plan/test_network.py::test_temporary_addresses_are_omitted_with_a_warning",
    ),
    Break(
        "the devices of a claim return in the order of their attach",
        "dranet_nri/attach/execution/restorer.py",
        "                for device in reversed(devices)\n            ]\n",
        "                for device in devices\n            ][::-1]\n",
        "tests/dranet_nri/attach/execution/test_executor_detach.py"
        "::test_devices_of_a_claim_are_detached_in_reverse_order_of_attach",
    ),
    Break(
        "of a link with many altnames a part is read",
        "dranet_nri/linux/netlink/socket.py",
        "    return sock.recv(max(length, buffer_len))\n",
        "    return sock.recv(min(length, BUFFER_LEN))\n",
        "tests/system/kernel/test_large_links.py::test_link_with_the_maximum_of_altnames_is_read",
    ),
    Break(
        "the CDI id of a prepared claim changes with the boot",
        "dra_shim/prepare/transactions.py",
        "nonce = recorded[0].nonce if recorded else nonce_for(claim.ref.uid)",
        "nonce = nonce_for(claim.ref.uid + settings.boot_id)",
        "tests/dra_shim/prepare/test_cdi_ids.py::test_record_after_a_reboot_keeps_its_id",
    ),
    Break(
        "a server without taints is offered what cannot be attached",
        _POOL,
        "for device in devices if not _is_unattachable(device)",
        "for device in devices",
        f"{_TEST_POOL}::test_unattachable_device_is_not_published_without_taints",
    ),
    Break(
        "a PF is prepared while its VF is in a pod, where the server has no counters",
        _POOL,
        "            members[counter.set] - {name}\n",
        "            ()\n",
        f"{_TEST_POOL}::test_pf_and_vfs_exclude_each_other_without_counters",
    ),
    Break(
        "the health of a device in a pod is published once and stays",
        _POOL,
        "(_slice_device, node, device.name, *state),",
        "(_slice_device, node, device.name),",
        "tests/dra_shim/discovery/test_snapshot_memo.py"
        "::test_device_in_a_pod_is_published_with_its_changed_health",
    ),
    Break(
        "a virtual NIC that a daemon renames as it returns is reported as gone",
        "dranet_nri/kernel/observe.py",
        '                or dumped.attrs.get(IFLA_ADDRESS, b"").hex(":") in macs'
        "  # a daemon may rename it\n",
        "",
        "tests/system/kernel/test_host_daemons.py"
        "::test_c20_nic_changed_by_a_daemon_at_its_return_is_restored",
    ),
    Break(
        "the second NIC of a ring of HSR is published",
        "dranet_nri/inventory/exclusions.py",
        "return device.link.lower, *device.also_lower",
        "return (device.link.lower,)",
        "tests/dranet_nri/inventory/test_exclusions.py"
        "::test_nic_whose_move_would_disconnect_other_links_is_excluded",
    ),
    Break(
        "a NIC through which WireGuard sends with a mark is published",
        "dranet_nri/linux/netlink/underlays.py",
        "path.source, path.mark)",
        "path.source, 0)",
        "tests/dranet_nri/linux/netlink/test_underlays.py"
        "::test_links_towards_endpoints_are_underlays",
    ),
    Break(
        "an administrator's route in table local is lost",
        "dranet_nri/kernel/ip/route_replies.py",
        "derived = protocol == RTPROT_KERNEL and (table == RT_TABLE_LOCAL or kind in RTN_DERIVED)",
        "derived = table == RT_TABLE_LOCAL or (protocol == RTPROT_KERNEL and kind in RTN_DERIVED)",
        "tests/system/kernel/test_restore.py"
        "::test_routes_of_table_local_are_restored_and_not_inherited",
    ),
    *REPORTED,
)
