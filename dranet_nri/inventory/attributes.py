"""Attributes of devices: those of dranet by name, type and presence, and a few more.

Rules:
1. Every string is truncated to 64 bytes, only here: lists at a whole entry, others at a character.
   The API server refuses a slice with a longer string.
2. A device has at most 32 attributes. Above that, those of DROP_ORDER are dropped in its order.
   Those of dranet and Kubernetes are not dropped, and not linkSpeed, which is the capacity of a
   shared device: a device has at most 28 of them.
3. Lists are sorted, so that an unchanged device is not published again.

Origin: kubernetes-sigs/dranet pkg/apis (names), k8s.io/dynamic-resource-allocation
deviceattribute (the resource.kubernetes.io names), KEP-4381 (limits).
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from dranet_nri.inventory.attribute_names import NUMA_NODE, RDMA_SHARED
from dranet_nri.inventory.azure import Placement
from dranet_nri.inventory.host_facts import NetDevice, PciFunction, RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.model import Address, AttributeValue

MAX_STRING_BYTES: Final = 64
MAX_ATTRIBUTES: Final = 32

DROP_ORDER: Final = (  # those least likely to be selected come first
    "dra.net/rdmaFirmware",
    "dra.net/sysImageGUID",
    "dra.net/nodeGUID",
    "dra.net/portGUID",
    "dra.net/ibRate",  # ibRateGbps has the same value
    "dra.net/ibSmLid",
    "dra.net/driver",
    "dra.net/ibPkeys",
    "dra.net/rdmaPort",
    "dra.net/ibPortState",
    "dra.net/ibRateGbps",
    "dra.net/ibLinkLayer",  # rdmaProtocol includes it
    "dra.net/ibSubnetPrefix",
    "azure.dra.net/gpuDomains",
    RDMA_SHARED,
    "dra.net/rdmaProtocol",
)

Attributes = Iterator[tuple[str, AttributeValue]]

_LINK_TYPES: Final = {  # ARPHRD_*, linux/if_arp.h, in the spelling of iproute2
    1: "ether",
    32: "infiniband",
    512: "ppp",
    519: "rawip",
    768: "ipip",
    769: "tunnel6",
    772: "loopback",
    776: "sit",
    778: "gre",
    823: "gre6",
    65534: "none",
    65535: "void",
}
_STATES: Final = {"notpresent": "not-present", "lowerlayerdown": "lower-layer-down"}
_KINDS: Final = {"": "device", "tun": "tuntap"}
_BROADCAST: Final = ipaddress.IPv4Address("255.255.255.255")
_STANDARD_ADDRESS: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def readable(text: str) -> str:
    """Return a text with lone surrogates replaced: bytes of the kernel that are not UTF-8, or half
    of a pair that a provider sends.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def truncated(text: str) -> str:
    """Return text truncated to 64 bytes, at a whole character."""
    if len(text) <= MAX_STRING_BYTES and text.isascii():
        return text
    return readable(text).encode()[:MAX_STRING_BYTES].decode(errors="ignore")


def joined(items: Iterable[str]) -> str:
    """Return the sorted, distinct items, comma-separated, as many whole ones as fit 64 bytes.

    A single item that does not fit is truncated, so that the attribute exists.
    """
    text = ""
    for item in sorted(set(map(readable, items))):
        longer = f"{text},{item}" if text else item
        if len(longer.encode()) > MAX_STRING_BYTES:
            return text or truncated(item)
        text = longer
    return text


def netdev_attributes(device: NetDevice, function: PciFunction | None) -> Attributes:
    """Yield the attributes of a net device on the host.

    Args:
        device: the net device.
        function: the PCI function whose direct child it is, else None.
    """
    link = device.link
    yield "dra.net/ifName", truncated(link.name)
    yield "dra.net/mac", truncated(link.mac)
    yield "dra.net/mtu", link.mtu
    yield "dra.net/encapsulation", _LINK_TYPES.get(link.arphrd, f"unknown{link.arphrd}")
    yield "dra.net/alias", truncated(link.alias)
    yield "dra.net/state", _STATES.get(link.operstate, link.operstate)
    yield "dra.net/type", truncated(_KINDS.get(link.kind, link.kind))
    yield "dra.net/virtual", device.virtual
    yield "dra.net/ebpf", bool(device.tc_filters or device.tcx_programs)
    if device.tc_filters:
        yield "dra.net/tcFilterNames", joined(device.tc_filters)
    if device.tcx_programs:
        yield "dra.net/tcxProgramNames", joined(device.tcx_programs)
    yield from _address_attributes(device.addresses)
    if device.speed_mbps > 0:
        yield "dra.net/linkSpeed", device.speed_mbps
    limit = function.vf_limit if function and function.bus == "pci" else 0
    yield "dra.net/sriov", limit > 0
    if function and limit > 0:
        yield "dra.net/sriovVfs", function.vf_count


def pci_attributes(function: PciFunction, numa_nodes: int) -> Attributes:
    """Yield the attributes of the PCI function.

    Args:
        function: the function.
        numa_nodes: number of the host's NUMA nodes; dra.net/numaNode is for hosts with several.
    """
    yield "dra.net/pciAddress", function.address
    yield "dra.net/pciVendor", truncated(function.vendor_name)
    yield "dra.net/pciDevice", truncated(function.device_name)
    yield "dra.net/pciSubsystem", function.subsystem
    yield "dra.net/driver", truncated(function.driver)
    if function.physical:
        yield "dra.net/isSriovVf", True
    if _STANDARD_ADDRESS.fullmatch(function.address):
        yield "resource.kubernetes.io/pciBusID", function.address
        if function.root:
            yield "resource.kubernetes.io/pcieRoot", function.root
    if function.numa_node >= 0:
        yield NUMA_NODE, function.numa_node
        if numa_nodes > 1:
            yield "dra.net/numaNode", function.numa_node


def rdma_attributes(rdma: Sequence[RdmaDeviceFacts], ifname: str, dev_port: int) -> Attributes:
    """Yield the attributes of its RDMA devices; every device has dra.net/rdma.

    Args:
        rdma: its RDMA devices; the attributes are those of the first.
        ifname: name of its net device, "" without one.
        dev_port: port number of its net device on the function, 0 or more.
    """
    yield "dra.net/rdma", bool(rdma)
    if not rdma:
        return
    first = rdma[0]
    port = _port(first, ifname, dev_port)
    yield "dra.net/rdmaDevice", truncated(first.name)
    texts = {
        "rdmaProtocol": _protocol(first, port),
        "rdmaFirmware": first.fw_version,
        "nodeGUID": _guid(first.node_guid),
        "sysImageGUID": _guid(first.sys_image_guid),
    }
    yield from ((f"dra.net/{name}", truncated(text)) for name, text in texts.items() if text)
    if port:
        yield from _port_attributes(port)
        if len(first.ports) > 1:
            yield "dra.net/rdmaPort", port.number


def azure_attributes(placement: Placement) -> Attributes:
    """Yield the attributes from the table of the VM size."""
    yield "azure.dra.net/gpuDomains", joined(placement.gpu_domains)


def within_budget(
    attributes: Mapping[str, AttributeValue], most: int = MAX_ATTRIBUTES
) -> tuple[tuple[str, AttributeValue], ...]:
    """Return the attributes sorted by name, without those above the limit.

    Args:
        attributes: attributes by name.
        most: the limit; capacities count as attributes.
    """
    kept = dict(attributes)
    for name in DROP_ORDER:
        if len(kept) <= most:
            break
        kept.pop(name, None)
    return tuple(sorted(kept.items()))


def _port_attributes(port: RdmaPortFacts) -> Attributes:
    texts = {
        "ibPortState": port.state,
        "ibRate": port.rate,
        "ibLinkLayer": port.link_layer,
        "portGUID": _guid(port.guid),
        "ibSubnetPrefix": port.subnet_prefix,
        "ibPkeys": joined(f"0x{pkey:04x}" for pkey in port.pkeys),
    }
    yield from ((f"dra.net/{name}", truncated(text)) for name, text in texts.items() if text)
    if port.rate_gbps:
        yield "dra.net/ibRateGbps", port.rate_gbps
    if port.sm_lid:
        yield "dra.net/ibSmLid", port.sm_lid


def _protocol(device: RdmaDeviceFacts, port: RdmaPortFacts | None) -> str:
    """Return the port's protocol: the kernel reports that of the first port, mlx4 may mix both."""
    layer = port.link_layer if port else ""
    if layer == "InfiniBand" and device.protocol == "roce":
        return "ib"
    if layer == "Ethernet" and device.protocol == "ib":
        return "roce"
    return device.protocol


def _guid(guid: str) -> str:
    """Return the GUID, "" for all zeros, as of a VF without an assigned one."""
    return guid if guid.strip("0:") else ""


def _address_attributes(addresses: Sequence[Address]) -> Attributes:
    versions = [(address.cidr, _global_version(address.cidr)) for address in addresses]
    for name, version in (("dra.net/ipv4", 4), ("dra.net/ipv6", 6)):
        cidrs = [cidr for cidr, found in versions if found == version]
        if cidrs:
            yield name, joined(cidrs)


def _global_version(cidr: str) -> int:
    """Return 4 or 6 for a unicast address that is neither link-local nor loopback, else 0."""
    ip = ipaddress.ip_address(cidr.partition("/")[0])
    narrow = ip.is_link_local or ip.is_loopback or ip.is_multicast or ip.is_unspecified
    return 0 if narrow or ip == _BROADCAST else ip.version


def _port(device: RdmaDeviceFacts, ifname: str, dev_port: int) -> RdmaPortFacts | None:
    for port in device.ports:
        if ifname and ifname in port.netdevs:
            return port
    numbered = next((port for port in device.ports if port.number == dev_port + 1), None)
    return numbered or next(iter(device.ports), None)
