"""Opaque parameters of a claim: parsing, validation, merge and encoding.

json_cursor.py     cursor over JSON that collects violations with their paths
json_text.py       JSON text → plain values and duplicate keys
scalars.py         one string → one canonical value (address, MAC, interface name …)
network.py         document → NetworkConfig, or every violation
child.py           `type`, `ipvlan`, `macvlan` and `vlan`: a child in place of the device
rdma.py            the `rdma` and `ipoib` blocks; the partition key of a port's table
addressing.py      `addressing` and `dhcp`: source of the addresses; gateways out of reach
ethtool.py         the `ethtool` block: offload features and private flags
address_ranges.py  a free address in place of a range
link.py            queue length, alternative names, IPv6 settings and VRF of the link
fields.py          the fields and the values that each accepts
device_rules.py    parameters that a device or node cannot apply; warnings
clashes.py         names and addresses that several devices of a pod cannot share
encode.py          NetworkConfig → canonical JSON
merge.py           the entries of a claim that apply to a request, merged
policy.py          the `policy` of a class: what its claims may set
provided.py        parameters of a cloud or a profile, below them
"""

from dranet_nri.config.address_ranges import assign_addresses
from dranet_nri.config.addressing import gateway_violations
from dranet_nri.config.clashes import SameConfig, clashes
from dranet_nri.config.device_rules import (
    SHARED_MODE_WARNING,
    char_kinds,
    missing_warning,
    violations_for_device,
    violations_for_mode,
    violations_for_share,
    why_without_interface,
)
from dranet_nri.config.encode import network_config_to_json, network_config_to_object
from dranet_nri.config.json_cursor import Node, Violations, did_you_mean, show
from dranet_nri.config.json_text import JsonObject, load_json, load_json_stream
from dranet_nri.config.merge import (
    ConfigEntry,
    ConfigSource,
    SelectedParameters,
    select_config,
    select_parameters,
)
from dranet_nri.config.network import MAX_PARAMETERS, parse_network_config
from dranet_nri.config.provided import Provided, with_provided
from dranet_nri.config.rdma import choose_pkey

__all__ = [
    "MAX_PARAMETERS",
    "SHARED_MODE_WARNING",
    "ConfigEntry",
    "ConfigSource",
    "JsonObject",
    "Node",
    "Provided",
    "SameConfig",
    "SelectedParameters",
    "Violations",
    "assign_addresses",
    "char_kinds",
    "choose_pkey",
    "clashes",
    "did_you_mean",
    "gateway_violations",
    "load_json",
    "load_json_stream",
    "missing_warning",
    "network_config_to_json",
    "network_config_to_object",
    "parse_network_config",
    "select_config",
    "select_parameters",
    "show",
    "violations_for_device",
    "violations_for_mode",
    "violations_for_share",
    "why_without_interface",
    "with_provided",
]
