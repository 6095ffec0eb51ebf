"""Names and identifiers from outside, parsed and checked."""

import re
from typing import Final

from dranet_nri.errors import InvalidValueError

DRIVER_NAME: Final = "dra.net"
DEFAULT_FILTER: Final = (  # CEL: the devices that are published
    '!("dra.net/type" in attributes) || attributes["dra.net/type"].StringValue  != "veth"'
)
MAX_IFNAME: Final = 15  # IFNAMSIZ - 1, linux/if.h


_PCI: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Of a virtual function, a subfunction, or a physical function of another host or of this one (hpf).
# A driver may put the port before it (sfc: "p0pf0vf3"), or the part of a split port after it (nfp).
_REPRESENTOR: Final = re.compile(r"(p\d+|c\d+)?pf\d+((vf|sf|s)\d+|hpf)?")
_TEMPORARY_NAME: Final = re.compile(r"dra\d+")
_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def parse_uid(text: str) -> str:
    """Return text if it may name a record file: a Kubernetes UID or a similar plain token.

    Raises:
        InvalidValueError: it is empty, too long, or has a character that is unsafe in a path.
    """
    if not _UID.fullmatch(text):
        raise InvalidValueError(f"uid {text!r}: must be 1 to 128 of letters, digits, . _ -")
    return text


def parse_pci_address(text: str) -> str:
    """Return the PCI address in the form dddd:bb:dd.f, lower case.

    Raises:
        InvalidValueError: text is not a PCI address.
    """
    if not _PCI.fullmatch(text.lower()):
        raise InvalidValueError(f"PCI address {text!r}: must look like 0000:8a:00.0")
    return text.lower()


def is_representor(port_name: str) -> bool:
    """Whether an IFLA_PHYS_PORT_NAME is of a representor, the switch's side of another device."""
    return _REPRESENTOR.fullmatch(port_name) is not None


def is_temporary_name(name: str) -> bool:
    """Whether a name is the temporary one of a device on the host whose own name is taken."""
    return _TEMPORARY_NAME.fullmatch(name) is not None


def temporary_names(index: int) -> tuple[str, ...]:
    """Return the candidates for the temporary name, by the ifindex in the pod, in order."""
    return tuple(f"dra{index}{suffix}"[:MAX_IFNAME] for suffix in ("", *range(10)))
