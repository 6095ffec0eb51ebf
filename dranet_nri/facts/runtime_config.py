"""NRI and CDI settings in the configuration files of containerd and CRI-O.

Imported files are not read, so the values found here may be overridden.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTAINERD: Final = Path("/etc/containerd/config.toml")
CRIO: Final = Path("/etc/crio")  # crio.conf, then crio.conf.d in the order of its names

_CRI_PLUGINS: Final = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
_NRI_PLUGIN: Final = "io.containerd.nri.v1.nri"


@dataclass(frozen=True, slots=True)
class ContainerdFile:
    """Settings in containerd's configuration file.

    Attributes:
        version: version of the file's format; 3 is containerd 2.
        cdi, nri: whether they are enabled, None if not set.
        nri_socket: path of the NRI socket, "" if not set.
        cdi_dirs: directories of CDI specs, None if not set.
        error: why the file cannot be used, "" if it can.
    """

    version: int = 0
    cdi: bool | None = None
    nri: bool | None = None
    nri_socket: str = ""
    cdi_dirs: tuple[str, ...] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class CrioFiles:
    """Settings in CRI-O's configuration files.

    Attributes:
        nri: whether NRI is enabled, None if not set.
        cdi_dirs: directories of CDI specs, None if not set.
        error: why a file cannot be used, "" if all can.
    """

    nri: bool | None = None
    cdi_dirs: tuple[str, ...] | None = None
    error: str = ""


def containerd_file(path: Path) -> ContainerdFile | None:
    """Return the settings of the file, None without a file."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return ContainerdFile(error=str(error))
    version = document.get("version")
    sections = [_plugin(document, name) for name in _CRI_PLUGINS]
    cri = [_flag(section, "enable_cdi") for section in sections]
    dirs = [_texts(section, "cdi_spec_dirs") for section in sections]
    socket = _plugin(document, _NRI_PLUGIN).get("socket_path")
    return ContainerdFile(
        version=version if isinstance(version, int) else 0,
        cdi=next((cdi for cdi in cri if cdi is not None), None),
        nri=_nri_of(document),
        nri_socket=socket if isinstance(socket, str) else "",
        cdi_dirs=next((found for found in dirs if found is not None), None),
    )


def crio_files(directory: Path) -> CrioFiles | None:
    """Return the merged settings of the files, the last one wins; None without files."""
    found: CrioFiles | None = None
    try:
        for path in _crio_paths(directory):
            found = found or CrioFiles()
            crio = _section(tomllib.loads(path.read_text("utf-8")).get("crio"))
            nri = _flag(_section(crio.get("nri")), "enable_nri")
            dirs = _texts(_section(crio.get("runtime")), "cdi_spec_dirs")
            found = CrioFiles(
                nri=found.nri if nri is None else nri,
                cdi_dirs=found.cdi_dirs if dirs is None else dirs,
            )
    except (OSError, ValueError) as error:
        return CrioFiles(error=str(error))
    return found


def _crio_paths(directory: Path) -> Iterator[Path]:
    main, more = directory / "crio.conf", directory / "crio.conf.d"
    if main.exists():
        yield main
    if more.is_dir():
        yield from sorted(path for path in more.iterdir() if path.is_file())


def _nri_of(document: Mapping[str, object]) -> bool | None:
    off = document.get("disabled_plugins")
    if isinstance(off, list) and _NRI_PLUGIN in off:
        return False
    disabled = _flag(_plugin(document, _NRI_PLUGIN), "disable")
    return None if disabled is None else not disabled


def _plugin(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    return _section(_section(document.get("plugins")).get(name))


def _section(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _flag(section: Mapping[str, object], name: str) -> bool | None:
    value = section.get(name)
    return value if isinstance(value, bool) else None


def _texts(section: Mapping[str, object], name: str) -> tuple[str, ...] | None:
    value = section.get(name)
    return (
        tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else None
    )
