"""Facts of one host scan: the input of the inventory, as plain values.

This module decides nothing: each scan decides anew from these values which devices may be
published.
"""

from dataclasses import dataclass

from dranet_nri.model import Address, DefaultRoute, Link, PolicyRoute

UNKNOWN_NAME = "unknown"


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One PCI function, from sysfs (/sys/bus/pci/devices).

    Attributes:
        address: "dddd:bb:dd.f", lower case.
        driver: name of the bound kernel driver, "" if none is bound.
        numa_node: -1 where the firmware has none.
        root: first part of its path, the root complex ("pci0000:8c").
        subsystem: subsystem device id, four lower-case hex digits, "" if unknown.
        vendor_name, device_name: words of the PCI ID database.
        physical: address of the PF if this is a VF, "" otherwise.
        vf_limit, vf_count: how many VFs it can have, and has.
        bus, parent: the device whose child a net device is: the function itself, or the
            virtio device below it.
    """

    address: str
    driver: str
    numa_node: int = -1
    root: str = ""
    subsystem: str = ""
    vendor_name: str = UNKNOWN_NAME
    device_name: str = UNKNOWN_NAME
    physical: str = ""
    vf_limit: int = 0
    vf_count: int = 0
    bus: str = "pci"
    parent: str = ""


@dataclass(frozen=True, slots=True)
class NetDevice:
    """One net device of the host's namespace.

    Attributes:
        pci: address of the nearest PCI function above it, "" if none.
        virtual: it has no hardware above it (/sys/devices/virtual).
        dev_port: number of the port on a function that has several.
        port_name: IFLA_PHYS_PORT_NAME ("p0", "pf0vf1"), "" if the driver gives none.
        speed_mbps: link speed in Mbit/s, 0 while it is unknown.
        pinned: the kernel says that it can never leave its namespace.
        unreadable: why no more than its name and parent is known, "" if the rest is.
        above_elsewhere: kinds of the links that run over it in other network namespaces.
        tc_filters, tcx_programs: names of the BPF programs attached, in any order.
    """

    link: Link
    addresses: tuple[Address, ...] = ()
    pci: str = ""
    virtual: bool = False
    dev_port: int = 0
    port_name: str = ""
    speed_mbps: int = 0
    pinned: bool = False
    unreadable: str = ""
    above_elsewhere: tuple[str, ...] = ()
    tc_filters: tuple[str, ...] = ()
    tcx_programs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RdmaPortFacts:
    """One port of an RDMA device.

    Attributes:
        state: "ACTIVE", "DOWN", "INIT", "ARMED", "" if unknown.
        rate: as sysfs words it ("200 Gb/sec (4X HDR)").
        link_layer: "InfiniBand" or "Ethernet"; others (EFA) have "Unknown".
        netdevs: names of the net devices it belongs to.
        phys_state: "LinkUp", "Disabled", "Polling", …, "" if unknown.
        rate_gbps: Gbit/s, rounded down; 0 if unknown.
        lid, sm_lid: of an InfiniBand port, 0 while its subnet manager gave none.
        subnet_prefix, guid: halves of an InfiniBand port's first GID, "" elsewhere.
        pkeys: those of an InfiniBand port's table, in its order, without empty entries.
    """

    number: int
    state: str = ""
    rate: str = ""
    link_layer: str = ""
    netdevs: tuple[str, ...] = ()
    phys_state: str = ""
    rate_gbps: int = 0
    lid: int = 0
    sm_lid: int = 0
    subnet_prefix: str = ""
    guid: str = ""
    pkeys: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RdmaDeviceFacts:
    """One RDMA device that the host's namespace can see (/sys/class/infiniband).

    Attributes:
        bus, parent: its parent device ("pci", "0000:8a:00.0"), "" if it has none.
        pci: address of the nearest PCI function above it, "" if none.
        node_type: as sysfs words it ("CA", "RNIC", "unspecified").
        node_guid: "0c42:a103:0065:5a1e", "" if unknown.
        sys_image_guid: the same for all devices of one card, "" if unknown.
        fw_version: "" if unknown.
        protocol: of the first port, "ib", "roce", "iw", "usnic" or "opa"; "" for others (EFA).
        index: RDMA_NLDEV_ATTR_DEV_INDEX, None where NETLINK_RDMA has none.
        part_of: name of the RDMA device whose sub-device it is, "" if none.
    """

    name: str
    bus: str = ""
    parent: str = ""
    pci: str = ""
    node_type: str = ""
    node_guid: str = ""
    ports: tuple[RdmaPortFacts, ...] = ()
    sys_image_guid: str = ""
    fw_version: str = ""
    protocol: str = ""
    index: int | None = None
    part_of: str = ""


@dataclass(frozen=True, slots=True)
class AzureHost:
    """PCIe layout facts of an Azure machine, where every device is alone in its domain.

    Attributes:
        gpu_domains: PCI domains that have a GPU ("0001").
        vm_size: as Azure calls it ("Standard_ND96isr_H100_v5"), "" where unknown.
    """

    gpu_domains: frozenset[str] = frozenset()
    vm_size: str = ""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Everything one scan saw.

    Attributes:
        functions: the PCI functions of base class 02, and those above RDMA devices.
        other_functions: addresses of all others; one above an RDMA device that is in a pod is among
            them.
        all_rdma: no RDMA device is out of sight, in another network namespace.
        numa_nodes: how many NUMA nodes the host has.
        numa_near: for each of them, it first, those as near as can be; see numa.near.
        azure: None on other machines.
    """

    functions: tuple[PciFunction, ...] = ()
    netdevs: tuple[NetDevice, ...] = ()
    rdma: tuple[RdmaDeviceFacts, ...] = ()
    default_routes: tuple[DefaultRoute, ...] = ()
    numa_nodes: int = 1
    azure: AzureHost | None = None
    numa_near: tuple[tuple[int, ...], ...] = ()
    other_functions: frozenset[str] = frozenset()
    all_rdma: bool = False
    policy_routes: tuple[PolicyRoute, ...] = ()
