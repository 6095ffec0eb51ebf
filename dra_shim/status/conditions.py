"""Conditions of each device of a claim, from the claim's two records.

Names of conditions and reasons are dranet's where it has them: Ready, NetworkReady and
RDMALinkReady, which dranet only sets to True.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Interface, ip_interface
from typing import Final

from dra_shim.status.text import one_line, reason_of
from dranet_nri.config import SHARED_MODE_WARNING
from dranet_nri.model import (
    ATTACH_FAILED,
    GATE_CLOSED,
    Addressing,
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    ObjectRef,
    Phase,
)

READY: Final = "Ready"
NETWORK_READY: Final = "NetworkReady"
RDMA_READY: Final = "RDMALinkReady"
SLAAC_READY: Final = "SLAACReady"
TYPES: Final = frozenset({READY, NETWORK_READY, RDMA_READY, SLAAC_READY})

DEVICE_READY: Final = "NetworkDeviceReady"
RDMA_ONLY_READY: Final = "RDMAOnlyDeviceReady"
OBSERVED: Final = "AdminAccess"
PENDING: Final = "NetworkDeviceAttachPending"
DETACHING: Final = "NetworkDeviceDetaching"
DETACHED: Final = "NetworkDeviceDetached"
RDMA_ATTACH_FAILED: Final = "RDMADeviceAttachFailed"
IN_USE: Final = "ClaimInUseByEndedPod"

MAX_MESSAGE: Final = 2048  # bytes; metav1.Condition allows 32768
MAX_IPS: Final = 16  # resource.NetworkDeviceDataMaxIPs
Key = tuple[str, str, str]  # pool, device, share


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition, without its times, which depend on the server's state."""

    type: str
    true: bool
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class NetworkData:
    """The interface in the pod.

    Attributes:
        addresses: CIDR notation, in the canonical form that the API requires.
    """

    interface: str
    mac: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """One entry of status.devices; share_id is "" if the claim has the whole device."""

    pool: str
    device: str
    share_id: str
    conditions: tuple[Condition, ...]
    network: NetworkData | None = None

    @property
    def key(self) -> Key:
        """Return the key of the entry among this driver's entries."""
        return self.pool, self.device, self.share_id


def in_transition(allocation: Allocation, attachment: Attachment | None) -> bool:
    """Return whether the claim is being attached or detached, without an error to report."""
    if all(device.admin_access for device in allocation.devices):
        return False
    if attachment is None or attachment.pod.uid != allocation.pod.uid:
        return True
    return attachment.phase in {Phase.INTENT, Phase.DETACHING} and attachment.failure is None


def pending_message(allocation: Allocation, attachment: Attachment | None) -> str:
    """Return the reason why a claim is not attached after a long time; one line."""
    if attachment is None:
        return (
            f"not attached yet: the sandbox of pod {allocation.pod} has not started, or the plugin"
            " dranet-nri is not running; containers that list the claim wait for it"
        )
    if attachment.pod.uid != allocation.pod.uid:
        return f"not attached yet: pod {attachment.pod} has not released the devices"
    return "not attached yet: a kernel call has not returned; see dranet-nri status"


def superseded_message(earlier: ObjectRef, waiting: str) -> str:
    """Return the message about a pod whose claim is recorded for an earlier pod; one line.

    Args:
        earlier: the pod that ended.
        waiting: the waiting pod, by namespace and name.
    """
    return (
        f"was prepared for pod {earlier}, which has ended, and the kubelet does not prepare it for"
        f" {waiting}, so that pod never gets the devices; delete it, its controller creates a new"
        " one; if that one gets this Event too, scale the controller to 0 until no pod has the"
        " claim"
    )


def failure_reason(attachment: Attachment) -> str:
    """Return dranet's reason for the last failure; "" if there is none."""
    if attachment.failure is None:
        return ""
    reason = reason_of(attachment.failure.reason)
    if reason == ATTACH_FAILED and not any(device.device.key.name for device in attachment.devices):
        return RDMA_ATTACH_FAILED
    return reason


def device_statuses(
    allocation: Allocation, attachment: Attachment | None, waiting: tuple[ObjectRef, ...] = ()
) -> tuple[DeviceStatus, ...]:
    """Return one status per device; for a device that is consumed and observed, the former.

    Args:
        allocation: the shim's record of the claim.
        attachment: the plugin's record of the claim.
        waiting: later pods that never get the claim.
    """
    own = attachment
    if own is not None and own.pod.uid != allocation.pod.uid:
        own = None
    claim_state = _claim_state(allocation, attachment)
    if waiting:
        claim_state = _superseded_state(allocation, own, waiting)
    pairs = sorted(_pairs(allocation, own), key=lambda pair: pair[0].admin_access)
    found: dict[Key, DeviceStatus] = {}
    for allocated, attached in pairs:
        status = _status(allocation, allocated, attached, claim_state)
        found.setdefault(status.key, status)
    return tuple(found[key] for key in sorted(found))


@dataclass(frozen=True, slots=True)
class _ClaimState:
    """State of all devices of the claim without adminAccess; reason "" if they are attached."""

    reason: str = ""
    message: str = ""


def _claim_state(allocation: Allocation, attachment: Attachment | None) -> _ClaimState:
    if attachment is None or attachment.pod.uid != allocation.pod.uid:
        return _ClaimState(PENDING, pending_message(allocation, attachment))
    why = attachment.failure.message if attachment.failure else ""
    match attachment.phase:
        case Phase.ATTACHED if failure_reason(attachment) == GATE_CLOSED:
            return _ClaimState(GATE_CLOSED, why)  # containers that list the claim are not created
        case Phase.ATTACHED:
            return _ClaimState()
        case Phase.RESTORED:
            text = f"pod {attachment.pod} has ended, the device is back on the host"
            return _ClaimState(DETACHED, f"{text}; {why}" if why else text)
        case Phase.DETACHING:
            text = f"pod {attachment.pod} has ended, the device is being restored on the host"
            return _ClaimState(failure_reason(attachment) or DETACHING, why or text)
        case _:
            reason = failure_reason(attachment) or PENDING
            return _ClaimState(reason, why or pending_message(allocation, attachment))


def _superseded_state(
    allocation: Allocation, attachment: Attachment | None, waiting: tuple[ObjectRef, ...]
) -> _ClaimState:
    text = superseded_message(allocation.pod, f"pod {', '.join(map(str, waiting))}")
    failure = attachment.failure if attachment else None
    return _ClaimState(IN_USE, f"{text}; {failure.message}" if failure else text)


def _pairs(
    allocation: Allocation, attachment: Attachment | None
) -> Iterator[tuple[AllocatedDevice, AttachedDevice | None]]:
    """Yield each allocated device with its attachment, None if it has none."""
    unmatched = list(attachment.devices) if attachment else []
    for allocated in allocation.devices:
        same = (
            attached_device
            for attached_device in unmatched
            if (attached_device.request, attached_device.device.name)
            == (allocated.request, allocated.device.name)
        )
        attached = None if allocated.admin_access else next(same, None)
        if attached is not None:
            unmatched.remove(attached)
        yield allocated, attached


def _status(
    allocation: Allocation,
    allocated: AllocatedDevice,
    attached: AttachedDevice | None,
    claim_state: _ClaimState,
) -> DeviceStatus:
    conditions, network = _not_ready_conditions(allocated, attached, claim_state), None
    if allocated.admin_access:
        text = "observed only: the device is not moved"
        conditions = (Condition(READY, true=True, reason=OBSERVED, message=text),)
    elif attached is not None and not claim_state.reason:
        conditions, network = _ready_conditions(allocation, allocated, attached), _network(attached)
    return DeviceStatus(
        allocated.pool, allocated.device.name, allocated.share_id, conditions, network
    )


def _ready_conditions(
    allocation: Allocation, allocated: AllocatedDevice, device: AttachedDevice
) -> tuple[Condition, ...]:
    name = f" as {device.pod_name}" if device.pod_name else ""
    where = f"in pod {allocation.pod}{name}"
    if not device.pod_name and not device.rdma:
        files = "its device files" if device.char_devices else "nothing of it"
        where = f"on the host, {files} in pod {allocation.pod}"
    text = one_line("; ".join((where, *device.warnings)), MAX_MESSAGE)
    if device.pod_name:
        conditions = [
            Condition(READY, true=True, reason=DEVICE_READY, message=text),
            Condition(NETWORK_READY, true=True, reason=NETWORK_READY),
        ]
        if allocated.config.interface.addressing is Addressing.SLAAC:
            cidrs = one_line(", ".join(device.addresses), MAX_MESSAGE)
            conditions.append(Condition(SLAAC_READY, true=True, reason=SLAAC_READY, message=cidrs))
    else:
        conditions = [Condition(READY, true=True, reason=RDMA_ONLY_READY, message=text)]
    if device.rdma:
        names = ", ".join(device.rdma_name or rdma_device.name for rdma_device in device.rdma)
        conditions.append(
            Condition(
                RDMA_READY, true=True, reason=RDMA_READY, message=one_line(names, MAX_MESSAGE)
            )
        )
    return tuple(conditions)


def _not_ready_conditions(
    allocated: AllocatedDevice, device: AttachedDevice | None, claim_state: _ClaimState
) -> tuple[Condition, ...]:
    stays_on_host = allocated.share_id and allocated.config.interface.child is None
    types = [READY]
    types += [NETWORK_READY] if allocated.device.key.name and not stays_on_host else []
    types += [SLAAC_READY] if allocated.config.interface.addressing is Addressing.SLAAC else []
    types += (
        [RDMA_READY]
        if allocated.device.rdma_devices and not _shares_rdma(allocated, device)
        else []
    )
    reason, text = claim_state.reason or PENDING, one_line(claim_state.message, MAX_MESSAGE)
    return tuple(Condition(kind, true=False, reason=reason, message=text) for kind in types)


def _shares_rdma(allocated: AllocatedDevice, device: AttachedDevice | None) -> bool:
    """Return whether the RDMA devices stay on the host, so that they have no condition.

    In shared mode they do; the plugin's record, if there is one, has the mode as a warning.
    """
    stays_on_host = allocated.share_id or allocated.config.interface.child is not None
    return bool(stays_on_host or (device is not None and SHARED_MODE_WARNING in device.warnings))


def _network(device: AttachedDevice) -> NetworkData | None:
    if not device.pod_name:
        return None
    addresses = dict.fromkeys(address for cidr in device.addresses if (address := _canonical(cidr)))
    return NetworkData(device.pod_name, device.mac.lower(), tuple(addresses)[:MAX_IPS])


def _canonical(cidr: str) -> str:
    """Return an address in the form that the API requires, "" for an unsupported one."""
    interface = ip_interface(cidr)
    mapped = isinstance(interface, IPv6Interface) and interface.ip.ipv4_mapped is not None
    return "" if mapped else str(interface)
