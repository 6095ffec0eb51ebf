"""Google Compute Engine: machine type, placement, networks of its NICs, addresses for children.

Rules:
1. An IPVLAN child of a NIC gets an address of the NIC's first alias range, as in dranet, and its
   packets leave by the NIC's router. Google routes a range to one machine, so nodes need not agree.
2. The first NIC gives no address: its ranges are those of the pods on the cluster network.

Origin: cloud.google.com/compute/docs/metadata (the server), cloud.google.com/vpc/docs/alias-ip
(alias ranges), kubernetes-sigs/dranet (attributes, table and priority of the routing).
"""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from itertools import accumulate
from typing import Final

from dra_shim.cloud import names
from dra_shim.cloud.provider import (
    Cloud,
    Describe,
    DeviceFacts,
    Get,
    MetadataRequest,
    ProviderDeviceId,
    mac_digits,
    read_json,
    read_word,
    string_attributes,
    text_at,
    value_at,
)
from dranet_nri.config.address_ranges import MAX_RANGE
from dranet_nri.inventory.attributes import MAX_STRING_BYTES
from dranet_nri.model import AttributeValue, table_of

_HEADERS: Final = (("Metadata-Flavor", "Google"),)
_ROOT: Final = "/computeMetadata/v1/instance"
_NETWORK: Final = re.compile(r"projects/([0-9]{1,19})/networks/(\S+)")
_MAX_INTEGER: Final = 2**63 - 1
_NO_BROADCAST: Final = 31  # RFC 3021: both addresses of such a network are those of hosts
_LINK_SCOPE: Final = 253  # RT_SCOPE_LINK
_PRIORITY: Final = 32000


async def _load(get: Get) -> Describe:
    machine = await get(MetadataRequest(f"{_ROOT}/machine-type", _HEADERS))
    raw = await get(
        MetadataRequest(f"{_ROOT}/network-interfaces/?recursive=true&alt=json", _HEADERS)
    )
    host = await get(MetadataRequest(f"{_ROOT}/attributes/physical_host", _HEADERS, optional=True))
    listed = read_json(raw, "GCE metadata")
    kind = read_word(machine, "GCE metadata").rpartition("/")[2]
    node = (
        *string_attributes({"gce.dra.net/machineType": kind}),
        *_placement(read_word(host, "GCE metadata")),
    )
    nics = {
        mac_digits(text_at(nic, "mac")): _of_nic(node, nic, ipvlan=index > 0)
        for index, nic in enumerate(listed if isinstance(listed, list) else ())
    }

    def describe(device: ProviderDeviceId) -> DeviceFacts:
        others = DeviceFacts(node)
        return nics.get(mac_digits(device.mac), others) if device.mac else others

    return describe


def _placement(host: str) -> tuple[tuple[str, AttributeValue], ...]:
    """Return block, subblock and host of "/block/subblock/host"; nothing for other text."""
    parts = host.removeprefix("/").split("/", 2)
    if len(parts) != 3:
        return ()
    names = ("gce.dra.net/block", "gce.dra.net/subBlock", "gce.dra.net/host")
    return string_attributes(dict(zip(names, parts, strict=True)))


def _of_nic(
    node: tuple[tuple[str, AttributeValue], ...], nic: object, *, ipvlan: bool
) -> DeviceFacts:
    """Return the facts of a NIC; none if its network cannot be parsed, as in dranet."""
    network = _NETWORK.fullmatch(text_at(nic, "network"))
    if network is None or int(network[1]) > _MAX_INTEGER:
        return DeviceFacts()
    aliases = value_at(nic, "ipAliases")
    listed = (
        [alias for alias in aliases if isinstance(alias, str)] if isinstance(aliases, list) else []
    )
    return DeviceFacts(
        (
            *node,
            ("gce.dra.net/networkName", network[2]),
            ("gce.dra.net/networkProjectNumber", int(network[1])),
            *string_attributes({"gce.dra.net/ipAliases": _joined(listed)}),
        ),
        ipvlan=_child_parameters(listed[0], nic) if ipvlan and listed else {},
    )


def _child_parameters(alias: str, nic: object) -> Mapping[str, object]:
    """Return the parameters of an IPVLAN child; none if alias or router cannot be parsed."""
    try:
        network, router = IPv4Network(alias), IPv4Address(text_at(nic, "gateway"))
    except ValueError:
        return {}
    edge = 1 if network.prefixlen < _NO_BROADCAST else 0  # the addresses of network and broadcast
    low, high = network[edge], network[min(network.num_addresses, MAX_RANGE) - 1 - edge]
    table = table_of(text_at(nic, "mac"))
    return {
        "interface": {"addresses": [f"{low}-{high}/{network.prefixlen}"]},
        "routes": [
            {"destination": str(network), "scope": _LINK_SCOPE, "table": table},
            {"destination": f"{router}/32", "scope": _LINK_SCOPE, "table": table},
            {"destination": "0.0.0.0/0", "gateway": str(router), "table": table},
        ],
        "rules": [{"source": str(network), "table": table, "priority": _PRIORITY}],
    }


def _joined(ranges: list[str]) -> str:
    """Return the first ranges, comma-separated, as many as fit into an attribute."""
    return max(
        (text for text in accumulate(ranges, "{},{}".format) if len(text) <= MAX_STRING_BYTES),
        key=len,
        default="",
    )


GCE: Final = Cloud(names.GCE, "http://169.254.169.254", _load)
