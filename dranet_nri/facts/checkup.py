"""What `doctor` looks at beside the inventory: the RDMA mode, files, modules, limits, settings."""

import os
import re
import resource
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dranet_nri.facts.infiniband import char_devices
from dranet_nri.facts.tree import Folder
from dranet_nri.inventory import RdmaDevice
from dranet_nri.model import RdmaMode
from dranet_nri.rdma.socket import open_here

KINDS: Final = ("uverbs", "rdma_cm", "umad")
CONTAINERD: Final = Path("/etc/containerd/config.toml")

_CRI_PLUGINS: Final = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
_RELEASE: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Places:
    """Where the host's files are."""

    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    containerd: Path = CONTAINERD


@dataclass(frozen=True, slots=True)
class ContainerdFile:
    """What containerd's configuration file says of CDI.

    Attributes:
        version: of the file's format; 3 belongs to containerd 2.
        cdi: None if it does not say.
        error: why it cannot be used, "" if it can.
    """

    version: int = 0
    cdi: bool | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found.

    Attributes:
        kernel: major and minor version, (0, 0) if not told.
        mode: None where there is no RDMA device, or no RDMA in the kernel.
        files: RDMA device -> those of KINDS that the kernel has for it.
        unlinked: paths of character devices that the kernel has and /dev has not.
        own_dev: whether that /dev is a container's own, in which the host's files don't appear.
        memlock: this process's own limit in bytes, None for none.
        modules: names of those that are loaded or built in, as /sys/module shows them.
        nvidia: NVIDIA's driver in its own words, "" if there is none.
        containerd: None where there is no configuration file.
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


def look(rdma: Sequence[RdmaDevice], places: Places) -> Checkup:
    """Return what can be seen without opening a device.

    Args:
        rdma: the RDMA devices of the calling thread's network namespace.
        places: where the host's files are.

    Raises:
        KernelError: the kernel refused to tell the RDMA mode.
    """
    found = {each.name: char_devices(each.name, KINDS, sysfs=places.sysfs) for each in rdma}
    paths = sorted({char.path for chars in found.values() for char in chars})
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    with Folder(places.sysfs / "module") as folder:
        modules = frozenset(folder.names())
    with Folder(places.proc / "driver/nvidia") as folder:
        nvidia = folder.text("version").partition("\n")[0]
    return Checkup(
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
    )


def _mounted(path: Path, proc: Path) -> str:
    """Return the kind of filesystem that is mounted there, "" for none (proc_pid_mountinfo(5))."""
    try:
        lines = (proc / "self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    mounts = [line.split(" ") for line in lines]
    kinds = [each[each.index("-") + 1] for each in mounts if "-" in each and each[4] == str(path)]
    return kinds[-1] if kinds else ""


def release(text: str) -> tuple[int, int]:
    """Return major and minor of a kernel release ("6.18.2-amd64"), (0, 0) if it is none."""
    found = _RELEASE.match(text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def containerd_file(path: Path) -> ContainerdFile | None:
    """Return what the file says of CDI, None if there is none; files it imports are not read."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return ContainerdFile(error=str(error))
    version = document.get("version")
    said = [_cdi_of(document, plugin) for plugin in _CRI_PLUGINS]
    return ContainerdFile(
        version=version if isinstance(version, int) else 0,
        cdi=next((cdi for cdi in said if cdi is not None), None),
    )


def _cdi_of(document: Mapping[str, object], plugin: str) -> bool | None:
    plugins = document.get("plugins")
    section = plugins.get(plugin) if isinstance(plugins, dict) else None
    cdi = section.get("enable_cdi") if isinstance(section, dict) else None
    return cdi if isinstance(cdi, bool) else None


def _mode() -> RdmaMode | None:
    netlink = open_here()
    if netlink is None:
        return None
    with closing(netlink):
        return netlink.system().mode
