"""Attributes of devices: name, type and meaning.

`hack/gen-reference` writes the tables of manifests/docs/attributes.md from this module, so the
meanings are Markdown. Origin of the names: kubernetes-sigs/dranet pkg/apis, and
k8s.io/dynamic-resource-allocation deviceattribute for resource.kubernetes.io.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class AttributeMeaning(NamedTuple):
    """Type of an attribute's value (KEP-4381: bool, int or string) and its meaning."""

    type: type[bool | int | str]
    text: str


NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
CHILDREN_ONLY: Final = "dra.net/childrenOnly"  # the link stays on the host
RDMA_SHARED: Final = "dra.net/rdmaDeviceShared"

_M = AttributeMeaning

STANDARD: Final[Mapping[str, AttributeMeaning]] = {
    "resource.kubernetes.io/pciBusID": _M(str, "PCI address, such as `0000:8a:00.0`"),
    "resource.kubernetes.io/pcieRoot": _M(
        str, "PCIe root, such as `pci0000:80`; aligns NIC and GPU (`matchAttribute`)"
    ),
    NUMA_NODE: _M(int, "number of the NUMA node"),
}
EVERY_DEVICE: Final[Mapping[str, AttributeMeaning]] = {
    "dra.net/ifName": _M(str, "name of the interface on the host"),
    "dra.net/mac": _M(str, "MAC address of the interface"),
    "dra.net/mtu": _M(int, "MTU of the interface"),
    "dra.net/alias": _M(str, "alias of the interface"),
    "dra.net/encapsulation": _M(str, "link layer: `ether`, `infiniband`, …"),
    "dra.net/state": _M(str, "state of the link: `up`, `down`, `lower-layer-down`, …"),
    "dra.net/type": _M(str, "kind of the link: `device`, `veth`, …"),
    "dra.net/virtual": _M(bool, "whether the interface is virtual"),
    "dra.net/ipv4": _M(str, "global IPv4 addresses, comma-separated"),
    "dra.net/ipv6": _M(str, "global IPv6 addresses, comma-separated"),
    "dra.net/ebpf": _M(bool, "whether eBPF programs are attached to the interface"),
    "dra.net/tcFilterNames": _M(str, "names of eBPF programs in tc filters"),
    "dra.net/tcxProgramNames": _M(str, "names of TCX programs"),
    "dra.net/linkSpeed": _M(int, "speed in Mbit/s"),
    "dra.net/sriov": _M(bool, "whether the device can have virtual functions"),
    "dra.net/sriovVfs": _M(int, "number of its virtual functions"),
    "dra.net/isSriovVf": _M(bool, "`true` for a virtual function, otherwise absent"),
    "dra.net/pciAddress": _M(str, "address of the PCI function"),
    "dra.net/pciVendor": _M(str, "vendor of the PCI function"),
    "dra.net/pciDevice": _M(str, "model of the PCI function"),
    "dra.net/pciSubsystem": _M(str, "subsystem of the PCI function"),
    "dra.net/driver": _M(str, "driver of the PCI function"),
    "dra.net/numaNode": _M(int, "number of the NUMA node, if the host has several"),
    "dra.net/rdma": _M(bool, "whether the device has RDMA"),
    "dra.net/rdmaDevice": _M(str, "name of its RDMA device, such as `mlx5_0`"),
    CHILDREN_ONLY: _M(bool, "`true` for a device of `--parent-interfaces`, otherwise absent"),
}
WITH_RDMA: Final[Mapping[str, AttributeMeaning]] = {
    "dra.net/rdmaProtocol": _M(
        str, "RDMA protocol: `ib`, `roce`, `iw`, `opa`, `usnic`; absent for EFA"
    ),
    "dra.net/ibLinkLayer": _M(str, "link layer: `InfiniBand`, …"),
    "dra.net/ibPortState": _M(str, "state of the port: `ACTIVE`, …"),
    "dra.net/ibRate": _M(str, "rate, such as `400 Gb/sec (4X NDR)`"),
    "dra.net/ibRateGbps": _M(int, "rate in Gbit/s"),
    "dra.net/ibSubnetPrefix": _M(
        str, "`fe80:0000:0000:0003`; one fabric for a job (`matchAttribute`)"
    ),
    "dra.net/ibSmLid": _M(
        int, "LID of the subnet manager; one fabric for a job (`matchAttribute`)"
    ),
    "dra.net/ibPkeys": _M(
        str, 'partition keys, as many as fit 64 bytes; select by `.contains("0x8012")`'
    ),
    "dra.net/nodeGUID": _M(str, "GUID of the RDMA device"),
    "dra.net/portGUID": _M(str, "GUID of the port"),
    "dra.net/sysImageGUID": _M(str, "GUID of the card; different cards by `distinctAttribute`"),
    "dra.net/rdmaPort": _M(int, "number of the port, if the device has several"),
    RDMA_SHARED: _M(bool, "`true`, or absent; see below"),
    "dra.net/rdmaFirmware": _M(str, "version of the firmware"),
}
AZURE: Final[Mapping[str, AttributeMeaning]] = {
    "azure.dra.net/gpuDomains": _M(
        str, "PCI domains of the GPUs near the NIC, such as `0003,0004`"
    ),
}

ATTRIBUTES: Final[Mapping[str, AttributeMeaning]] = {
    **STANDARD, **EVERY_DEVICE, **WITH_RDMA, **AZURE,
}  # fmt: skip
ATTRIBUTE_NAMES: Final = frozenset(ATTRIBUTES)
RDMA_NAMES: Final = frozenset({"dra.net/rdma", "dra.net/rdmaDevice", *WITH_RDMA})
