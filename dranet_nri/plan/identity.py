"""Device identity: stable facts by which a device is found again.

Rules:
1. These facts do not change: a port number; a permanent address until the driver recreates the
   device; an ifindex while the link stays in a namespace. Names and other addresses may change.
2. Hardware that its driver recreates appears on the host, maybe with another permanent address.
3. An unknown fact is neither a match nor a mismatch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dranet_nri.model import (
    AttachedDevice,
    Device,
    DeviceKey,
    Link,
    Observed,
    RdmaLink,
    is_temporary_name,
    temporary_names,
)
from dranet_nri.plan.rdma import find_same

# Links of these kinds have the address of their parent, which does not identify them.
KINDS_WITH_PARENT_MAC: Final = frozenset({"vlan", "ipvlan", "ipvtap", "macsec"})
_IPOIB_ADDRESS: Final = 59  # characters: flags and queue pair (4 bytes), then a GID (RFC 4391)
_PORT_GUID: Final = 23  # characters: the last 8 bytes of the GID


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """Recorded identity of a device, from its snapshot or, before that, its publication.

    Attributes:
        index: its ifindex on the host, 0 before the snapshot.
        kind: kind of the link ("veth").
        macs: link-layer addresses on the host and in the pod.
        pod_index: its ifindex in the pod, 0 if unknown.
        perm_mac: its permanent address, "" if unknown.
        port: its number below its parent, None if unknown.
        child: whether it had a lower link; None before the snapshot.
    """

    index: int
    kind: str
    macs: frozenset[str]
    pod_index: int = 0
    perm_mac: str = ""
    port: int | None = None
    child: bool | None = None

    def is_same(self, link: Link) -> bool:
        """Whether a link on the host with its name is the virtual device, not another one."""
        return link.kind == self.kind and (link.index == self.index or link.mac in self.macs)

    def is_under_temporary_name(self, link: Link) -> bool:
        """Whether a link on the host is the virtual device, under a temporary name.

        Its address identifies it. A link with its parent's address is identified by the ifindex,
        which the kernel keeps if it is free, or by the name, which contains the ifindex in the pod.
        """
        if link.kind != self.kind or not is_temporary_name(link.name):
            return False
        if self.macs and self.kind not in KINDS_WITH_PARENT_MAC:
            return link.mac in self.macs
        has_name = bool(self.pod_index) and link.name in temporary_names(self.pod_index)
        return has_name or link.index in {self.index, self.pod_index}

    def is_named(self, link: Link) -> bool:
        """Whether a link in the pod with its name is the virtual device.

        The name suffices while its ifindex there is unknown.
        """
        return link.kind == self.kind and (not self.pod_index or link.mac in self.macs)

    def is_at_pod_index(self, link: Link) -> bool:
        """Whether a link in the pod has the device's ifindex there."""
        return bool(self.pod_index) and (link.index, link.kind) == (self.pod_index, self.kind)

    def has_own_mac(self, link: Link) -> bool:
        """Whether a link of any name has the virtual device's own address."""
        return (
            link.kind == self.kind
            and link.mac in self.macs
            and link.kind not in KINDS_WITH_PARENT_MAC
        )

    def has_index(self, link: Link) -> bool:
        """Whether the link has a recorded ifindex of the device; a move keeps it if it is free."""
        return link.index in {self.index, self.pod_index} - {0}

    def candidates_by_index(self, links: Sequence[Link]) -> tuple[Link, ...]:
        """Return the links in the pod of which one may be the virtual device.

        A move keeps a free ifindex. If a link has it, any link of its kind may be the device.
        """
        if self.pod_index or all(link.index != self.index for link in links):
            return ()
        return tuple(link for link in links if link.kind == self.kind)

    def has_perm_mac(self, link: Link) -> bool:
        """Whether the link has the hardware's permanent address."""
        return bool(self.perm_mac) and link.perm_mac == self.perm_mac

    def has_mac(self, link: Link) -> bool:
        """Whether the link has a recorded address of the hardware."""
        return link.mac in self.macs

    def has_guid(self, link: Link) -> bool:
        """Whether the link has the InfiniBand port's GUID, the stable part of an address."""
        guids = {_guid(mac) for mac in (*self.macs, self.perm_mac)}
        return bool({_guid(link.mac), _guid(link.perm_mac)} & guids - {""})

    def is_another_port(self, link: Link) -> bool:
        """Whether the link is of another port, by its dev_port."""
        return None not in {self.port, link.dev_port} and self.port != link.dev_port

    def is_another_in_pod(self, link: Link, name: str) -> bool:
        """Whether a link in the pod is other hardware.

        Args:
            link: the link, of the same parent device.
            name: the device's name in the pod.
        """
        if self.is_at_pod_index(link) or self.has_perm_mac(link) or self.has_guid(link):
            return False
        named = link.name == name
        if self.perm_mac and link.perm_mac:
            # A link that its driver recreated while the device was in the pod has that name.
            return bool(self.pod_index) or not named
        if self.index and not self.pod_index:
            return False
        return not (named or self.has_mac(link) or link.perm_mac in self.macs)


@dataclass(frozen=True, slots=True)
class RdmaIdentity:
    """Recorded identity of the RDMA devices of a device.

    Attributes:
        key: key of the device.
        names: their published names on the host.
        before: the recorded RDMA devices before the move; empty without a record.
        pod_name: claimed name of the only one in the pod, "" to keep its own.
        host_netdev, pod_netdev: ifindex of the net device in each namespace, 0 if absent.
    """

    key: DeviceKey
    names: tuple[str, ...]
    before: tuple[RdmaLink, ...] = ()
    pod_name: str = ""
    host_netdev: int = 0
    pod_netdev: int = 0

    def has_left(self, device: RdmaLink) -> bool:
        """Whether the device is a recorded one that left the host."""
        return any(find_same(link, (device,)) for link in self.before)


def device_identity(device: AttachedDevice) -> DeviceIdentity | None:
    """Return the device's identity; None for a virtual device without a snapshot."""
    published = device.device
    if device.snapshot is None or device.restored:
        return _published_identity(published) if published.key.parent else None
    link = device.snapshot.link
    port = published.key.port
    return DeviceIdentity(
        link.index,
        link.kind,
        frozenset({link.mac, device.mac.lower()} - {""}),
        device.pod_index,
        link.perm_mac,
        link.dev_port if port is None else port,
        bool(link.lower),
    )


def rdma_identity(device: AttachedDevice, observed: Observed) -> RdmaIdentity:
    """Return the identity of its RDMA devices.

    Args:
        device: its record.
        observed: location of its net device.
    """
    host, pod = observed.host, observed.pod
    return RdmaIdentity(
        device.device.key,
        device.device.rdma_devices,
        device.rdma,
        device.rdma_name,
        host.link.index if host else 0,
        pod.link.index if pod else 0,
    )


def _published_identity(device: Device) -> DeviceIdentity:
    mac = device.attribute("dra.net/mac")
    macs = frozenset({mac.lower()} if isinstance(mac, str) else ())
    return DeviceIdentity(0, "", macs, port=device.key.port)


def _guid(mac: str) -> str:
    """Return the port's GUID in an IPoIB address, "" in any other."""
    return mac[-_PORT_GUID:] if len(mac) == _IPOIB_ADDRESS else ""


def why_ambiguous(device: Device, ambiguous: Sequence[str]) -> str:
    """Return the error text for a device for which several links are candidates."""
    name = device.key.name
    return (
        f"device {device.name} ({name}) cannot be distinguished from other links: it may be"
        f" {' or '.join(ambiguous)}; rename the right one to {name} on the host"
    )
