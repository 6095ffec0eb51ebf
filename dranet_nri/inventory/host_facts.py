"""Host facts: result of one scan as plain values, input of the inventory.

This module has no rules: the inventory derives the publishable devices from these values.
"""

from dataclasses import dataclass

from dranet_nri.model import Address, DefaultRoute, Link, PolicyRoute

UNKNOWN_NAME = "unknown"


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One PCI function, from sysfs (/sys/bus/pci/devices).

    Attributes:
        address: "dddd:bb:dd.f", lower case.
        driver: name of the bound kernel driver, "" if none.
        numa_node: NUMA node, -1 if the firmware has none.
        root: first part of its path, the root complex ("pci0000:8c").
        subsystem: subsystem device id, four lower-case hex digits, "" if unknown.
        vendor_name, device_name: names in the PCI ID database.
        physical: address of the PF of a VF, else "".
        vf_limit, vf_count: maximum and current number of VFs.
        bus, parent: parent device of its net devices: the function, or the virtio device
            below it.
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
        virtual: it is below /sys/devices/virtual.
        dev_port: port number, on a function with several ports.
        port_name: IFLA_PHYS_PORT_NAME ("p0", "pf0vf1"), "" if the driver has none.
        speed_mbps: link speed in Mbit/s, 0 while it is unknown.
        pinned: the kernel does not permit a move (IFLA_NETNS_IMMUTABLE, or a wireless interface).
        unreadable: error of the read, if only name and parent are known, else "".
        also_lower: ifindexes of lower links besides that of the link, as HSR has them.
        foreign_upper_kinds: kinds of its upper links in other network namespaces.
        tunnel_ends: address from which it sends as a tunnel, "" for any; and ifindex of the link
            through which it reaches its remote end, 0 if there is none, -1 without a route.
        underlay_of: what sends through it, such as "IPsec" or "NVMe": see netlink/underlays.py.
        tc_filters, tcx_programs: names of attached BPF programs, in any order.
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
    also_lower: tuple[int, ...] = ()
    foreign_upper_kinds: tuple[str, ...] = ()
    tunnel_ends: tuple[str, int] = ("", 0)
    underlay_of: tuple[str, ...] = ()
    tc_filters: tuple[str, ...] = ()
    tcx_programs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RdmaPortFacts:
    """One port of an RDMA device.

    Attributes:
        state: "ACTIVE", "DOWN", "INIT", "ARMED", "" if unknown.
        rate: in the form of sysfs ("200 Gb/sec (4X HDR)").
        link_layer: "InfiniBand", "Ethernet", or "Unknown" (EFA).
        netdevs: names of its net devices.
        phys_state: "LinkUp", "Disabled", "Polling", …, "" if unknown.
        rate_gbps: Gbit/s, rounded down; 0 if unknown.
        lid, sm_lid: LIDs of an InfiniBand port, 0 while the subnet manager assigned none.
        subnet_prefix, guid: halves of an InfiniBand port's first GID, else "".
        pkeys: P_Key table of an InfiniBand port, in order, without empty entries.
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
    """One RDMA device of the host's namespace (/sys/class/infiniband).

    Attributes:
        bus, parent: its parent device ("pci", "0000:8a:00.0"), "" if it has none.
        pci: address of the nearest PCI function above it, "" if none.
        node_type: in the form of sysfs ("CA", "RNIC", "unspecified").
        node_guid: "0c42:a103:0065:5a1e", "" if unknown.
        sys_image_guid: equal for all devices of one card, "" if unknown.
        fw_version: "" if unknown.
        protocol: protocol of the first port: "ib", "roce", "iw", "usnic", "opa", "" (EFA).
        index: RDMA_NLDEV_ATTR_DEV_INDEX, None without NETLINK_RDMA.
        part_of: name of the RDMA device of a sub-device, else "".
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
    """PCIe layout facts of an Azure machine, with one PCI domain per device.

    Attributes:
        gpu_domains: PCI domains with a GPU ("0001").
        vm_size: in Azure's spelling ("Standard_ND96isr_H100_v5"), "" if unknown.
    """

    gpu_domains: frozenset[str] = frozenset()
    vm_size: str = ""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """All facts of one scan.

    Attributes:
        functions: PCI functions of base class 02, and those of RDMA devices.
        other_functions: addresses of all others, including those of RDMA devices in pods.
        daemon_routes: ifindex of each link of a routing daemon's routes, and their protocol.
        sourced_routes: destination, preferred source and links of IPv4 routes of table main,
            without those that the kernel adds.
        all_rdma: no RDMA device is in another network namespace.
        numa_nodes: number of NUMA nodes.
        numa_near: for each NUMA node itself and its nearest nodes, see numa.near.
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
    daemon_routes: tuple[tuple[int, str], ...] = ()
    sourced_routes: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
