"""Facts for `doctor` only: RDMA mode, device files, modules, limits, runtime settings."""

import os
import resource
import stat
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dranet_nri.facts.runtime_config import (
    CONTAINERD,
    CRIO,
    ContainerdFile,
    CrioFiles,
    containerd_file,
    crio_files,
)
from dranet_nri.inventory import RdmaDeviceFacts
from dranet_nri.linux.dirfd import DirFd
from dranet_nri.linux.rdma.chardev import in_sysfs
from dranet_nri.linux.rdma.socket import open_here
from dranet_nri.linux.release import release
from dranet_nri.model import RdmaMode
from dranet_nri.settings import NRI_SOCKET

KINDS: Final = ("uverbs", "rdma_cm", "umad")


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Paths of the host's files."""

    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    containerd: Path = CONTAINERD
    crio: Path = CRIO
    nri: Path = NRI_SOCKET


@dataclass(frozen=True, slots=True)
class HostDiagnostics:
    """Facts for `doctor`.

    Attributes:
        kernel: major and minor version, (0, 0) if unknown.
        mode: RDMA mode, None without an RDMA device, or without RDMA in the kernel.
        files: RDMA device -> kinds of character devices that the kernel has for it.
        unlinked: paths of character devices of the kernel that are missing in /dev.
        own_dev: whether this /dev is a container's own, without the host's files.
        memlock: RLIMIT_MEMLOCK of this process in bytes, None without a limit.
        modules: names of loaded or built-in modules (/sys/module).
        nvidia: version text of NVIDIA's driver, "" without one.
        containerd, crio: runtime settings, None without a configuration file.
        nri: whether the runtime's NRI socket exists, None if unknown.
    """

    kernel: tuple[int, int] = (0, 0)
    mode: RdmaMode | None = None
    files: Mapping[str, frozenset[str]] | None = None
    unlinked: tuple[str, ...] = ()
    own_dev: bool = False
    memlock: int | None = None
    modules: frozenset[str] = frozenset()
    nvidia: str = ""
    containerd: ContainerdFile | None = None
    crio: CrioFiles | None = None
    nri: bool | None = None


def read_diagnostics(rdma: Sequence[RdmaDeviceFacts], places: HostPaths) -> HostDiagnostics:
    """Return the facts, without opening a device.

    Args:
        rdma: the RDMA devices of the calling thread's network namespace.
        places: paths of the host's files.

    Raises:
        KernelError: the kernel did not return the RDMA mode.
    """
    found = {device.name: in_sysfs(places.sysfs, device.name, KINDS) for device in rdma}
    paths = sorted({char.path for chars in found.values() for char in chars})
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    with DirFd(places.sysfs / "module") as directory:
        modules = frozenset(directory.names())
    with DirFd(places.proc / "driver/nvidia") as directory:
        nvidia = directory.text("version").partition("\n")[0]
    return HostDiagnostics(
        kernel=release(os.uname().release),
        mode=_mode() if rdma else None,
        files={
            name: frozenset(Path(char.path).name.rstrip("0123456789") for char in chars)
            for name, chars in found.items()
        },
        unlinked=tuple(
            path for path in paths if not (places.dev / path.removeprefix("/dev/")).exists()
        ),
        own_dev=_mounted(places.dev, places.proc) not in {"", "devtmpfs"},
        memlock=None if limit == resource.RLIM_INFINITY else limit,
        modules=modules,
        nvidia=nvidia,
        containerd=containerd_file(places.containerd),
        crio=crio_files(places.crio),
        nri=_is_socket(places.nri),
    )


def _is_socket(path: Path) -> bool | None:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None


def _mounted(path: Path, proc: Path) -> str:
    """Return the type of the file system mounted at path, "" for none (proc_pid_mountinfo(5))."""
    try:
        lines = (proc / "self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    mounts = [line.split(" ") for line in lines]
    kinds = [
        mount[mount.index("-") + 1] for mount in mounts if "-" in mount and mount[4] == str(path)
    ]
    return kinds[-1] if kinds else ""


def _mode() -> RdmaMode | None:
    netlink = open_here()
    if netlink is None:
        return None
    with closing(netlink):
        return netlink.system().mode
