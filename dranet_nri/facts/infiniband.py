"""RDMA devices and their character devices (Documentation/ABI/stable/sysfs-class-infiniband)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dranet_nri.facts.sysfs import SYSFS, nearest_pci
from dranet_nri.facts.tree import Folder
from dranet_nri.inventory import RdmaDevice, RdmaPort
from dranet_nri.model import CharDevice

DEFAULT_KINDS: Final = ("uverbs", "rdma_cm")

_FOLDERS: Final = {
    "uverbs": "class/infiniband_verbs",
    "umad": "class/infiniband_mad",
    "issm": "class/infiniband_mad",
}
_CONNECTION_MANAGER: Final = "rdma_cm"


def rdma_devices(sysfs: Path) -> tuple[RdmaDevice, ...]:
    """Return the RDMA devices of the namespace whose sysfs this is, sorted by name.

    Args:
        sysfs: where sysfs is mounted.
    """
    with Folder(sysfs / "class/infiniband") as folder:
        return tuple(_device(folder, name) for name in folder.names())


def char_devices(
    rdma_device: str, kinds: Sequence[str] = DEFAULT_KINDS, *, sysfs: Path = SYSFS
) -> tuple[CharDevice, ...]:
    """Return the character devices a container needs for the RDMA device, sorted by path.

    Numbers change when the device moves to another namespace: resolve after every move. Kinds
    that are not there are left out; missing_kinds names them.

    Args:
        rdma_device: its name ("mlx5_0").
        kinds: of "uverbs", "rdma_cm", "umad", "issm".
        sysfs: where sysfs is mounted.
    """
    found = (file for kind in kinds for file in _files(sysfs, kind, rdma_device))
    return tuple(sorted(found, key=lambda file: file.path))


def missing_kinds(found: Sequence[CharDevice], kinds: Sequence[str]) -> tuple[str, ...]:
    """Return which of the kinds have no file among those found."""
    names = [file.path.rpartition("/")[2].rstrip("0123456789") for file in found]
    return tuple(kind for kind in kinds if kind not in names)


def _device(folder: Folder, name: str) -> RdmaDevice:
    path = folder.target(name)
    device = folder.target(f"{name}/device")
    has_netdev = bool(device) and bool(folder.names(f"{name}/device/net"))
    numbers = sorted(int(port) for port in folder.names(f"{name}/ports") if port.isdigit())
    return RdmaDevice(
        name=name,
        bus=folder.target(f"{name}/device/subsystem").rpartition("/")[2],
        parent=device.rpartition("/")[2],
        pci=nearest_pci(path),
        node_type=folder.text(f"{name}/node_type").partition(": ")[2],
        node_guid=folder.text(f"{name}/node_guid"),
        ports=tuple(_port(folder, name, number, alone=not has_netdev) for number in numbers),
    )


def _port(folder: Folder, name: str, number: int, *, alone: bool) -> RdmaPort:
    """Return one port; its GIDs, often hundreds, are read only where nothing else tells."""
    port = f"{name}/ports/{number}"
    layer = folder.text(f"{port}/link_layer")
    netdevs = _gid_netdevs(folder, port) if alone and layer == "Ethernet" else ()
    return RdmaPort(
        number=number,
        state=folder.text(f"{port}/state").partition(": ")[2],
        rate=folder.text(f"{port}/rate"),
        link_layer=layer,
        netdevs=tuple(sorted(set(netdevs))),
    )


def _gid_netdevs(folder: Folder, port: str) -> Iterator[str]:
    path = f"{port}/gid_attrs/ndevs"
    for entry in folder.names(path):
        name = folder.text(f"{path}/{entry}")
        if name:
            yield name


def _files(sysfs: Path, kind: str, rdma_device: str) -> Iterator[CharDevice]:
    if kind == _CONNECTION_MANAGER:
        with Folder(sysfs / "class/misc") as folder:
            yield from _numbered(folder, kind)
        return
    with Folder(sysfs / _FOLDERS[kind]) as folder:
        for name in folder.names():
            if name.startswith(kind) and folder.text(f"{name}/ibdev") == rdma_device:
                yield from _numbered(folder, name)


def _numbered(folder: Folder, name: str) -> Iterator[CharDevice]:
    major, colon, minor = folder.text(f"{name}/dev").partition(":")
    if colon and major.isdigit() and minor.isdigit():
        yield CharDevice(f"/dev/infiniband/{name}", int(major), int(minor))
