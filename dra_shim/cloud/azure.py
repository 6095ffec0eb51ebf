"""Azure: VM size, placement, and source-based routing for each NIC.

The IPv6 gateway is the same in all networks of Azure. dranet looks it up in the routes of the host
by the name of the device, and so finds none for a PCI device.

Origin: learn.microsoft.com/azure/virtual-machines/instance-metadata-service (the server),
kubernetes-sigs/dranet (attributes, table numbers), Azure/azure-container-networking (IPv6 gateway).
"""

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Address
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

_HEADERS: Final = (("Metadata", "true"),)
_QUERY: Final = "?api-version=2025-11-11&format=json"
_FIRST_TABLE: Final = 100  # routing table of the first NIC
_GATEWAY_V6: Final = "fe80::1234:5678:9abc"

Routing = tuple[tuple[str, str, str], ...]  # (source of the rule, destination, gateway)


async def _load(get: Get) -> Describe:
    compute = read_json(
        await get(MetadataRequest(f"/metadata/instance/compute{_QUERY}", _HEADERS)),
        "Azure metadata",
    )
    network = read_json(
        await get(MetadataRequest(f"/metadata/instance/network{_QUERY}", _HEADERS)),
        "Azure metadata",
    )
    fields = ("vmSize", "placementGroupId", "interconnectGroupId", "interconnectSubgroupId")
    node = DeviceFacts(
        string_attributes({f"azure.dra.net/{name}": text_at(compute, name) for name in fields})
    )
    nics = value_at(network, "interface")
    found = {
        mac_digits(text_at(nic, "macAddress")): _of_nic(node, nic, _FIRST_TABLE + index)
        for index, nic in enumerate(nics if isinstance(nics, list) else ())
    }

    def describe(device: ProviderDeviceId) -> DeviceFacts:
        return found.get(mac_digits(device.mac), node) if device.mac else node

    return describe


def _of_nic(node: DeviceFacts, nic: object, table: int) -> DeviceFacts:
    subnet = value_at(nic, "ipv4", "subnet", 0)
    text = f"{text_at(subnet, 'address')}/{text_at(subnet, 'prefix')}"
    attributes, routing = node.attributes, _routing_v6(nic)
    with suppress(ValueError):  # an InfiniBand NIC has no subnet
        network = IPv4Network(text)
        attributes = (*attributes, ("azure.dra.net/subnet", text))
        routing = (*_routing_v4(network), *routing)
    return DeviceFacts(attributes, _parameters(routing, table))


def _routing_v4(network: IPv4Network) -> Routing:
    if network.prefixlen == network.max_prefixlen:
        return ()
    gateway = str(network.network_address + 1)  # Azure reserves this address for the router
    return ((str(network), "0.0.0.0/0", gateway),)


def _routing_v6(nic: object) -> Routing:
    try:
        address = IPv6Address(text_at(nic, "ipv6", "ipAddress", 0, "privateIpAddress"))
    except ValueError:
        return ()
    return () if address.is_link_local else ((f"{address}/128", "::/0", _GATEWAY_V6),)


def _parameters(routing: Routing, table: int) -> Mapping[str, object]:
    if not routing:
        return {}
    return {
        "rules": [{"source": source, "table": table} for source, _, _ in routing],
        "routes": [
            {"destination": destination, "gateway": gateway, "table": table}
            for _, destination, gateway in routing
        ],
    }


AZURE: Final = Cloud(names.AZURE, "http://169.254.169.254", _load)
