"""Kernel RDMA state: RDMA devices, and their location."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class RdmaMode(StrEnum):
    """Scope of RDMA devices: one network namespace or all (rdma_netlink.h)."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True)
class RdmaLink:
    """One RDMA device as observed.

    Attributes:
        index: RDMA_NLDEV_ATTR_DEV_INDEX; survives renames and moves, not a driver's reload.
        name: name in the namespace of the observation.
        node_guid: such as "0c42:a103:0065:5a1e", "" if the driver has none.
    """

    index: int
    name: str
    node_guid: str = ""


@dataclass(frozen=True, slots=True)
class ObservedRdma:
    """Current location of the RDMA devices of one device.

    Attributes:
        mode: None if the kernel has no RDMA.
        host: those on the host. In shared mode every namespace shows all; they count as on the
            host only.
        pod: those in the pod's namespace.
        taken_host_names, taken_pod_names: names of other RDMA devices there.
        sub_devices: names of sub-devices of those on the host (`rdma dev add … parent`).
        software: names of those on the host without hardware (soft-RoCE, siw).
    """

    mode: RdmaMode | None = None
    host: tuple[RdmaLink, ...] = ()
    pod: tuple[RdmaLink, ...] = ()
    taken_host_names: frozenset[str] = frozenset()
    taken_pod_names: frozenset[str] = frozenset()
    sub_devices: tuple[str, ...] = ()
    software: tuple[str, ...] = ()


NO_RDMA: Final = ObservedRdma()
