"""PCI functions and net devices in sysfs (Documentation/ABI/testing/sysfs-bus-pci)."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dranet_nri.facts.host import PciIds
from dranet_nri.inventory import PciFunction, near_nodes
from dranet_nri.inventory.host_facts import UNKNOWN_NAME
from dranet_nri.linux.dirfd import DirFd
from dranet_nri.model import Link

SYSFS: Final = Path("/sys")

PciNames = Callable[[frozenset[PciIds]], Mapping[PciIds, tuple[str, str]]]

_NETWORK: Final = 0x02
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_NODE: Final = re.compile(r"node([0-9]+)")
_MODALIAS: Final = re.compile(
    r"pci:v0000(?P<vendor>[0-9A-F]{4})d0000(?P<device>[0-9A-F]{4})"
    r"sv[0-9A-F]{8}sd0000(?P<subsystem>[0-9A-F]{4})bc(?P<base>[0-9A-F]{2}).*"
)


@dataclass(frozen=True, slots=True)
class NetParent:
    """Place of a net device in the device tree.

    Attributes:
        bus, parent: its parent device ("virtio", "virtio3"), "" if it has none.
        pci: address of the nearest PCI function above it, "" if none.
        virtual: whether it has no parent device, or one below /sys/devices/virtual.
        dev_port: port number on its function.
        speed_mbps: speed in Mbit/s, 0 while unknown.
        wireless: it moves with its radio only (cfg80211_netdev_notifier_call, net/wireless).
    """

    bus: str = ""
    parent: str = ""
    pci: str = ""
    virtual: bool = True
    dev_port: int = 0
    speed_mbps: int = 0
    wireless: bool = False


def nearest_pci(path: str) -> str:
    """Return the last PCI address among the components of a device path, "" if none."""
    return next((part for part in reversed(path.split("/")) if _ADDRESS.fullmatch(part)), "")


def pci_functions(
    sysfs: Path, also: Iterable[str] = (), names: PciNames = lambda _: {}
) -> tuple[PciFunction, ...]:
    """Return the network functions (base class 02), and those with an address in `also`.

    Args:
        sysfs: mount point of sysfs.
        also: addresses of functions of any class.
        names: looks up ids in the PCI ID database.
    """
    extra = frozenset(also)
    with DirFd(sysfs / "bus/pci/devices") as directory:
        chosen: list[tuple[str, re.Match[str]]] = []
        for address in directory.names():
            modalias = _MODALIAS.fullmatch(directory.text(f"{address}/modalias"))
            if modalias and (int(modalias["base"], 16) == _NETWORK or address in extra):
                chosen.append((address, modalias))
        words = names(frozenset(_ids(modalias) for _, modalias in chosen))
        return tuple(
            _function(directory, address, modalias, words.get(_ids(modalias)))
            for address, modalias in chosen
        )


def pci_addresses(sysfs: Path) -> frozenset[str]:
    """Return the addresses of all PCI functions."""
    with DirFd(sysfs / "bus/pci/devices") as directory:
        return frozenset(directory.names())


def net_parent(directory: DirFd, link: Link) -> NetParent:
    """Return the parent of a net device; defaults, and virtual, if sysfs has none.

    The device tree is the same in every network namespace, class/net is not. So the parent in
    netlink is used, which works even if this sysfs does not show the net device. Before Linux 5.14
    netlink has none; then class/net is used, if it shows the same link-layer address.

    Args:
        directory: the root of sysfs.
        link: link of a dump.
    """
    here = f"class/net/{link.name}"
    bus, parent = link.bus, link.parent
    if not parent and link.mac and directory.text(f"{here}/address") == link.mac:
        bus = _last(directory.target(f"{here}/device/subsystem"))
        parent = _last(directory.target(f"{here}/device"))
    if not parent:
        return NetParent()
    path = directory.target(f"bus/{bus}/devices/{parent}")
    return NetParent(
        bus=bus,
        parent=parent,
        pci=nearest_pci(path),
        virtual="/devices/virtual/" in path,
        dev_port=directory.number(f"{here}/dev_port"),
        speed_mbps=max(0, directory.number(f"{here}/speed")) if link.carrier else 0,
        wireless=bool(directory.target(f"{here}/phy80211")),
    )


def numa_near(sysfs: Path) -> tuple[tuple[int, ...], ...]:
    """Return for each NUMA node itself and its nearest nodes, see inventory.near_nodes."""
    with DirFd(sysfs / "devices/system") as directory:
        names = (_NODE.fullmatch(name) for name in directory.names("node"))
        nodes = sorted(int(found[1]) for found in names if found)
        table = {node: directory.text(f"node/node{node}/distance") for node in nodes}
        sockets = {node: _socket(directory, node) for node in nodes}
    return near_nodes(
        nodes, table, {node: socket for node, socket in sockets.items() if socket >= 0}
    )


def _socket(directory: DirFd, node: int) -> int:
    """Return the socket of a node's first CPU, -1 if it is unknown."""
    cpu = re.match("[0-9]+", directory.text(f"node/node{node}/cpulist"))
    return directory.number(f"cpu/cpu{cpu[0]}/topology/physical_package_id", -1) if cpu else -1


def _function(
    directory: DirFd, address: str, modalias: re.Match[str], words: tuple[str, str] | None
) -> PciFunction:
    vendor_name, device_name = words or (UNKNOWN_NAME, UNKNOWN_NAME)
    driver = _last(directory.target(f"{address}/driver"))
    physical = _last(directory.target(f"{address}/physfn"))
    virtio = _virtio_child(directory, address) if driver == "virtio-pci" else ""
    path = directory.target(address).split("/")
    limit = 0 if physical else directory.number(f"{address}/sriov_totalvfs")
    return PciFunction(
        address=address,
        driver=driver,
        numa_node=directory.number(f"{address}/numa_node", -1),
        root=next((part for part in path if _ROOT.fullmatch(part)), ""),
        subsystem=modalias["subsystem"].lower(),
        vendor_name=vendor_name,
        device_name=device_name,
        physical=physical,
        vf_limit=limit,
        vf_count=directory.number(f"{address}/sriov_numvfs") if limit else 0,
        bus="virtio" if virtio else "pci",
        parent=virtio or address,
    )


def _virtio_child(directory: DirFd, address: str) -> str:
    children = (name for name in directory.names(address) if re.fullmatch(r"virtio\d+", name))
    return next(children, "")


def _ids(modalias: re.Match[str]) -> PciIds:
    return modalias["vendor"].lower(), modalias["device"].lower()


def _last(path: str) -> str:
    return path.rpartition("/")[2]
