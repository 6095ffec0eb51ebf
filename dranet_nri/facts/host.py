"""Facts of the node: boot id, node name, and names of the PCI ID database."""

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from dranet_nri.errors import InvalidValueError

PciIds = tuple[str, str]  # vendor and device id, four lower-case hex digits each
PCI_IDS: Final = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id(path: Path = _BOOT_ID) -> str:
    """Return the UUID of the running boot.

    Raises:
        InvalidValueError: the file cannot be read or is empty.
    """
    try:
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"boot id {path}: {error}") from error
    if not text:
        raise InvalidValueError(f"boot id {path}: is empty")
    return text


def node_name(override: str = "", environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of the Kubernetes node.

    The override, else $NODE_NAME, which the manifests set, else the host name in lower case.
    """
    return override or environ.get("NODE_NAME") or os.uname().nodename.lower()


@functools.lru_cache(maxsize=4)
def pci_names(
    ids: frozenset[PciIds], paths: tuple[Path, ...] = PCI_IDS
) -> Mapping[PciIds, tuple[str, str]]:
    """Return (vendor id, device id) -> names, "unknown" for an unlisted device.

    The database has some 40 000 lines, so it is read once per set of ids. Ids of unlisted vendors
    are absent, and so are all without a database.

    Args:
        ids: ids to look up.
        paths: candidates for the database; the first readable one is used.
    """
    for path in paths:
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                return dict(_lookup(ids, lines))
        except OSError:
            continue
    return {}


def _lookup(
    ids: frozenset[PciIds], lines: Iterator[str]
) -> Iterator[tuple[PciIds, tuple[str, str]]]:
    """Yield the names of wanted ids; a vendor starts a line, its devices follow a tab."""
    devices: dict[str, set[str]] = {}
    for vendor, device in ids:
        devices.setdefault(vendor, set()).add(device)
    vendor, vendor_name = "", ""
    for line in lines:
        if line.startswith("C "):
            return  # device classes follow
        if line[0] not in "\t#\n":
            vendor, vendor_name = line[:4], line[4:].strip()
            for device in devices.get(vendor, ()):
                yield (vendor, device), (vendor_name, "unknown")
        elif line[0] == "\t" and line[1:2] != "\t" and line[1:5] in devices.get(vendor, ()):
            yield (vendor, line[1:5]), (vendor_name, line[5:].strip())
