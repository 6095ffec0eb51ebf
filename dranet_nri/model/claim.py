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


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A namespaced Kubernetes object."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Return namespace/name, as people write it."""
        return f"{self.namespace}/{self.name}"


BANDWIDTH: Final = "dra.net/bandwidth"  # the capacity of a shared device, in bit/s


@dataclass(frozen=True, slots=True)
class Consumed:
    """Part of a shared device's capacity, in whole units of it (BANDWIDTH: bit/s)."""

    capacity: str
    amount: int


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
        subrequest: the alternative of firstAvailable that got it, "" of a request without any.
        consumed: what the share has of the device's capacities.
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
        """Return the device's name and the share's id, which distinguish shares of one device."""
        return self.device.name, self.share_id

    @property
    def bandwidth(self) -> int:
        """Return what the share has of the device's bandwidth in bit/s, 0 without a limit."""
        return next((part.amount for part in self.consumed if part.capacity == BANDWIDTH), 0)

    @property
    def full_request(self) -> str:
        """Return "request", or "request/subrequest", as the claim's allocation has it."""
        return f"{self.request}/{self.subrequest}" if self.subrequest else self.request


@dataclass(frozen=True, slots=True)
class ContainerClaim:
    """A container of the pod lists the claim; request "" means the whole claim."""

    container: str
    request: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The shim's record of one claim (allocations/<claim uid>.json).

    Attributes:
        pod: the one pod that may use the claim.
        pod_claim_name: name of the claim in a template pod's spec, "" for a direct claim.
        containers: which containers list it; empty: none does, so every container gets it.
        nonce: last part of the CDI ids, which distinguishes claims of one name.
        boot_id: of the boot in which it was recorded.
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
        snapshot: state on the host before the first operation; None until taken.
        snapshot_s: when it was taken, seconds of CLOCK_BOOTTIME.
        pod_name: interface name in the pod, "" for a device without a netdev.
        pod_index: its ifindex there, 0 until it is attached.
        mac, mtu, addresses: as they are in the pod, after success.
        rdma: its RDMA devices as they were on the host, where they move with it (exclusive
            mode); empty in shared mode, in which they stay.
        shared_rdma: names of those that stay, as they were when the files were resolved.
        rdma_name: of its RDMA device in the pod where a claim renames it, "" to keep it.
        char_devices: files of its RDMA devices, resolved after the move.
        warnings: what the pod should know, one line each.
        child: alias of the link that is made for the pod on this device, "" if none is.
        made_by: the parameters of that link; None if there is none.
        lease: of its address, where a DHCP server gave that.
        share_id: of a share of a multi-allocation device, which stays on the host; "" if it is
            the pod's alone.
        home: verified on the host and restored.
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
    made_by: InterfaceConfig | None = None
    lease: Lease | None = None
    share_id: str = ""
    home: bool = False

    @property
    def identity(self) -> tuple[str, str]:
        """Return the device's name and the share's id, as of what was allocated."""
        return self.device.name, self.share_id

    @property
    def touched(self) -> bool:
        """Whether some of its state may not be restored."""
        return not self.home and (self.snapshot is not None or bool(self.rdma or self.child))

    @property
    def was_given(self) -> bool:
        """Whether a pod once had it whole: facts after success are kept until it is restored."""
        return not self.home and bool(self.mtu or self.char_devices)


GATE_CLOSED: Final = "NetworkDeviceGateClosed"  # reason of one that is attached, its gate shut


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason of the last failed try.

    Attributes:
        reason: CamelCase word for events and conditions ("NetworkDeviceAttachFailed").
        message: one line: which device, why, what to do.
        time: Unix seconds, of the last try that counted.
        count: tries that failed for this pod, but for those that do not count (plan/retry.py).
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
    def is_away(self) -> bool:
        """Whether a device was modified and is not verified on the host."""
        return any(device.touched for device in self.devices)

    @property
    def holds_devices(self) -> bool:
        """Whether a device is in the pod, or was modified and is not verified on the host."""
        return self.phase is Phase.ATTACHED or self.is_away
