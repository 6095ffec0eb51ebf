"""The claim's opaque parameters: parse, validate, merge, and write them back.

document.py   a cursor over JSON that collects every violation with its path
text.py       JSON text → plain values, duplicate keys remembered
values.py     one string → one canonical value (address, MAC, interface name …)
network.py    document → NetworkConfig, or every rule it breaks
encode.py     NetworkConfig → canonical JSON
select.py     which entries of a claim apply to a request, and how they merge
"""

from dranet_nri.config.document import Findings, Node, did_you_mean, show
from dranet_nri.config.encode import network_config_to_json, network_config_to_object
from dranet_nri.config.network import (
    MAX_PARAMETERS,
    parse_network_config,
    violations_for_rdma_only,
)
from dranet_nri.config.select import ConfigEntry, ConfigSource, select_config
from dranet_nri.config.text import JsonObject, load_json

__all__ = [
    "MAX_PARAMETERS",
    "ConfigEntry",
    "ConfigSource",
    "Findings",
    "JsonObject",
    "Node",
    "did_you_mean",
    "load_json",
    "network_config_to_json",
    "network_config_to_object",
    "parse_network_config",
    "select_config",
    "show",
    "violations_for_rdma_only",
]
