"""RDMA device facts (Documentation/ABI/stable/sysfs-class-infiniband).

Rules:
1. Every fact that sysfs has is read from it, so that facts are equal with and without NETLINK_RDMA.
   Netlink adds only index, protocol, sub-devices and the net device of a port.
2. A device that disappears during the read is left out. A fact that a driver does not provide is
   empty.
3. Texts are accepted only in the kernel's format.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from errno import ENODEV
from pathlib import Path
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.facts.sysfs import nearest_pci
from dranet_nri.inventory import RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.linux.dirfd import DirFd
from dranet_nri.linux.rdma import types
from dranet_nri.linux.rdma.socket import RdmaSocket, open_here

_NUMBERED_WORD: Final = re.compile(r"[0-9]{1,3}: ([A-Za-z<][A-Za-z0-9_<> ]{0,31})")
_WORDS: Final = re.compile(r"[!-~]+( [!-~]+)*")
_GUID: Final = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}")
_GID: Final = re.compile(r"([0-9a-f]{4}(?::[0-9a-f]{4}){3}):([0-9a-f]{4}(?::[0-9a-f]{4}){3})")
_RATE: Final = re.compile(r"([0-9]{1,6})(\.[0-9])? Gb/sec\b.*")
_HEX: Final = re.compile(r"0x[0-9a-f]{1,8}")
_PORT: Final = re.compile(r"[1-9][0-9]{0,2}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_MAX_PKEY: Final = 0xFFFF
_EMPTY_PKEYS: Final = 8  # consecutive ones end the read: each may cost a firmware command, of 128
_PROTOCOLS: Final = {
    ("CA", "InfiniBand"): "ib",
    ("CA", "Ethernet"): "roce",
    ("RNIC", "Ethernet"): "iw",
    ("usNIC", "Ethernet"): "usnic",
    ("usNIC UDP", "Ethernet"): "usnic",
}


@dataclass(frozen=True, slots=True)
class RdmaNetlinkFacts:
    """NETLINK_RDMA facts of the devices of a namespace.

    Attributes:
        devices: devices by name.
        ports: ports by device name and port number.
    """

    devices: Mapping[str, types.RdmaDevice] = field(default_factory=dict)
    ports: Mapping[tuple[str, int], types.RdmaPort] = field(default_factory=dict)


def read_netlink_facts(sysfs: Path) -> RdmaNetlinkFacts:
    """Return the netlink facts, empty if sysfs has no RDMA device.

    Args:
        sysfs: mount point of a sysfs of the calling thread's network namespace.

    Raises:
        KernelError: a dump failed.
    """
    with DirFd(sysfs / "class/infiniband") as directory:
        any_there = bool(directory.names())
    netlink = open_here() if any_there else None  # opening it may load ib_core
    if netlink is None:
        return RdmaNetlinkFacts()
    with closing(netlink):
        devices = netlink.devices("the host")
        ports = [port for device in devices for port in _netlink_ports(netlink, device)]
    return RdmaNetlinkFacts(
        {device.name: device for device in devices},
        {(port.device, port.port): port for port in ports},
    )


def reread_netlink_facts(before: RdmaNetlinkFacts, names: Collection[str]) -> RdmaNetlinkFacts:
    """Return the netlink facts, with the ports of some devices read again.

    Args:
        before: the previous facts.
        names: names of these devices.

    Raises:
        KernelError: a dump failed.
    """
    devices = [before.devices[name] for name in names if name in before.devices]
    netlink = open_here() if devices else None
    if netlink is None:
        return before
    with closing(netlink):
        ports = [port for device in devices for port in _netlink_ports(netlink, device)]
    others = {key: port for key, port in before.ports.items() if key[0] not in names}
    return RdmaNetlinkFacts(
        before.devices, others | {(port.device, port.port): port for port in ports}
    )


def reread_rdma_devices(
    sysfs: Path,
    before: Sequence[RdmaDeviceFacts],
    names: Collection[str],
    netlink_facts: RdmaNetlinkFacts,
) -> tuple[RdmaDeviceFacts, ...]:
    """Return the devices of the previous read, with some read again.

    Args:
        sysfs: mount point of sysfs.
        before: devices of the previous read.
        names: names of the devices to read; one that is gone is left out.
        netlink_facts: the latest netlink facts.
    """
    with DirFd(sysfs / "class/infiniband") as directory:
        read = (
            _device(directory, device.name, netlink_facts) if device.name in names else device
            for device in before
        )
        return tuple(device for device in read if device)


def rdma_devices(
    sysfs: Path, netlink_facts: RdmaNetlinkFacts | None = None
) -> tuple[RdmaDeviceFacts, ...]:
    """Return the RDMA devices of the sysfs's network namespace, sorted by name.

    Args:
        sysfs: mount point of sysfs.
        netlink_facts: the latest netlink facts, None without.
    """
    with DirFd(sysfs / "class/infiniband") as directory:
        read = (
            _device(directory, name, netlink_facts or RdmaNetlinkFacts())
            for name in directory.names()
        )
        return tuple(device for device in read if device)


def are_all_visible(sysfs: Path) -> bool:
    """Whether no RDMA device is in another network namespace.

    True in shared mode, and without RDMA in the kernel. `rdma system` sets the value of the
    module's parameter (drivers/infiniband/core/device.c).

    Args:
        sysfs: mount point of sysfs.
    """
    with DirFd(sysfs / "module/ib_core") as directory:
        return not directory.names() or directory.text("parameters/netns_mode") == "Y"


def _netlink_ports(netlink: RdmaSocket, device: types.RdmaDevice) -> tuple[types.RdmaPort, ...]:
    try:
        return netlink.ports(f"dump the ports of {device.name}", device.index)
    except KernelError as error:
        if error.code != ENODEV:
            raise
        return ()  # it is gone


def _device(directory: DirFd, name: str, netlink_facts: RdmaNetlinkFacts) -> RdmaDeviceFacts | None:
    path = directory.target(name)
    device = directory.target(f"{name}/device")
    has_netdev = bool(device) and bool(directory.names(f"{name}/device/net"))
    numbers = sorted(
        int(port) for port in directory.names(f"{name}/ports") if _PORT.fullmatch(port)
    )
    ports = tuple(
        _port(
            directory,
            name,
            number,
            _netdevs(directory, name, number, netlink_facts, alone=not has_netdev),
        )
        for number in numbers
    )
    node_type = _numbered_word(directory.text(f"{name}/node_type"))
    netlink_device = netlink_facts.devices.get(name)
    found = RdmaDeviceFacts(
        name=name,
        bus=directory.target(f"{name}/device/subsystem").rpartition("/")[2],
        parent=device.rpartition("/")[2],
        pci=nearest_pci(path),
        node_type=node_type,
        node_guid=_matching(_GUID, directory.text(f"{name}/node_guid")),
        ports=ports,
        sys_image_guid=_matching(_GUID, directory.text(f"{name}/sys_image_guid")),
        fw_version=_matching(_WORDS, directory.text(f"{name}/fw_ver")),
        protocol=netlink_device.protocol if netlink_device else _protocol(node_type, ports),
        index=netlink_device.index if netlink_device else None,
        part_of=netlink_device.parent if netlink_device else "",
    )
    return found if path and directory.target(name) == path else None


def _protocol(node_type: str, ports: tuple[RdmaPortFacts, ...]) -> str:
    """Return the protocol in the kernel's spelling; OPA is distinguished from ib."""
    return _PROTOCOLS.get((node_type, ports[0].link_layer), "") if ports else ""


def _port(directory: DirFd, name: str, number: int, netdevs: tuple[str, ...]) -> RdmaPortFacts:
    port = f"{name}/ports/{number}"
    rate = _matching(_WORDS, directory.text(f"{port}/rate"))
    layer = _matching(_WORDS, directory.text(f"{port}/link_layer"))
    infiniband = layer == "InfiniBand"
    gid = _GID.fullmatch(directory.text(f"{port}/gids/0")) if infiniband else None
    return RdmaPortFacts(
        number=number,
        state=_numbered_word(directory.text(f"{port}/state")),
        rate=rate,
        link_layer=layer,
        netdevs=netdevs,
        phys_state=_numbered_word(directory.text(f"{port}/phys_state")),
        rate_gbps=int(found[1]) if (found := _RATE.fullmatch(rate)) else 0,
        lid=_hex(directory.text(f"{port}/lid")) if infiniband else 0,
        sm_lid=_hex(directory.text(f"{port}/sm_lid")) if infiniband else 0,
        subnet_prefix=gid[1] if gid else "",
        guid=gid[2] if gid else "",
        pkeys=tuple(_pkeys(directory, port)) if infiniband else (),
    )


def _pkeys(directory: DirFd, port: str) -> Iterator[int]:
    """Yield the partition keys in the order of the table, without empty ones."""
    numbers = sorted(
        int(entry) for entry in directory.names(f"{port}/pkeys") if _NUMBER.fullmatch(entry)
    )
    empty = 0
    for number in numbers:
        pkey = _hex(directory.text(f"{port}/pkeys/{number}"))
        empty = 0 if pkey else empty + 1
        if empty == _EMPTY_PKEYS:
            return
        if 0 < pkey <= _MAX_PKEY:
            yield pkey


def _netdevs(
    directory: DirFd, name: str, number: int, netlink_facts: RdmaNetlinkFacts, *, alone: bool
) -> tuple[str, ...]:
    """Return the names of the port's net devices.

    GIDs, often hundreds, are read only if no other fact suffices.
    """
    netlink_port = netlink_facts.ports.get((name, number))
    if netlink_port:
        return (netlink_port.netdev,) if netlink_port.netdev else ()
    port = f"{name}/ports/{number}"
    if not alone or directory.text(f"{port}/link_layer") != "Ethernet":
        return ()
    return tuple(sorted(set(_gid_netdevs(directory, port))))


def _gid_netdevs(directory: DirFd, port: str) -> Iterator[str]:
    path = f"{port}/gid_attrs/ndevs"
    for entry in directory.names(path):
        name = directory.text(f"{path}/{entry}")
        if name:
            yield name


def _numbered_word(text: str) -> str:
    """Return "ACTIVE" of "4: ACTIVE"."""
    found = _NUMBERED_WORD.fullmatch(text)
    return found[1] if found else ""


def _matching(pattern: re.Pattern[str], text: str) -> str:
    return text if pattern.fullmatch(text) else ""


def _hex(text: str) -> int:
    return int(text, 16) if _HEX.fullmatch(text) else 0
