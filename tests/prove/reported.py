"""Promises that reports from the field showed broken; see breaks.py."""

from typing import Final

from tests.prove.promise import Break

_SAFETY: Final = "dranet_nri/inventory/exclusions.py"
_TEST_BESIDE: Final = "tests/dranet_nri/plan/routes/test_conflicts.py"
REPORTED: Final = (
    Break(
        "a device that the inventory would withhold is attached",
        "dranet_nri/attach/checks/guard.py",
        "        if reason:\n",
        "        if False:\n",
        "tests/dranet_nri/attach/checks/test_guard.py::test_compromised_shim_cannot_attach_an_unpublished_device",
    ),
    Break(
        "a route with another nexthop is taken for the host's",
        "dranet_nri/plan/routes/comparison.py",
        "frozenset((nexthop.gateway, nexthop.device, nexthop.weight) for nexthop in nexthops),",
        "frozenset((nexthop.device, nexthop.weight) for nexthop in nexthops),",
        "tests/dranet_nri/plan/routes/test_comparison.py::test_similar_route_does_not_count_as_the_wanted_one",
    ),
    Break(
        "an IPv6 route is restored with the nexthops of other devices",
        "dranet_nri/plan/routes/comparison.py",
        "            if not nexthop.device:\n",
        "            if True:\n",
        "tests/dranet_nri/plan/routes/test_comparison.py::test_device_restores_its_own_nexthops_of_an_ipv6_route",
    ),
    Break(
        "a claimed route wants the place that a route of the cluster network has",
        "dranet_nri/plan/routes/conflicts.py",
        "        free = keys.next_free(key, device)\n",
        "        free = key\n",
        f"{_TEST_BESIDE}::test_claimed_route_gets_a_higher_metric_than_that_of_the_pod",
    ),
    Break(
        "the connected route of a claimed address is added a second time",
        "dranet_nri/plan/routes/conflicts.py",
        "if _is_plain(route) and (key, route.source) in of_addresses:",
        "if False:",
        f"{_TEST_BESIDE}::test_route_implied_by_an_own_address_is_omitted",
    ),
    Break(
        "a pod starts without an address or a route that its claim asks for",
        "dranet_nri/plan/optional.py",
        "        case AddAddress(address=what) | AddRoute(route=what):\n"
        "            return what in inherited and error.code in PERMANENT\n",
        "        case AddAddress(address=what) | AddRoute(route=what):\n"
        "            return error.code in PERMANENT\n",
        "tests/dranet_nri/plan/test_optional.py::test_claimed_configuration_or_a_transient_error_fails_the_attach",
    ),
    Break(
        "an address that the host has for a while becomes permanent in the pod",
        "dranet_nri/plan/inherit.py",
        "        why = _why_not_permanent(address)\n",
        '        why = ""\n',
        "tests/dranet_nri/plan/test_network.py::test_temporary_addresses_are_omitted_with_a_warning",
    ),
    Break(
        "a client of the public port reads why a page failed",
        "dra_shim/web/server.py",
        'return Page("internal error: the log of dra-shim has the reason\\n", 500)',
        "return Page(repr(error), 500)",
        "tests/dra_shim/web/test_server.py::test_unknown_path_is_answered_with_one_line",
    ),
    Break(
        "a NIC is published below a link of another network namespace",
        _SAFETY,
        "        if elsewhere.get(lower):\n",
        "        if False:\n",
        "tests/dranet_nri/inventory/test_exclusions.py::test_nic_whose_move_would_disconnect_other_links_is_excluded",
    ),
    Break(
        "a NIC is published that policy routing uses for others' packets",
        _SAFETY,
        "if link.index in rule.links and",
        "if False and",
        "tests/dranet_nri/inventory/test_heuristics.py"
        "::test_nic_used_by_policy_routing_for_forwarding_is_excluded",
    ),
    Break(
        "router advertisements make uplinks of rails beside the node's own link",
        "dranet_nri/inventory/uplinks.py",
        "frozenset() if configured or reached else",
        "frozenset() if configured else",
        "tests/dranet_nri/inventory/test_uplinks.py"
        "::test_advertised_default_route_is_ignored_beside_the_node_address",
    ),
)
