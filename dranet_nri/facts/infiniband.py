"""RDMA devices (Documentation/ABI/stable/sysfs-class-infiniband).

Rules:
1. Every fact that sysfs has is read from it, so that a device reads the same with and without
   NETLINK_RDMA. Netlink adds only index, protocol, sub-devices and the net device of a port.
2. A device that disappears while it is read is left out whole. A fact that a driver does not show
   is empty.
3. Words are accepted only in the form that the kernel gives them.
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
_EMPTY_PKEYS: Final = 8  # in a row end the reading: each may cost a firmware command, of 128
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
        devices: by name.
        ports: by name and number.
    """

    devices: Mapping[str, types.RdmaDevice] = field(default_factory=dict)
    ports: Mapping[tuple[str, int], types.RdmaPort] = field(default_factory=dict)


def read_netlink_facts(sysfs: Path) -> RdmaNetlinkFacts:
    """Return the netlink facts, empty where sysfs shows no RDMA device.

    Args:
        sysfs: where a sysfs of the calling thread's network namespace is mounted.

    Raises:
        KernelError: a dump failed.
    """
    with DirFd(sysfs / "class/infiniband") as folder:
        any_there = bool(folder.names())
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
        names: of those devices.

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
    sysfs: Path, before: Sequence[RdmaDeviceFacts], names: Collection[str], told: RdmaNetlinkFacts
) -> tuple[RdmaDeviceFacts, ...]:
    """Return devices as they were read last, some of them read again.

    Args:
        sysfs: where sysfs is mounted.
        before: what was read last.
        names: of those to be read; one that is gone is left out.
        told: the latest netlink facts.
    """
    with DirFd(sysfs / "class/infiniband") as folder:
        read = (
            _device(folder, known.name, told) if known.name in names else known for known in before
        )
        return tuple(device for device in read if device)


def rdma_devices(sysfs: Path, told: RdmaNetlinkFacts | None = None) -> tuple[RdmaDeviceFacts, ...]:
    """Return the RDMA devices of the namespace whose sysfs this is, sorted by name.

    Args:
        sysfs: where sysfs is mounted.
        told: the latest netlink facts, None if there are none.
    """
    with DirFd(sysfs / "class/infiniband") as folder:
        read = (_device(folder, name, told or RdmaNetlinkFacts()) for name in folder.names())
        return tuple(device for device in read if device)


def are_all_visible(sysfs: Path) -> bool:
    """Whether no RDMA device is out of sight, in another network namespace.

    So it is where the namespaces share them, and where the kernel has none. `rdma system` sets
    what the module's parameter shows (drivers/infiniband/core/device.c).

    Args:
        sysfs: where sysfs is mounted.
    """
    with DirFd(sysfs / "module/ib_core") as folder:
        return not folder.names() or folder.text("parameters/netns_mode") == "Y"


def _netlink_ports(netlink: RdmaSocket, device: types.RdmaDevice) -> tuple[types.RdmaPort, ...]:
    try:
        return netlink.ports(f"dump the ports of {device.name}", device.index)
    except KernelError as error:
        if error.code != ENODEV:
            raise
        return ()  # it went since


def _device(folder: DirFd, name: str, told: RdmaNetlinkFacts) -> RdmaDeviceFacts | None:
    path = folder.target(name)
    device = folder.target(f"{name}/device")
    has_netdev = bool(device) and bool(folder.names(f"{name}/device/net"))
    numbers = sorted(int(port) for port in folder.names(f"{name}/ports") if _PORT.fullmatch(port))
    ports = tuple(
        _port(folder, name, number, _netdevs(folder, name, number, told, alone=not has_netdev))
        for number in numbers
    )
    node_type = _numbered_word(folder.text(f"{name}/node_type"))
    said = told.devices.get(name)
    found = RdmaDeviceFacts(
        name=name,
        bus=folder.target(f"{name}/device/subsystem").rpartition("/")[2],
        parent=device.rpartition("/")[2],
        pci=nearest_pci(path),
        node_type=node_type,
        node_guid=_matching(_GUID, folder.text(f"{name}/node_guid")),
        ports=ports,
        sys_image_guid=_matching(_GUID, folder.text(f"{name}/sys_image_guid")),
        fw_version=_matching(_WORDS, folder.text(f"{name}/fw_ver")),
        protocol=said.protocol if said else _protocol(node_type, ports),
        index=said.index if said else None,
        part_of=said.parent if said else "",
    )
    return found if path and folder.target(name) == path else None


def _protocol(node_type: str, ports: tuple[RdmaPortFacts, ...]) -> str:
    """Return the protocol as the kernel would name it (OPA, which looks like ib, apart)."""
    return _PROTOCOLS.get((node_type, ports[0].link_layer), "") if ports else ""


def _port(folder: DirFd, name: str, number: int, netdevs: tuple[str, ...]) -> RdmaPortFacts:
    port = f"{name}/ports/{number}"
    rate = _matching(_WORDS, folder.text(f"{port}/rate"))
    layer = _matching(_WORDS, folder.text(f"{port}/link_layer"))
    infiniband = layer == "InfiniBand"
    gid = _GID.fullmatch(folder.text(f"{port}/gids/0")) if infiniband else None
    return RdmaPortFacts(
        number=number,
        state=_numbered_word(folder.text(f"{port}/state")),
        rate=rate,
        link_layer=layer,
        netdevs=netdevs,
        phys_state=_numbered_word(folder.text(f"{port}/phys_state")),
        rate_gbps=int(found[1]) if (found := _RATE.fullmatch(rate)) else 0,
        lid=_hex(folder.text(f"{port}/lid")) if infiniband else 0,
        sm_lid=_hex(folder.text(f"{port}/sm_lid")) if infiniband else 0,
        subnet_prefix=gid[1] if gid else "",
        guid=gid[2] if gid else "",
        pkeys=tuple(_pkeys(folder, port)) if infiniband else (),
    )


def _pkeys(folder: DirFd, port: str) -> Iterator[int]:
    """Yield the partition keys in the order of the table, without the empty ones."""
    numbers = sorted(
        int(entry) for entry in folder.names(f"{port}/pkeys") if _NUMBER.fullmatch(entry)
    )
    empty = 0
    for number in numbers:
        pkey = _hex(folder.text(f"{port}/pkeys/{number}"))
        empty = 0 if pkey else empty + 1
        if empty == _EMPTY_PKEYS:
            return
        if 0 < pkey <= _MAX_PKEY:
            yield pkey


def _netdevs(
    folder: DirFd, name: str, number: int, told: RdmaNetlinkFacts, *, alone: bool
) -> tuple[str, ...]:
    """Return the names of the port's net devices.

    GIDs, often hundreds, are read only where no other fact is enough.
    """
    said = told.ports.get((name, number))
    if said:
        return (said.netdev,) if said.netdev else ()
    port = f"{name}/ports/{number}"
    if not alone or folder.text(f"{port}/link_layer") != "Ethernet":
        return ()
    return tuple(sorted(set(_gid_netdevs(folder, port))))


def _gid_netdevs(folder: DirFd, port: str) -> Iterator[str]:
    path = f"{port}/gid_attrs/ndevs"
    for entry in folder.names(path):
        name = folder.text(f"{path}/{entry}")
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
