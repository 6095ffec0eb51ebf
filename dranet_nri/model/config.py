"""A claim's opaque parameters (NetworkConfig), validated."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InterfaceConfig:
    """`interface` of NetworkConfig; None means not given, so the device keeps or inherits it."""

    name: str | None = None
    addresses: tuple[str, ...] | None = None
    mtu: int | None = None
    hardware_addr: str | None = None
    gso_max_size: int | None = None
    gro_max_size: int | None = None
    gso_ipv4_max_size: int | None = None
    gro_ipv4_max_size: int | None = None
    arp_ignore: int | None = None
    arp_announce: int | None = None
    forwarding: bool | None = None


@dataclass(frozen=True, slots=True)
class RouteConfig:
    """One entry of `routes`; scope 0 universe, 253 link; table 0 is main."""

    destination: str
    gateway: str = ""
    source: str = ""
    scope: int = 0
    table: int = 0


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
    """A claim's opaque parameters, validated."""

    interface: InterfaceConfig = InterfaceConfig()
    routes: tuple[RouteConfig, ...] = ()
    rules: tuple[RuleConfig, ...] = ()
    neighbors: tuple[NeighbourConfig, ...] = ()
