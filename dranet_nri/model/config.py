"""A claim's opaque parameters (NetworkConfig), validated."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dranet_nri.model.addressing import Addressing
from dranet_nri.model.child import ChildConfig, IpoibConfig, IpvlanConfig, MacvlanConfig, VlanConfig
from dranet_nri.model.ethtool import EthtoolConfig

_FIRST_TABLE: Final = 1000
_TABLES: Final = 1000
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


class AddressMode(StrEnum):
    """How IPv6 link-local addresses are made."""

    EUI64 = "eui64"
    NONE = "none"
    RANDOM = "random"

    @property
    def number(self) -> int:
        """Return the number in the kernel: IN6_ADDR_GEN_MODE_*, linux/if_link.h."""
        return {AddressMode.EUI64: 0, AddressMode.NONE: 1, AddressMode.RANDOM: 3}[self]


@dataclass(frozen=True, slots=True)
class VrfConfig:
    """`vrf` of an interface.

    Attributes:
        table: routing table of the VRF, 1 or more.
    """

    name: str
    table: int


def table_of(name: str) -> int:
    """Return the routing table derived from a name: 32-bit FNV-1a, mapped to 1000 to 1999.

    dranet derives the same numbers.
    """
    value = _FNV_OFFSET
    for byte in name.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value % _TABLES + _FIRST_TABLE


class CharKind(StrEnum):
    """A kind of character device file of RDMA devices."""

    UVERBS = "uverbs"
    RDMA_CM = "rdma_cm"
    UMAD = "umad"
    ISSM = "issm"


@dataclass(frozen=True, slots=True)
class RdmaConfig:
    """`rdma` of NetworkConfig.

    Attributes:
        char_devices: kinds of device files for containers, () for none; None: the plugin's flag.
        name: name of the RDMA device in the pod (exclusive mode); None keeps it.
    """

    char_devices: tuple[CharKind, ...] | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class InterfaceConfig:
    """`interface` of NetworkConfig; with None the device keeps or inherits the value.

    An address may be a range ("first-last/length") until the device is allocated. At most one of
    `ipoib`, `ipvlan`, `macvlan` and `vlan` is set: the pod then gets a child of the device, which
    stays on the host. Times of router solicitation are seconds.
    """

    name: str | None = None
    addresses: tuple[str, ...] | None = None
    addressing: Addressing | None = None
    mtu: int | None = None
    hardware_addr: str | None = None
    gso_max_size: int | None = None
    gro_max_size: int | None = None
    gso_ipv4_max_size: int | None = None
    gro_ipv4_max_size: int | None = None
    arp_ignore: int | None = None
    arp_announce: int | None = None
    forwarding: bool | None = None
    disable_ebpf: bool | None = None
    tx_queue_len: int | None = None
    altnames: tuple[str, ...] | None = None
    disable_ipv6: bool | None = None
    addr_gen_mode: AddressMode | None = None
    dad_transmits: int | None = None
    accept_ra: int | None = None
    router_solicitations: int | None = None
    router_solicitation_delay: int | None = None
    router_solicitation_interval: int | None = None
    router_solicitation_max_interval: int | None = None
    vrf: VrfConfig | None = None
    ipoib: IpoibConfig | None = None
    ipvlan: IpvlanConfig | None = None
    macvlan: MacvlanConfig | None = None
    vlan: VlanConfig | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether the interface gets addresses in the pod, by DHCP or SLAAC."""
        return self.addressing in {Addressing.DHCP, Addressing.SLAAC}

    @property
    def needs_addresses(self) -> bool:
        """Whether this is an IPVLAN child without addresses, which inherits none of the host."""
        return self.ipvlan is not None and self.addresses is None and not self.is_dynamic

    @property
    def child(self) -> ChildConfig | None:
        """Return the child that the pod gets, None for the device itself."""
        return self.ipoib or self.ipvlan or self.macvlan or self.vlan


@dataclass(frozen=True, slots=True)
class RouteConfig:
    """One entry of `routes`.

    Scope 0 is universe, 253 link; table 0 is main; metric 0 is the kernel's default.
    """

    destination: str
    gateway: str = ""
    source: str = ""
    scope: int = 0
    table: int = 0
    metric: int = 0


@dataclass(frozen=True, slots=True)
class RuleConfig:
    """One entry of `rules`; priority 0 lets the kernel choose."""

    priority: int = 0
    source: str = ""
    destination: str = ""
    table: int = 0


@dataclass(frozen=True, slots=True)
class NeighbourConfig:
    """One entry of `neighbors`."""

    destination: str
    hardware_addr: str


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """A claim's opaque parameters, validated.

    Attributes:
        profile: profile whose parameters these override, "" for none; the shim resolves it.
    """

    interface: InterfaceConfig = InterfaceConfig()
    routes: tuple[RouteConfig, ...] = ()
    rules: tuple[RuleConfig, ...] = ()
    neighbors: tuple[NeighbourConfig, ...] = ()
    rdma: RdmaConfig = RdmaConfig()
    ethtool: EthtoolConfig = EthtoolConfig()
    profile: str = ""
