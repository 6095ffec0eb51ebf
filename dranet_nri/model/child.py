"""Child links: created for a pod on a device that stays on the host.

Each kind is a frozen value, whose `str()` has its settings as `ip link` writes them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

TENANT_PKEY: Final = 0  # a placeholder for the key in the port's table; no partition has it


class IpoibMode(StrEnum):
    """Transport of IP over InfiniBand (IPOIB_MODE_*, linux/if_link.h)."""

    DATAGRAM = "datagram"
    CONNECTED = "connected"


# Minimum and maximum, drivers/infiniband/ulp/ipoib: IPOIB_UD_MTU of a 4096-byte InfiniBand MTU,
# IPOIB_CM_MTU, ipoib_change_mtu.
IPOIB_MTU: Final = {IpoibMode.DATAGRAM: (72, 4092), IpoibMode.CONNECTED: (68, 65520)}


class IpvlanMode(StrEnum):
    """Layer at which an IPVLAN link switches packets (IPVLAN_MODE_*, linux/if_link.h)."""

    L2 = "L2"
    L3 = "L3"
    L3S = "L3S"


class ChildFlag(StrEnum):
    """Traffic between children of one parent: direct, none, or through the external switch."""

    BRIDGE = "Bridge"
    PRIVATE = "Private"
    VEPA = "VEPA"


class VlanProtocol(StrEnum):
    """The tag of a VLAN (IEEE 802.1Q and 802.1ad)."""

    CUSTOMER = "802.1Q"
    SERVICE = "802.1ad"


@dataclass(frozen=True, slots=True)
class IpoibConfig:
    """`ipoib` of an interface of type IPoIB.

    Attributes:
        pkey: partition key with the full-membership bit (0x8000), or TENANT_PKEY; None: that of
            the parent interface.
    """

    kind: ClassVar[str] = "IPoIB"

    pkey: int | None = None
    mode: IpoibMode = IpoibMode.DATAGRAM

    def __str__(self) -> str:
        """Name the settings."""
        pkey = "" if self.pkey is None else f"pkey 0x{self.pkey:04x} "
        return f"{pkey}mode {self.mode}"


@dataclass(frozen=True, slots=True)
class IpvlanConfig:
    """`ipvlan` of an interface of type IPVLAN; all children of one parent share it."""

    kind: ClassVar[str] = "IPVLAN"

    mode: IpvlanMode = IpvlanMode.L2
    flag: ChildFlag = ChildFlag.BRIDGE

    def __str__(self) -> str:
        """Name the settings."""
        return f"mode {self.mode} {self.flag}"


@dataclass(frozen=True, slots=True)
class MacvlanConfig:
    """`macvlan` of an interface of type MACVLAN."""

    kind: ClassVar[str] = "MACVLAN"

    mode: ChildFlag = ChildFlag.BRIDGE

    def __str__(self) -> str:
        """Name the settings."""
        return f"mode {self.mode}"


@dataclass(frozen=True, slots=True)
class VlanConfig:
    """`vlan` of an interface of type VLAN.

    Attributes:
        id: 1 to 4094.
    """

    kind: ClassVar[str] = "VLAN"

    id: int
    protocol: VlanProtocol = VlanProtocol.CUSTOMER

    def __str__(self) -> str:
        """Name the settings."""
        return f"id {self.id} protocol {self.protocol}"


ChildConfig = IpoibConfig | IpvlanConfig | MacvlanConfig | VlanConfig
