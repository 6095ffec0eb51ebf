"""Azure: VM size, placement, and source-based routing for each NIC.

dranet also searches an IPv6 gateway by interface name. The kernel in the pod gets this gateway from
router advertisements, so no IPv6 route is added here.

Origin: learn.microsoft.com/azure/virtual-machines/instance-metadata-service (the server),
kubernetes-sigs/dranet (attributes, table numbers).
"""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Final

from dra_shim.cloud import names
from dra_shim.cloud.provider import (
    Ask,
    Cloud,
    Describe,
    DeviceFacts,
    ProviderDeviceId,
    Question,
    bare_mac,
    member,
    read_json,
    text_at,
    texts,
)

_HEADERS: Final = (("Metadata", "true"),)
_QUERY: Final = "?api-version=2025-11-11&format=json"
_FIRST_TABLE: Final = 100  # routing table of the first NIC


async def _load(ask: Ask) -> Describe:
    compute = read_json(
        await ask(Question(f"/metadata/instance/compute{_QUERY}", _HEADERS)), "Azure metadata"
    )
    network = read_json(
        await ask(Question(f"/metadata/instance/network{_QUERY}", _HEADERS)), "Azure metadata"
    )
    names = ("vmSize", "placementGroupId", "interconnectGroupId", "interconnectSubgroupId")
    node = DeviceFacts(texts({f"azure.dra.net/{name}": text_at(compute, name) for name in names}))
    nics = member(network, "interface")
    found = {
        bare_mac(text_at(nic, "macAddress")): _of_nic(node, nic, _FIRST_TABLE + index)
        for index, nic in enumerate(nics if isinstance(nics, list) else ())
    }

    def describe(device: ProviderDeviceId) -> DeviceFacts:
        return found.get(bare_mac(device.mac), node) if device.mac else node

    return describe


def _of_nic(node: DeviceFacts, nic: object, table: int) -> DeviceFacts:
    subnet = member(nic, "ipv4", "subnet", 0)
    text = f"{text_at(subnet, 'address')}/{text_at(subnet, 'prefix')}"
    try:
        network = IPv4Network(text)
    except ValueError:  # an InfiniBand NIC has no subnet
        return node
    attributes = (*node.attributes, ("azure.dra.net/subnet", text))
    return DeviceFacts(attributes, _routing(network, table) if network.prefixlen < 32 else {})


def _routing(network: IPv4Network, table: int) -> Mapping[str, object]:
    gateway = str(network.network_address + 1)  # Azure reserves this address for the router
    return {
        "rules": [{"source": str(network), "table": table}],
        "routes": [{"destination": "0.0.0.0/0", "gateway": gateway, "table": table}],
    }


AZURE: Final = Cloud(names.AZURE, "http://169.254.169.254", _load)
