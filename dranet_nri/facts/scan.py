"""One pass over what the host shows, and the inventory that follows from it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from dranet_nri.facts import azure, host, infiniband, links, sysfs
from dranet_nri.facts.tree import Folder
from dranet_nri.inventory import (
    DefaultRoute,
    HostFacts,
    Inventory,
    NetDevice,
    inventory_from_facts,
    parse_vm_size,
)
from dranet_nri.model import Address
from dranet_nri.netlink.rtnetlink import open_here


def scan(sysfs_root: Path = sysfs.SYSFS, azure_size: str = "") -> Inventory:
    """Return the inventory of this moment; nothing is remembered from call to call.

    Links, addresses and routes are those of the calling thread's network namespace.

    Args:
        sysfs_root: where a sysfs of the same namespace is mounted.
        azure_size: what Azure calls this machine's size, "" if nobody knows.

    Raises:
        KernelError: a netlink dump failed.
        InvalidValueError: nothing is known of the size.
    """
    return inventory_from_facts(read_host(sysfs_root, azure_size))


def read_host(sysfs_root: Path = sysfs.SYSFS, azure_size: str = "") -> HostFacts:
    """Return what a scan of the host sees, unjudged.

    Args:
        sysfs_root: where a sysfs of the same namespace is mounted.
        azure_size: what Azure calls this machine's size, "" if nobody knows.

    Raises:
        KernelError: a netlink dump failed.
        InvalidValueError: nothing is known of the size.
    """
    size = parse_vm_size(azure_size)
    with closing(open_here()) as netlink:
        seen = links.links(netlink)
        addresses = links.addresses(netlink)
        filters = links.tc_filters(netlink)
        routes = links.default_routes(netlink)
    told = infiniband.told(sysfs_root)
    facts = host_facts(sysfs_root, seen, addresses, filters, routes, told=told)
    return replace(facts, azure=azure.azure_host(sysfs_root, size))


def host_facts(
    sysfs_root: Path,
    seen: tuple[links.SeenLink, ...],
    addresses: Mapping[int, tuple[Address, ...]],
    tc_filters: Mapping[int, tuple[str, ...]],
    routes: tuple[DefaultRoute, ...],
    *,
    told: infiniband.Told | None = None,
) -> HostFacts:
    """Return what the kernel told by netlink together with what sysfs tells.

    Args:
        sysfs_root: where sysfs is mounted.
        seen: every link of the namespace.
        addresses: ifindex -> addresses.
        tc_filters: ifindex -> names of BPF classifiers.
        routes: the default routes.
        told: what netlink tells of RDMA devices, None if it was not asked.
    """
    rdma = infiniband.rdma_devices(sysfs_root, told)
    functions = sysfs.pci_functions(
        sysfs_root, (device.pci for device in rdma if device.pci), host.pci_names
    )
    with Folder(sysfs_root) as folder:
        netdevs = tuple(
            _net_device(one, sysfs.net_parent(folder, one.link), addresses, tc_filters)
            for one in seen
        )
    return HostFacts(functions, netdevs, rdma, routes, sysfs.numa_nodes(sysfs_root))


def _net_device(
    seen: links.SeenLink,
    place: sysfs.NetParent,
    addresses: Mapping[int, tuple[Address, ...]],
    tc_filters: Mapping[int, tuple[str, ...]],
) -> NetDevice:
    return NetDevice(
        link=replace(seen.link, bus=place.bus, parent=place.parent),
        addresses=addresses.get(seen.link.index, ()),
        pci=place.pci,
        virtual=place.virtual,
        dev_port=place.dev_port,
        port_name=seen.port_name,
        speed_mbps=place.speed_mbps,
        pinned=seen.pinned,
        tc_filters=tc_filters.get(seen.link.index, ()),
    )
