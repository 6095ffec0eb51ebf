"""Frozen values that cross rooms.

Rules:
1. A value from outside becomes one of these at the door, or an InvalidValueError.
2. A device is known by what is stable (`DeviceKey`); names and indexes are observations.
3. No value here touches the world.
"""

from dranet_nri.model.claim import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    AttributeValue,
    CharDevice,
    ContainerClaim,
    Device,
    Failure,
    NetnsId,
    ObjectRef,
    Phase,
    Version,
)
from dranet_nri.model.config import (
    TENANT_PKEY,
    CharKind,
    InterfaceConfig,
    IpoibConfig,
    IpoibMode,
    NeighbourConfig,
    NetworkConfig,
    RdmaConfig,
    RouteConfig,
    RuleConfig,
)
from dranet_nri.model.names import (
    DRIVER_NAME,
    MAX_IFNAME,
    parse_pci_address,
    parse_uid,
)
from dranet_nri.model.network import (
    FOREVER,
    Address,
    DeviceKey,
    Link,
    LinkState,
    Neighbour,
    NextHop,
    Ns,
    Observed,
    OffloadSizes,
    Route,
    Rule,
    Sysctl,
)
from dranet_nri.model.rdma import (
    ObservedRdma,
    RdmaLink,
    RdmaMode,
)
from dranet_nri.model.runtime import (
    Container,
    Edits,
    Mount,
    Pod,
    Rlimit,
)

__all__ = [
    "DRIVER_NAME",
    "FOREVER",
    "MAX_IFNAME",
    "TENANT_PKEY",
    "Address",
    "AllocatedDevice",
    "Allocation",
    "AttachedDevice",
    "Attachment",
    "AttributeValue",
    "CharDevice",
    "CharKind",
    "Container",
    "ContainerClaim",
    "Device",
    "DeviceKey",
    "Edits",
    "Failure",
    "InterfaceConfig",
    "IpoibConfig",
    "IpoibMode",
    "Link",
    "LinkState",
    "Mount",
    "Neighbour",
    "NeighbourConfig",
    "NetnsId",
    "NetworkConfig",
    "NextHop",
    "Ns",
    "ObjectRef",
    "Observed",
    "ObservedRdma",
    "OffloadSizes",
    "Phase",
    "Pod",
    "RdmaConfig",
    "RdmaLink",
    "RdmaMode",
    "Rlimit",
    "Route",
    "RouteConfig",
    "Rule",
    "RuleConfig",
    "Sysctl",
    "Version",
    "parse_pci_address",
    "parse_uid",
]
