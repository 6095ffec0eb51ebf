"""Kernel network state: links, addresses, routes, rules, and the location of a device."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dranet_nri.model.ethtool import EthtoolState
from dranet_nri.model.rdma import NO_RDMA, ObservedRdma


class Ns(StrEnum):
    """The two network namespaces of a plan."""

    HOST = "host"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """Stable identity of a network device, in any namespace.

    Attributes:
        bus: the parent's bus ("pci", "virtio", "vmbus"), "" for a virtual device.
        parent: the parent device's name on that bus (IFLA_PARENT_DEV_NAME), "" if virtual.
        name: interface name on the host; identifies only a device without a bus or better facts.
        pci: PCI address of its function, "" if none.
        port: number of the port below the parent (sysfs dev_port), None if unknown or virtual.
    """

    bus: str
    parent: str
    name: str
    pci: str = ""
    port: int | None = None


# Kinds of links that the kernel deletes when their lower link leaves the namespace: they handle
# NETDEV_UNREGISTER, which a move also sends (drivers/net/vxlan, macsec.c and amt.c there).
DELETED_WITH_LOWER: Final = frozenset({"amt", "macsec", "vxlan"})
# Kinds that the kernel sets down with their lower link, the first step of a move, and up with it,
# without routes and IPv6 addresses (vlan_device_event, net/8021q/vlan.c; ipoib_stop, ulp/ipoib). A
# macvlan or ipvlan link only loses its carrier.
DOWN_WITH_LOWER: Final = {"ipoib": "an IPoIB child", "vlan": "a VLAN"}
# Kinds that refer to another link (IFLA_LINK) that is not their lower link: ends of a pair, and
# tunnels.
PEER_KINDS: Final = frozenset({"bareudp", "geneve", "gtp", "netkit", "veth", "vxcan"})
SCOPE_LINK: Final = 253  # linux/rtnetlink.h
ARPHRD_ETHER: Final = 1  # linux/if_arp.h
ARPHRD_INFINIBAND: Final = 32  # IPoIB, parents and children


@dataclass(frozen=True, slots=True)
class OffloadSizes:
    """GSO and GRO limits in bytes; None where the kernel has none (linux/if_link.h)."""

    gso: int | None = None
    gro: int | None = None
    gso_ipv4: int | None = None
    gro_ipv4: int | None = None


class XdpMode(StrEnum):
    """Hook of an XDP program: the link's driver, the kernel's stack or the hardware."""

    NATIVE = "native"
    GENERIC = "generic"
    OFFLOADED = "offloaded"


@dataclass(frozen=True, slots=True)
class XdpProgram:
    """An XDP program of a link, by its kernel id."""

    mode: XdpMode
    id: int


@dataclass(frozen=True, slots=True)
class IpoibState:
    """State of an IP-over-InfiniBand link: IFLA_IPOIB_MODE and IFLA_IPOIB_UMCAST.

    Attributes:
        connected: connected mode; False is datagram mode.
        umcast: programs join multicast groups, not the kernel.
    """

    connected: bool
    umcast: bool = False


class TcxSide(StrEnum):
    """Direction of a TCX program's packets."""

    INGRESS = "ingress"
    EGRESS = "egress"


@dataclass(frozen=True, slots=True)
class TcxProgram:
    """A TCX program of a link (Linux 6.6), by its kernel id.

    Attributes:
        link: number of the BPF link that holds it there, 0 if none does.
    """

    side: TcxSide
    id: int
    link: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """One RTM_NEWLINK as observed.

    Attributes:
        index: ifindex in the namespace of the observation.
        kind: IFLA_INFO_KIND, "" for hardware.
        arphrd: ARPHRD_* type (1 Ethernet, 32 InfiniBand, 772 loopback).
        mac: link-layer address, lower-case colon-hex, "" if none.
        up: IFF_UP, the administrative state.
        operstate: RFC 2863 state as the kernel names it ("up", "down", "unknown", …).
        master: ifindex of IFLA_MASTER, 0 if none.
        lower: ifindex of the lower link, the first of several (IFLA_LINK, or what the kind has
            instead); 0 if none or if it is in another namespace.
        bus, parent: see DeviceKey.
        perm_mac: permanent address (IFLA_PERM_ADDRESS, Linux 5.6), "" if none.
        dev_port: see DeviceKey; None if not read, as in a pod, whose sysfs is not mounted.
        flags: IFF_* bits of the administrator that a move keeps (NOARP, PROMISC, …). None, as in
            the next three: a record of an earlier version.
        group: IFLA_GROUP.
        kept: other attributes that a move keeps (broadcast address, …), the kernel's bytes in hex.
        xdp: attached XDP programs.
        ipoib: None for a link that is not IPoIB.
    """

    index: int
    name: str
    kind: str = ""
    arphrd: int = 1
    mac: str = ""
    mtu: int = 1500
    min_mtu: int = 0
    max_mtu: int = 0
    up: bool = False
    carrier: bool = False
    operstate: str = "unknown"
    master: int = 0
    lower: int = 0
    loopback: bool = False
    alias: str = ""
    altnames: tuple[str, ...] = ()
    txqlen: int = 1000
    sizes: OffloadSizes = OffloadSizes()
    bus: str = ""
    parent: str = ""
    perm_mac: str = ""
    dev_port: int | None = None
    flags: int | None = None
    group: int | None = None
    kept: str | None = None
    xdp: tuple[XdpProgram, ...] | None = None
    ipoib: IpoibState | None = None


FOREVER: Final = 0xFFFFFFFF  # INFINITY_LIFE_TIME, linux/ipv6.h


@dataclass(frozen=True, slots=True)
class Address:
    """One address of a link (RTM_NEWADDR).

    Attributes:
        cidr: address with prefix length, host bits kept ("10.0.0.5/24", "2001:db8::5/64").
        scope: 0 universe, 200 site, 253 link, 254 host (linux/rtnetlink.h).
        valid_s, preferred_s: remaining lifetimes in seconds, FOREVER for permanent ones.
        flags: IFA_F_* bits that a creator may set (noprefixroute, nodad, mngtmpaddr, …).
        proto: IFAPROT_* origin, 0 unspecified, 2 router advertisement (linux/if_addr.h).
        metric: IFA_RT_PRIORITY of the prefix route, 0 the kernel's default.
    """

    cidr: str
    scope: int = 0
    peer: str = ""
    broadcast: str = ""
    label: str = ""
    valid_s: int = FOREVER
    preferred_s: int = FOREVER
    flags: int = 0
    proto: int = 0
    metric: int = 0


@dataclass(frozen=True, slots=True)
class NextHop:
    """One nexthop of a multipath route; device "" means the route's own device."""

    gateway: str = ""
    weight: int = 1
    onlink: bool = False
    device: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """One route through a link (RTM_NEWROUTE).

    Attributes:
        destination: CIDR; "0.0.0.0/0" or "::/0" for a default route.
        scope: 0 universe, 253 link, 254 host.
        table: 254 is main, 255 local.
        metric: RTA_PRIORITY; 0 the kernel's default.
        protocol: RTPROT_* (2 kernel, 3 boot, 4 static, 9 RA, 16 DHCP).
        type: RTN_* (1 unicast).
        mtu: RTAX_MTU in bytes, 0 none.
        nexthops: those of a multipath route, else empty.
        expires_s: remaining lifetime in seconds, 0 none.
        preference: RTA_PREF of IPv6 (0 medium, 1 high, 3 low).
        tos: TOS of the packets that it matches, 0 all; IPv4 only.
        metrics: RTA_METRICS except the MTU (initcwnd, advmss, …), the kernel's bytes in hex.
        realms: RTA_FLOW.
        encap: RTA_ENCAP_TYPE and RTA_ENCAP, the kernel's bytes in hex; "" no tunnel.
    """

    destination: str
    gateway: str = ""
    source: str = ""
    scope: int = 0
    table: int = 254
    metric: int = 0
    protocol: int = 3
    type: int = 1
    mtu: int = 0
    onlink: bool = False
    nexthops: tuple[NextHop, ...] = ()
    expires_s: int = 0
    preference: int = 0
    tos: int = 0
    metrics: str = ""
    realms: int = 0
    encap: str = ""


@dataclass(frozen=True, slots=True)
class DefaultRoute:
    """A unicast default route of table main, or a part of one.

    Attributes:
        family: 4 or 6.
        links: ifindex of each nexthop.
        advertised: a router advertised it (RTPROT_RA).
        partial: its destination is a large part of all addresses, such as 0.0.0.0/1.
    """

    family: int
    metric: int
    links: tuple[int, ...]
    advertised: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class PolicyRoute:
    """A policy rule that sends packets to a table other than the common ones.

    Attributes:
        links: ifindexes of the links in the table's default routes.
        source: source prefix of the packets, "" for any.
        only_destination: the rule matches by destination only, as a route does.
        names: links in the rule's iif and oif.
        invert: the rule matches all other packets.
    """

    table: int
    links: frozenset[int]
    source: str = ""
    only_destination: bool = False
    names: tuple[str, ...] = ()
    invert: bool = False


def best_links(routes: Sequence[DefaultRoute]) -> frozenset[int]:
    """Return the ifindexes of all nexthops of the best default routes, of both families.

    Partial ones count as best, because longer prefixes precede lower metrics.
    """
    best: dict[int, int] = {}
    for route in routes:
        if not route.partial:
            best[route.family] = min(route.metric, best.get(route.family, route.metric))
    return frozenset(
        index
        for route in routes
        if route.partial or route.metric == best[route.family]
        for index in route.links
    )


def is_in_use(link: Link, addresses: Sequence[Address]) -> bool:
    """Whether the host uses a link: it has a master, or an address wider than link scope."""
    return bool(link.master) or any(address.scope < SCOPE_LINK for address in addresses)


@dataclass(frozen=True, slots=True)
class Rule:
    """One policy rule (RTM_NEWRULE, linux/fib_rules.h); family 4 or 6.

    The kernel evaluates low priorities first; with action 1 (to table), table 0 is main.
    """

    family: int
    priority: int = 0
    source: str = ""
    destination: str = ""
    table: int = 254
    iif: str = ""
    oif: str = ""
    fwmark: int = 0
    fwmask: int = 0
    tos: int = 0
    invert: bool = False
    action: int = 1
    protocol: int = 0


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One permanent neighbour entry (RTM_NEWNEIGH); flags NTF_ROUTER, NTF_EXT_LEARNED; RTPROT_*."""

    destination: str
    mac: str
    proxy: bool = False
    flags: int = 0
    protocol: int = 0


@dataclass(frozen=True, slots=True)
class Sysctl:
    """One per-interface sysctl: family directory ("ipv4", "ipv6"), key ("arp_ignore"), value."""

    family: str
    key: str
    value: str

    @property
    def secret(self) -> bool:
        """Whether the value must not be logged: IPv6 addresses derive from it (RFC 7217)."""
        return self.key == "stable_secret"


@dataclass(frozen=True, slots=True)
class LinkState:
    """State of one device in one namespace, as plans compare it.

    A snapshot of the host is the source of both inheritance and restore. `rules` are the rules of
    the namespace for this device: by iif/oif, or by a table that its routes use. `ethtool` is None
    if not read, and before Linux 5.7. `unrestorable` describes routes that cannot be restored
    exactly; they are not in `routes`. `tcx` are its TCX programs; None if not read, as in a pod,
    or not permitted.
    """

    link: Link
    master_name: str = ""
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    sysctls: tuple[Sysctl, ...] = ()
    ethtool: EthtoolState | None = None
    unrestorable: tuple[str, ...] = ()
    tcx: tuple[TcxProgram, ...] | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """Current location of one device.

    Attributes:
        host: its state in the host's namespace, None if absent.
        pod: its state in the pod's namespace, None if absent or without the namespace.
        taken_host_names, taken_pod_names: names and altnames in use there by other links.
        host_rules, pod_rules: every policy rule of the namespace.
        rdma: location of its RDMA devices.
        lost_with_rdma: names of other links on the host that leave with its RDMA device: IPoIB
            children and other ports.
        ambiguous: links that cannot be distinguished, of which one may be the device; the device
            then counts as not found, not as deleted.
        pod_rate: bandwidth limit of a child in the pod in bit/s, 0 without one.
    """

    host: LinkState | None = None
    pod: LinkState | None = None
    taken_host_names: frozenset[str] = frozenset()
    taken_pod_names: frozenset[str] = frozenset()
    host_rules: tuple[Rule, ...] = ()
    pod_rules: tuple[Rule, ...] = ()
    rdma: ObservedRdma = NO_RDMA
    lost_with_rdma: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()
    pod_rate: int = 0
