"""Character devices of RDMA devices, from sysfs (infiniband/core: user_mad.c, ucma.c).

Device numbers change when a device moves to another network namespace.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dranet_nri.linux.dirfd import DirFd
from dranet_nri.linux.rdma.types import CharDevKind
from dranet_nri.model import CharDevice

_DIRECTORIES: Final = {
    CharDevKind.UVERBS: "class/infiniband_verbs",
    CharDevKind.UMAD: "class/infiniband_mad",
    CharDevKind.ISSM: "class/infiniband_mad",
}
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


def in_sysfs(sysfs: Path, rdma_device: str, kinds: Sequence[str]) -> tuple[CharDevice, ...]:
    """Return the character devices of an RDMA device, sorted by path.

    Includes devices in other network namespaces. Kinds without a device are left out.

    Args:
        sysfs: mount point of sysfs.
        rdma_device: its name ("mlx5_0").
        kinds: the requested kinds.

    Raises:
        KernelError: the process can open no file now.
    """
    found = (file for kind in map(CharDevKind, kinds) for file in _files(sysfs, kind, rdma_device))
    return tuple(sorted(found, key=lambda file: file.path))


def _files(sysfs: Path, kind: CharDevKind, rdma_device: str) -> Iterator[CharDevice]:
    if not kind.per_device:
        with DirFd(sysfs / "class/misc") as directory:
            yield from _numbered(directory, kind)
        return
    with DirFd(sysfs / _DIRECTORIES[kind]) as directory:
        for name in directory.names():
            if name.startswith(kind) and directory.text(f"{name}/ibdev") == rdma_device:
                yield from _numbered(directory, name)


def _numbered(directory: DirFd, name: str) -> Iterator[CharDevice]:
    major, colon, minor = directory.text(f"{name}/dev").partition(":")
    if colon and _NUMBER.fullmatch(major) and _NUMBER.fullmatch(minor):
        yield CharDevice(f"/dev/infiniband/{name}", int(major), int(minor))
