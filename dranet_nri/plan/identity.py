"""Device identity: the stable facts by which a device is found again.

Rules:
1. Nobody can change a port number, nor a permanent address while the driver keeps the device, nor
   an ifindex while the link stays in a namespace. Names and other addresses can be changed.
2. Hardware that its driver creates anew appears on the host, maybe with another permanent address.
3. A fact that is unknown or was not recorded counts neither for a link nor against it.
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
    is_spare,
    spare_names,
)
from dranet_nri.plan.rdma import find_same

# Links of these kinds have their parent's address, so it does not distinguish them.
BORROWED_ADDRESS: Final = frozenset({"vlan", "ipvlan", "ipvtap", "macsec"})
_IPOIB_ADDRESS: Final = 59  # characters: flags and queue pair (4 bytes), then a GID (RFC 4391)
_PORT_GUID: Final = 23  # characters: the last 8 bytes of the GID


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """A device as it was when it was touched; as it was published until then.

    Attributes:
        index: its ifindex on the host, 0 if it was not touched.
        kind: of the link ("veth").
        macs: link-layer addresses it had or was given.
        pod_index: its ifindex in the pod, 0 if unknown.
        perm_mac: its permanent address, "" if unknown.
        port: its number below its parent, None if unknown.
        child: whether it hung on another link; None if it was not touched.
    """

    index: int
    kind: str
    macs: frozenset[str]
    pod_index: int = 0
    perm_mac: str = ""
    port: int | None = None
    child: bool | None = None

    def is_it(self, link: Link) -> bool:
        """Whether a link of the right name on the host is the virtual device and no namesake."""
        return link.kind == self.kind and (link.index == self.index or link.mac in self.macs)

    def waits_as(self, link: Link) -> bool:
        """Whether a link on the host is the virtual device, under a name that it has meanwhile.

        It returned with its address. Without one of its own its index identifies it, which the
        kernel keeps where it is free; where it is not, the name does, which contains the index.
        """
        if link.kind != self.kind or not is_spare(link.name):
            return False
        if self.macs and self.kind not in BORROWED_ADDRESS:
            return link.mac in self.macs
        named = bool(self.pod_index) and link.name in spare_names(self.pod_index)
        return named or link.index in {self.index, self.pod_index}

    def is_named(self, link: Link) -> bool:
        """Whether a link of the right name in the pod is the virtual device.

        Its name identifies it while its index there is unknown.
        """
        return link.kind == self.kind and (not self.pod_index or link.mac in self.macs)

    def is_there(self, link: Link) -> bool:
        """Whether a link in the pod is the device, whatever its name and address."""
        return bool(self.pod_index) and (link.index, link.kind) == (self.pod_index, self.kind)

    def looks_like(self, link: Link) -> bool:
        """Whether a link of any name may be the virtual device: its address is its own."""
        return (
            link.kind == self.kind and link.mac in self.macs and link.kind not in BORROWED_ADDRESS
        )

    def has_index(self, link: Link) -> bool:
        """Whether the link has an index of the device; the kernel keeps it over a move, if free."""
        return link.index in {self.index, self.pod_index} - {0}

    def may_be(self, links: Sequence[Link]) -> tuple[Link, ...]:
        """Return the links in the pod one of which may be the virtual device, by its index alone.

        The kernel keeps an index over a move. Where it is taken, any later link may be it.
        """
        if self.pod_index or all(link.index != self.index for link in links):
            return ()
        return tuple(link for link in links if link.kind == self.kind)

    def has_perm_mac(self, link: Link) -> bool:
        """Whether the link has the hardware's permanent address."""
        return bool(self.perm_mac) and link.perm_mac == self.perm_mac

    def has_mac(self, link: Link) -> bool:
        """Whether the link has an address that the hardware had or was given."""
        return link.mac in self.macs

    def has_guid(self, link: Link) -> bool:
        """Whether the link has the GUID of the InfiniBand port; the rest of an address changes."""
        guids = {_guid(mac) for mac in (*self.macs, self.perm_mac)}
        return bool({_guid(link.mac), _guid(link.perm_mac)} & guids - {""})

    def is_another_port(self, link: Link) -> bool:
        """Whether the link's number is that of another port."""
        return None not in {self.port, link.dev_port} and self.port != link.dev_port

    def is_another_in_pod(self, link: Link, name: str) -> bool:
        """Whether a link in the pod is no such hardware.

        Args:
            link: the link; below the same parent.
            name: the name that the device got in the pod.
        """
        if self.is_there(link) or self.has_perm_mac(link) or self.has_guid(link):
            return False
        named = link.name == name
        if self.perm_mac and link.perm_mac:
            # A link that was made again while the device was in the pod has the name set there.
            return bool(self.pod_index) or not named
        if self.index and not self.pod_index:
            return False
        return not (named or self.has_mac(link) or link.perm_mac in self.macs)


@dataclass(frozen=True, slots=True)
class RdmaIdentity:
    """Recorded identity of the RDMA devices of a device.

    Attributes:
        key: of the device.
        names: what they were called on the host when they were published.
        before: as they were before they left the host; empty if none is remembered.
        pod_name: what a claim calls the only one in the pod, "" if by its own name.
        host_netdev, pod_netdev: ifindex of the device's net device, 0 where it is not.
    """

    key: DeviceKey
    names: tuple[str, ...]
    before: tuple[RdmaLink, ...] = ()
    pod_name: str = ""
    host_netdev: int = 0
    pod_netdev: int = 0

    def has_left(self, device: RdmaLink) -> bool:
        """Whether the device is one of those that left the host."""
        return any(find_same(link, (device,)) for link in self.before)


def device_identity(device: AttachedDevice) -> DeviceIdentity | None:
    """Return what the device is known by; None if it is virtual and was not touched."""
    published = device.device
    if device.snapshot is None or device.home:
        return _as_published(published) if published.key.parent else None
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
    """Return what its RDMA devices are known by.

    Args:
        device: its record.
        observed: where its net device is.
    """
    here, there = observed.host, observed.pod
    return RdmaIdentity(
        device.device.key,
        device.device.rdma_devices,
        device.rdma,
        device.rdma_name,
        here.link.index if here else 0,
        there.link.index if there else 0,
    )


def _as_published(device: Device) -> DeviceIdentity:
    mac = device.attribute("dra.net/mac")
    macs = frozenset({mac.lower()} if isinstance(mac, str) else ())
    return DeviceIdentity(0, "", macs, port=device.key.port)


def _guid(mac: str) -> str:
    """Return the port's GUID in an IPoIB address, "" in any other."""
    return mac[-_PORT_GUID:] if len(mac) == _IPOIB_ADDRESS else ""


def why_unclear(device: Device, unclear: Sequence[str]) -> str:
    """Return what to say of a device that several links may be."""
    name = device.key.name
    return (
        f"device {device.name} ({name}) can't be told from others: it may be"
        f" {' or '.join(unclear)}; give the right one the name {name} on the host"
    )
