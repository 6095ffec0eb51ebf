"""NETLINK_RDMA values: devices, ports, character devices and events.

GUIDs have the form of sysfs (drivers/infiniband/core/sysfs.c), so that they compare equal with
values from /sys/class/infiniband.
"""

from dataclasses import dataclass
from enum import StrEnum

from dranet_nri.model import RdmaMode


class CharDevKind(StrEnum):
    """Kinds of character devices, by their name in GET_CHARDEV."""

    UVERBS = "uverbs"
    UMAD = "umad"
    ISSM = "issm"
    RDMA_CM = "rdma_cm"

    @property
    def per_port(self) -> bool:
        """Whether each port of a device has its own."""
        return self in {CharDevKind.UMAD, CharDevKind.ISSM}

    @property
    def per_device(self) -> bool:
        """Whether it belongs to a device; rdma_cm serves all devices."""
        return self is not CharDevKind.RDMA_CM


class RdmaEvent(StrEnum):
    """Events of enum rdma_nl_notify_event_type; the last two are defined here."""

    REGISTER = "register"
    UNREGISTER = "unregister"
    NETDEV_ATTACH = "netdev attach"
    NETDEV_DETACH = "netdev detach"
    RENAME = "rename"
    NETDEV_RENAME = "netdev rename"
    OTHER = "other"  # of a newer kernel
    LOST = "lost"  # events were dropped: read everything again


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """One RDMA device of the socket's namespace.

    Attributes:
        index: survives renames and moves, not a reload of the driver; may be 0.
        node_guid: "0c42:a103:0065:5a1e".
        protocol: "ib", "roce", "iw", "usnic", "opa", "" if the driver has none (EFA).
        parent: name of the RDMA device of a sub-device, else "".
    """

    index: int
    name: str
    node_guid: str = ""
    protocol: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of an RDMA device.

    Attributes:
        index, device: the device's index and name.
        port: port number, 1 or more.
        netdev_index, netdev: its net device, 0 and "" without one in this namespace.
    """

    index: int
    device: str
    port: int
    netdev_index: int = 0
    netdev: str = ""


@dataclass(frozen=True, slots=True)
class RdmaSystem:
    """RDMA settings of the whole machine.

    Attributes:
        monitor: the kernel sends RDMA device events (since Linux 6.12).
    """

    mode: RdmaMode
    monitor: bool = False


@dataclass(frozen=True, slots=True)
class CharDev:
    """A character device; numbers change when the RDMA device moves.

    Attributes:
        name: file name in /dev/infiniband ("uverbs0").
    """

    kind: CharDevKind
    name: str
    major: int
    minor: int

    @property
    def path(self) -> str:
        """Return its path, as created by udev."""
        return f"/dev/infiniband/{self.name}"
