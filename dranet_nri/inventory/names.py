"""Device names, compatible with dranet's (kubernetes-sigs/dranet, pkg/names and pkg/inventory)."""

import base64
import re
from functools import lru_cache
from typing import Final

MAX_NAMES: Final = 4096  # cached: a scan requests the name of each function several times
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@lru_cache(maxsize=MAX_NAMES)
def pci_device_name(address: str) -> str:
    """Return the DRA name of a PCI function: "pci-0000-8a-00-0"."""
    return "pci-" + address.replace(":", "-").replace(".", "-")


def port_device_name(address: str, port: int) -> str:
    """Return the DRA name of a further port of a PCI function: "pci-0000-8a-00-0-p1"."""
    return f"{pci_device_name(address)}-p{port}"


def interface_device_name(name: str) -> str:
    """Return the interface's name if it is a DNS label, else "net-" and its base32 encoding."""
    if not name or _LABEL.fullmatch(name):
        return name
    return (
        "net-"
        + base64.b32encode(name.encode(errors="surrogateescape")).decode().rstrip("=").lower()
    )
