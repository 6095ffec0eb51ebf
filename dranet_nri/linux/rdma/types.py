"""NETLINK_RDMA values: devices, links, character devices and events.

Words for node types, states and GUIDs are those of sysfs (drivers/infiniband/core/sysfs.c), so that
a value from here and one from /sys/class/infiniband compare equal.
"""

from dataclasses import dataclass
from enum import StrEnum

from dranet_nri.model import RdmaMode


class CharDevKind(StrEnum):
    """Kinds of character devices, by the name that GET_CHARDEV takes."""

    UVERBS = "uverbs"
    UMAD = "umad"
    ISSM = "issm"
    RDMA_CM = "rdma_cm"

    @property
    def per_port(self) -> bool:
        """Whether each port of a device has one of its own."""
        return self in {CharDevKind.UMAD, CharDevKind.ISSM}

    @property
    def per_device(self) -> bool:
        """Whether it belongs to a device; the connection manager's serves all of them."""
        return self is not CharDevKind.RDMA_CM


class EventKind(StrEnum):
    """Kinds of enum rdma_nl_notify_event_type; the last two are this package's."""

    REGISTER = "register"
    UNREGISTER = "unregister"
    NETDEV_ATTACH = "netdev attach"
    NETDEV_DETACH = "netdev detach"
    RENAME = "rename"
    NETDEV_RENAME = "netdev rename"
    OTHER = "other"  # a newer kernel's
    LOST = "lost"  # events were dropped: look at everything anew


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """One RDMA device that the socket's namespace can see.

    Attributes:
        index: survives renames and moves, not a reload of the driver. 0 is one too.
        node_type: "CA", "RNIC", "switch", … ; "<unknown>" for a newer kernel's.
        node_guid: "0c42:a103:0065:5a1e".
        sys_image_guid: in the same form; the same for all devices of one card.
        protocol: "ib", "roce", "iw", "usnic", "opa", "" where the driver has none (EFA).
        fw_version: "" where the driver has none.
        parent: name of the RDMA device whose sub-device it is, "" if none.
    """

    index: int
    name: str
    node_type: str = ""
    node_guid: str = ""
    sys_image_guid: str = ""
    protocol: str = ""
    fw_version: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of an RDMA device.

    Attributes:
        index, device: the device's index and name.
        port: 1 and up.
        state: "ACTIVE", "DOWN", "INIT", …; phys_state: "LinkUp", "Disabled", …
        netdev_index, netdev: its net device, 0 and "" where it has none in this namespace.
        lid, sm_lid, subnet_prefix: of InfiniBand ports; 0 and "" elsewhere.
    """

    index: int
    device: str
    port: int
    state: str = ""
    phys_state: str = ""
    netdev_index: int = 0
    netdev: str = ""
    lid: int = 0
    sm_lid: int = 0
    subnet_prefix: str = ""


@dataclass(frozen=True, slots=True)
class RdmaSystem:
    """RDMA settings of the whole machine.

    Attributes:
        monitor: the kernel announces what happens to RDMA devices (Linux 6.12 and later).
    """

    mode: RdmaMode
    monitor: bool = False


@dataclass(frozen=True, slots=True)
class CharDev:
    """A character device; numbers change when the RDMA device moves.

    Attributes:
        name: below /dev/infiniband ("uverbs0").
    """

    kind: CharDevKind
    name: str
    major: int
    minor: int

    @property
    def path(self) -> str:
        """Return where udev puts it."""
        return f"/dev/infiniband/{self.name}"


@dataclass(frozen=True, slots=True)
class RdmaEvent:
    """One event.

    Attributes:
        index, device: of the RDMA device, None and "" where the event has none.
        port: 0 where it is about the whole device.
        netdev_index, netdev: of the net device, 0 and "" where none is named.
    """

    kind: EventKind
    index: int | None = None
    device: str = ""
    port: int = 0
    netdev_index: int = 0
    netdev: str = ""
