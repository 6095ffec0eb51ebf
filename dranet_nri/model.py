"""Frozen values that cross rooms.

Rules:
1. A value from outside becomes one of these at the door, or an InvalidValueError.
2. A device is known by what is stable (`DeviceKey`); names and indexes are observations.
3. No value here touches the world.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dranet_nri.errors import InvalidValueError

DRIVER_NAME: Final = "dra.net"
MAX_IFNAME: Final = 15  # IFNAMSIZ - 1, linux/if.h

_PCI: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def parse_uid(text: str) -> str:
    """Return text if it may name a record file: a Kubernetes UID or a similar plain token.

    Raises:
        InvalidValueError: it is empty, too long, or holds a character that a path could abuse.
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


# --------------------------------------------------------------------------- the kernel's view


class Ns(StrEnum):
    """The two network namespaces a plan speaks of."""

    HOST = "host"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """What a network device is known by, wherever it is.

    Attributes:
        bus: the parent's bus ("pci", "virtio", "vmbus"), "" for a virtual device.
        parent: the parent device's name on that bus (IFLA_PARENT_DEV_NAME), "" if virtual.
        name: the host's name for it; decides only where bus is "" or several share a parent.
        pci: PCI address of the function below which it sits, "" if none.
    """

    bus: str
    parent: str
    name: str
    pci: str = ""


@dataclass(frozen=True, slots=True)
class OffloadSizes:
    """GSO and GRO limits in bytes; None where the kernel does not tell (linux/if_link.h)."""

    gso: int | None = None
    gro: int | None = None
    gso_ipv4: int | None = None
    gro_ipv4: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One RTM_NEWLINK as observed.

    Attributes:
        index: ifindex in the namespace where it was seen.
        kind: IFLA_INFO_KIND, "" for hardware.
        arphrd: ARPHRD_* type (1 Ethernet, 32 InfiniBand, 772 loopback).
        mac: link-layer address, lower-case colon-hex, "" if none.
        up: IFF_UP, the administrative state.
        operstate: RFC 2863 state as the kernel names it ("up", "down", "unknown", …).
        master: ifindex of IFLA_MASTER, 0 if none.
        lower: ifindex of IFLA_LINK, 0 if none or if it is in another namespace.
        bus, parent: see DeviceKey.
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
    """One leg of a multipath route; device "" means the route's own device."""

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
        nexthops: legs of a multipath route; empty for an ordinary one.
        expires_s: remaining lifetime in seconds, 0 none.
        preference: RTA_PREF of IPv6 (0 medium, 1 high, 3 low).
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


@dataclass(frozen=True, slots=True)
class Rule:
    """One policy rule (RTM_NEWRULE, linux/fib_rules.h); family 4 or 6.

    priority 0 lets the kernel choose; table 0 is main where action is 1 (to table).
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
    """One permanent neighbour entry (RTM_NEWNEIGH, NUD_PERMANENT)."""

    destination: str
    mac: str
    proxy: bool = False


@dataclass(frozen=True, slots=True)
class Sysctl:
    """One per-interface sysctl: family directory ("ipv4", "ipv6"), key ("arp_ignore"), value."""

    family: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class LinkState:
    """Everything of one device in one namespace that a plan compares.

    As a snapshot of the host it serves both inheritance and restoration. `rules` are those of
    the namespace that belong to this device: by iif/oif, or by a table its routes use.
    """

    link: Link
    master_name: str = ""
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    sysctls: tuple[Sysctl, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """Where one device is now.

    Attributes:
        host: its state in the host's namespace, None if it is not there.
        pod: its state in the pod's namespace, None if not there or there is no such namespace.
        taken_host_names, taken_pod_names: names and altnames in use there by other links.
        host_rules, pod_rules: every policy rule of the namespace.
    """

    host: LinkState | None = None
    pod: LinkState | None = None
    taken_host_names: frozenset[str] = frozenset()
    taken_pod_names: frozenset[str] = frozenset()
    host_rules: tuple[Rule, ...] = ()
    pod_rules: tuple[Rule, ...] = ()


# --------------------------------------------------------------------------- network config


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


# --------------------------------------------------------------------------- inventory


@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version attribute."""

    text: str


AttributeValue = bool | int | str | Version


@dataclass(frozen=True, slots=True)
class Device:
    """One publishable device.

    Attributes:
        name: DRA device name, a DNS label ("pci-0000-8a-00-0").
        key: how to find it in the kernel.
        attributes: (qualified name, value), sorted by name.
        rdma_devices: names of its RDMA devices ("mlx5_0"), empty if none.
    """

    name: str
    key: DeviceKey
    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    rdma_devices: tuple[str, ...] = ()

    def attribute(self, name: str) -> AttributeValue | None:
        """Return the attribute's value, or None."""
        return next((value for key, value in self.attributes if key == name), None)


# --------------------------------------------------------------------------- allocation (shim)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A namespaced Kubernetes object."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Return namespace/name, as people write it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device given to one request of the claim.

    Attributes:
        request: main request name, without "/subrequest".
        pool: pool name (the node's name).
        device: the device with the facts published at that moment.
        config: validated parameters.
        admin_access: the result only observes the device; it is not moved.
        share_id: UUID of a share of a multi-allocation device, "" if exclusive.
    """

    request: str
    pool: str
    device: Device
    config: NetworkConfig = NetworkConfig()
    admin_access: bool = False
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class ContainerClaim:
    """A container of the pod lists the claim; request "" means the whole claim."""

    container: str
    request: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What the shim records for one claim (allocations/<claim uid>.json).

    Attributes:
        pod: the one pod that may use the claim.
        pod_claim_name: name of the claim in a template pod's spec, "" for a direct claim.
        containers: which containers list it; empty: none does, so every container gets it.
        nonce: random part of the CDI ids, stable over repeated Prepares.
        boot_id: of the boot in which it was recorded.
    """

    claim: ObjectRef
    pod: ObjectRef
    devices: tuple[AllocatedDevice, ...]
    nonce: str
    boot_id: str
    pod_claim_name: str = ""
    containers: tuple[ContainerClaim, ...] = ()


# --------------------------------------------------------------------------- attachment (plugin)


class Phase(StrEnum):
    """How far a claim's devices are."""

    INTENT = "intent"  # a plan was written, its result was not
    ATTACHED = "attached"  # all devices are in the pod, fully configured
    FAILED = "failed"  # undone; `failure` says why
    DETACHING = "detaching"  # the sandbox is gone, devices are on their way home
    HOME = "home"  # all devices are back and restored; the claim is still prepared


@dataclass(frozen=True, slots=True)
class NetnsId:
    """A network namespace: the path the runtime gave, and the inode that is its identity."""

    path: str
    dev: int
    inode: int


@dataclass(frozen=True, slots=True)
class CharDevice:
    """A character device file of an RDMA device, as containers get it.

    uid, gid and mode are None where the runtime's default serves.
    """

    path: str
    major: int
    minor: int
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True)
class AttachedDevice:
    """One device of an attachment.

    Attributes:
        snapshot: state on the host before we touched it; None until taken.
        snapshot_s: when it was taken, seconds of CLOCK_BOOTTIME.
        pod_name: interface name in the pod, "" for a device without a netdev.
        mac, addresses: as they are in the pod, after success.
        char_devices: files of its RDMA devices, resolved after the move.
        home: verified back on the host and restored.
    """

    request: str
    device: Device
    snapshot: LinkState | None = None
    snapshot_s: int = 0
    pod_name: str = ""
    mac: str = ""
    mtu: int = 0
    addresses: tuple[str, ...] = ()
    char_devices: tuple[CharDevice, ...] = ()
    home: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the last try failed.

    Attributes:
        reason: CamelCase word for events and conditions ("NetworkDeviceAttachFailed").
        message: one line: which device, why, what to do.
        time: Unix seconds.
        count: tries that failed for this pod.
    """

    reason: str
    message: str
    time: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Attachment:
    """What the plugin records for one claim (attachments/<claim uid>.json)."""

    claim: ObjectRef
    pod: ObjectRef
    sandbox_id: str
    netns: NetnsId
    phase: Phase
    devices: tuple[AttachedDevice, ...]
    attempt: int = 1
    failure: Failure | None = None


# --------------------------------------------------------------------------- what NRI tells


@dataclass(frozen=True, slots=True)
class Pod:
    """A sandbox as the runtime describes it (NRI PodSandbox).

    netns_path is "" where the runtime names no network namespace: host network, VM runtimes,
    or a stop on containerd 1.7 and 2.0.
    """

    sandbox_id: str
    uid: str
    namespace: str
    name: str
    netns_path: str = ""
    pid: int = 0

    def __str__(self) -> str:
        """Return namespace/name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount of a container: source on the host, destination inside."""

    source: str
    destination: str
    options: tuple[str, ...] = ()
    type: str = "bind"


@dataclass(frozen=True, slots=True)
class Container:
    """A container as NRI shows it at CreateContainer or Synchronize."""

    id: str
    sandbox_id: str
    name: str
    mounts: tuple[Mount, ...] = ()
    device_paths: tuple[str, ...] = ()
    env: tuple[str, ...] = ()  # "NAME=value"
    rlimits: tuple[str, ...] = ()  # types present, "RLIMIT_MEMLOCK"


@dataclass(frozen=True, slots=True)
class Rlimit:
    """A POSIX resource limit; RLIM_INFINITY is 2**64 - 1."""

    type: str
    hard: int
    soft: int


@dataclass(frozen=True, slots=True)
class Edits:
    """What one container gets, before it is encoded as CDI or as an NRI adjustment."""

    mounts: tuple[Mount, ...] = ()
    char_devices: tuple[CharDevice, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    rlimits: tuple[Rlimit, ...] = ()
