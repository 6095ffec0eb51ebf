"""Google Compute Engine: machine type, placement, and the networks of its NICs.

Origin: cloud.google.com/compute/docs/metadata (the server), kubernetes-sigs/dranet (attributes).
"""

import re
from collections.abc import Mapping
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
    string_attributes,
    text_at,
    value_at,
)
from dranet_nri.inventory.attributes import MAX_STRING_BYTES
from dranet_nri.model import AttributeValue

_HEADERS: Final = (("Metadata-Flavor", "Google"),)
_ROOT: Final = "/computeMetadata/v1/instance"
_NETWORK: Final = re.compile(r"projects/([0-9]+)/networks/(\S+)")
_MAX_INTEGER: Final = 2**63 - 1


async def _load(get: Get) -> Describe:
    machine = await get(MetadataRequest(f"{_ROOT}/machine-type", _HEADERS))
    raw = await get(
        MetadataRequest(f"{_ROOT}/network-interfaces/?recursive=true&alt=json", _HEADERS)
    )
    host = await get(MetadataRequest(f"{_ROOT}/attributes/physical_host", _HEADERS, optional=True))
    listed = read_json(raw, "GCE metadata")
    nics = {
        mac_digits(text_at(nic, "mac")): nic for nic in (listed if isinstance(listed, list) else ())
    }
    node = string_attributes({"gce.dra.net/machineType": machine.strip().rpartition("/")[2]})
    return _describe((*node, *_placement(host.strip())), nics)


def _placement(host: str) -> tuple[tuple[str, AttributeValue], ...]:
    """Return block, subblock and host of "/block/subblock/host"; nothing for other text."""
    parts = host.removeprefix("/").split("/", 2)
    if len(parts) != 3:
        return ()
    names = ("gce.dra.net/block", "gce.dra.net/subBlock", "gce.dra.net/host")
    return string_attributes(dict(zip(names, parts, strict=True)))


def _describe(node: tuple[tuple[str, AttributeValue], ...], nics: Mapping[str, object]) -> Describe:
    def describe(device: ProviderDeviceId) -> DeviceFacts:
        nic = nics.get(mac_digits(device.mac)) if device.mac else None
        return DeviceFacts(node) if nic is None else _of_nic(node, nic)

    return describe


def _of_nic(node: tuple[tuple[str, AttributeValue], ...], nic: object) -> DeviceFacts:
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
        )
    )


def _joined(ranges: list[str]) -> str:
    """Return the first ranges, comma-separated, as many as fit into an attribute."""
    return max(
        (text for text in accumulate(ranges, "{},{}".format) if len(text) <= MAX_STRING_BYTES),
        key=len,
        default="",
    )


GCE: Final = Cloud(names.GCE, "http://169.254.169.254", _load)
