"""Devices, allocations (written by the shim) and attachments (written by the plugin)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dranet_nri.model.config import InterfaceConfig, NetworkConfig
from dranet_nri.model.lease import Lease
from dranet_nri.model.network import DeviceKey, LinkState
from dranet_nri.model.rdma import RdmaLink


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
        key: its identity in the kernel.
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


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A namespaced Kubernetes object."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Return namespace/name, as kubectl prints it."""
        return f"{self.namespace}/{self.name}"


BANDWIDTH: Final = "dra.net/bandwidth"  # capacity of a shared device, bit/s


@dataclass(frozen=True, slots=True)
class Consumed:
    """Share of a device's capacity, in whole units (BANDWIDTH: bit/s)."""

    capacity: str
    amount: int


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device that is allocated to one request of the claim.

    Attributes:
        request: main request name, without "/subrequest".
        pool: pool name (the node's name).
        device: the device with the facts that were published at allocation.
        config: validated parameters.
        admin_access: adminAccess of the request; the device is not moved.
        share_id: UUID of the share of a multi-allocation device, "" if exclusive.
        subrequest: the chosen alternative of firstAvailable, "" without alternatives.
        consumed: the share's part of the device's capacities.
    """

    request: str
    pool: str
    device: Device
    config: NetworkConfig = NetworkConfig()
    admin_access: bool = False
    share_id: str = ""
    subrequest: str = ""
    consumed: tuple[Consumed, ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        """Return device name and share id, which distinguish shares of one device."""
        return self.device.name, self.share_id

    @property
    def bandwidth(self) -> int:
        """Return the share's bandwidth in bit/s, 0 without a limit."""
        return next((part.amount for part in self.consumed if part.capacity == BANDWIDTH), 0)

    @property
    def full_request(self) -> str:
        """Return "request" or "request/subrequest", as in the claim's allocation."""
        return f"{self.request}/{self.subrequest}" if self.subrequest else self.request


@dataclass(frozen=True, slots=True)
class ContainerClaim:
    """Reference of a container to the claim; request "" is the whole claim."""

    container: str
    request: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The shim's record of one claim (allocations/<claim uid>.json).

    Attributes:
        pod: the only pod that may use the claim.
        pod_claim_name: name of the claim in a template pod's spec, "" for a direct claim.
        containers: containers that reference it; without one, every container gets its devices.
        nonce: last part of the CDI ids; distinguishes claims of the same name.
        boot_id: boot in which it was recorded.
    """

    claim: ObjectRef
    pod: ObjectRef
    devices: tuple[AllocatedDevice, ...]
    nonce: str
    boot_id: str
    pod_claim_name: str = ""
    containers: tuple[ContainerClaim, ...] = ()


class Phase(StrEnum):
    """Progress of a claim's devices."""

    INTENT = "intent"  # the plan is recorded, its result is not
    ATTACHED = "attached"  # all devices are in the pod, fully configured
    FAILED = "failed"  # the attach failed and is undone; `failure` has the reason
    DETACHING = "detaching"  # the sandbox has ended, devices are being restored
    RESTORED = "restored"  # all devices are restored on the host; the claim is still prepared


@dataclass(frozen=True, slots=True)
class NetnsId:
    """A network namespace: the runtime's path, and the nsfs inode as its identity."""

    path: str
    dev: int
    inode: int


@dataclass(frozen=True, slots=True)
class CharDevice:
    """A character device file of an RDMA device, as in containers.

    uid, gid and mode are None for the runtime's default.
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
        snapshot: state on the host before the first operation; None until taken.
        snapshot_s: time of the snapshot, seconds of CLOCK_BOOTTIME.
        pod_name: interface name in the pod, "" for a device without a netdev.
        pod_altnames: altnames that the claim adds there.
        pod_index: its ifindex there, 0 until it is attached.
        mac, mtu, addresses: those in the pod, after success.
        rdma: its RDMA devices as observed on the host; empty in shared mode, in which they do
            not move.
        shared_rdma: names of RDMA devices that stay on the host, read with the device files.
        rdma_name: name of its RDMA device in the pod if the claim renames it, else "".
        char_devices: files of its RDMA devices, resolved after the move.
        warnings: warnings for the claim status, one line each.
        child: alias of the child link for the pod, "" without one.
        child_config: parameters of the child link, None without one.
        lease: DHCP lease of its address, None without one.
        share_id: UUID of the share of a multi-allocation device, which stays on the host; "" if
            exclusive.
        restored: on the host in the state of its snapshot, verified.
    """

    request: str
    device: Device
    snapshot: LinkState | None = None
    snapshot_s: int = 0
    pod_name: str = ""
    pod_index: int = 0
    mac: str = ""
    mtu: int = 0
    addresses: tuple[str, ...] = ()
    rdma: tuple[RdmaLink, ...] = ()
    shared_rdma: tuple[str, ...] = ()
    rdma_name: str = ""
    char_devices: tuple[CharDevice, ...] = ()
    warnings: tuple[str, ...] = ()
    child: str = ""
    child_config: InterfaceConfig | None = None
    lease: Lease | None = None
    share_id: str = ""
    restored: bool = False
    pod_altnames: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        """Return device name and share id, as of AllocatedDevice."""
        return self.device.name, self.share_id

    @property
    def is_unrestored(self) -> bool:
        """Whether the device was modified and is not verified on the host."""
        return not self.restored and (self.snapshot is not None or bool(self.rdma or self.child))

    @property
    def was_attached(self) -> bool:
        """Whether an attach succeeded; its results stay in the record until the restore."""
        return not self.restored and bool(self.mtu or self.char_devices)


# Reasons of a Failure. Each is the reason of an Event and of a condition as well.
ATTACH_FAILED: Final = "NetworkDeviceAttachFailed"  # also a reason of dranet
NOT_READY: Final = "NetworkDeviceNotReady"  # no address in time, or its lease is lost; as in dranet
GATE_CLOSED: Final = "NetworkDeviceGateClosed"  # the claim is attached, but its gate is closed
GATE_OPEN: Final = "NetworkDeviceGateOpen"  # the claim is not attached, but its gate is open
DETACH_FAILED: Final = "NetworkDeviceDetachFailed"  # a device is not on the host, or not usable
RESTORE_FAILED: Final = "NetworkDeviceRestoreFailed"  # all are usable, but lack refused settings
HUNG: Final = "NetworkDeviceHung"  # recorded during a hang of the kernel
FAULT: Final = "NetworkDeviceFault"  # an unexpected error


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason of the last failed attempt.

    Attributes:
        reason: one of the reasons above; a newer version may have others.
        message: one line: device, reason, remedy.
        time: Unix seconds of the last counted attempt.
        count: failed attempts for this pod that count (plan/retry.py).
    """

    reason: str
    message: str
    time: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Attachment:
    """The plugin's record of one claim (attachments/<claim uid>.json)."""

    claim: ObjectRef
    pod: ObjectRef
    sandbox_id: str
    netns: NetnsId
    phase: Phase
    devices: tuple[AttachedDevice, ...]
    attempt: int = 1
    failure: Failure | None = None

    @property
    def is_unrestored(self) -> bool:
        """Whether a device was modified and is not verified on the host."""
        return any(device.is_unrestored for device in self.devices)

    @property
    def owns_devices(self) -> bool:
        """Whether a device is in the pod, or was modified and is not verified on the host."""
        return self.phase is Phase.ATTACHED or self.is_unrestored
