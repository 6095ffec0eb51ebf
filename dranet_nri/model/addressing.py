"""Addresses that the network gives an interface: by router advertisements or a DHCP server."""

from dataclasses import dataclass
from enum import StrEnum


class Addressing(StrEnum):
    """Source of an interface's addresses, as `addressing` of a claim names it."""

    STATIC = "Static"
    DHCP = "DHCP"
    SLAAC = "SLAAC"
    UNNUMBERED = "Unnumbered"


@dataclass(frozen=True, slots=True)
class DetectedAddress:
    """One IPv6 address of a pod's link, and the state of its duplicate address detection.

    Attributes:
        cidr: address with prefix length.
        scope: 0 universe, 253 link (linux/rtnetlink.h).
        tentative: detection is not complete, so that nothing can use the address (RFC 4862).
        duplicate: another host of the link has it.
        temporary: RFC 8981.
    """

    cidr: str
    scope: int = 0
    tentative: bool = False
    duplicate: bool = False
    temporary: bool = False
