"""Conditions of each device of a claim, from the claim's two records.

Names of conditions and reasons are dranet's where it has them (its Ready, NetworkReady and
RDMALinkReady, which it only ever sets to True).
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
HELD: Final = "ClaimHeldByEndedPod"

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


def is_passing(allocation: Allocation, attachment: Attachment | None) -> bool:
    """Return whether the claim is in transition, without an error to report."""
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


def held_message(earlier: ObjectRef, waiting: str) -> str:
    """Return the consequence for a pod whose claim is recorded for an earlier pod; one line.

    Args:
        earlier: the pod that ended.
        waiting: the waiting pod, by namespace and name.
    """
    return (
        f"was prepared for pod {earlier}, which has ended, and the kubelet does not prepare it for"
        f" {waiting}, so that pod never gets the devices; delete it, its controller makes a new"
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
    """Return the status of each device once: exclusive devices before observed ones.

    Args:
        allocation: the shim's record of the claim.
        attachment: the plugin's record of the claim.
        waiting: later pods that never get the claim.
    """
    own = attachment
    if own is not None and own.pod.uid != allocation.pod.uid:
        own = None
    outlook = _outlook(allocation, attachment)
    if waiting:
        outlook = _outlook_in_vain(allocation, own, waiting)
    given = sorted(_pairs(allocation, own), key=lambda pair: pair[0].admin_access)
    found: dict[Key, DeviceStatus] = {}
    for allocated, attached in given:
        status = _status(allocation, allocated, attached, outlook)
        found.setdefault(status.key, status)
    return tuple(found[key] for key in sorted(found))


@dataclass(frozen=True, slots=True)
class _Outlook:
    """State of all exclusive devices of the claim; reason "" without an error."""

    reason: str = ""
    message: str = ""


def _outlook(allocation: Allocation, attachment: Attachment | None) -> _Outlook:
    if attachment is None or attachment.pod.uid != allocation.pod.uid:
        return _Outlook(PENDING, pending_message(allocation, attachment))
    why = attachment.failure.message if attachment.failure else ""
    match attachment.phase:
        case Phase.ATTACHED if failure_reason(attachment) == GATE_CLOSED:
            return _Outlook(GATE_CLOSED, why)  # containers that list the claim are not created
        case Phase.ATTACHED:
            return _Outlook()
        case Phase.HOME:
            text = f"pod {attachment.pod} has ended, the device is back on the host"
            return _Outlook(DETACHED, f"{text}; {why}" if why else text)
        case Phase.DETACHING:
            text = f"pod {attachment.pod} has ended, the device is on its way back to the host"
            return _Outlook(failure_reason(attachment) or DETACHING, why or text)
        case _:
            reason = failure_reason(attachment) or PENDING
            return _Outlook(reason, why or pending_message(allocation, attachment))


def _outlook_in_vain(
    allocation: Allocation, attachment: Attachment | None, waiting: tuple[ObjectRef, ...]
) -> _Outlook:
    text = held_message(allocation.pod, f"pod {', '.join(map(str, waiting))}")
    failure = attachment.failure if attachment else None
    return _Outlook(HELD, f"{text}; {failure.message}" if failure else text)


def _pairs(
    allocation: Allocation, attachment: Attachment | None
) -> Iterator[tuple[AllocatedDevice, AttachedDevice | None]]:
    """Yield each device with its record; both lists have the same order."""
    left = list(attachment.devices) if attachment else []
    for allocated in allocation.devices:
        same = (
            attached_device
            for attached_device in left
            if (attached_device.request, attached_device.device.name)
            == (allocated.request, allocated.device.name)
        )
        attached = None if allocated.admin_access else next(same, None)
        if attached is not None:
            left.remove(attached)
        yield allocated, attached


def _status(
    allocation: Allocation,
    allocated: AllocatedDevice,
    attached: AttachedDevice | None,
    outlook: _Outlook,
) -> DeviceStatus:
    conditions, network = _bad(allocated, attached, outlook), None
    if allocated.admin_access:
        text = "observed only: the device stays where it is"
        conditions = (Condition(READY, true=True, reason=OBSERVED, message=text),)
    elif attached is not None and not outlook.reason:
        conditions, network = _good(allocation, allocated, attached), _network(attached)
    return DeviceStatus(
        allocated.pool, allocated.device.name, allocated.share_id, conditions, network
    )


def _good(
    allocation: Allocation, allocated: AllocatedDevice, device: AttachedDevice
) -> tuple[Condition, ...]:
    named = f" as {device.pod_name}" if device.pod_name else ""
    where = f"in pod {allocation.pod}{named}"
    if not device.pod_name and not device.rdma:
        files = "its device files" if device.char_devices else "nothing of it"
        where = f"on the host, {files} in pod {allocation.pod}"
    text = one_line("; ".join((where, *device.warnings)), MAX_MESSAGE)
    if device.pod_name:
        made = [
            Condition(READY, true=True, reason=DEVICE_READY, message=text),
            Condition(NETWORK_READY, true=True, reason=NETWORK_READY),
        ]
        if allocated.config.interface.addressing is Addressing.SLAAC:
            cidrs = one_line(", ".join(device.addresses), MAX_MESSAGE)
            made.append(Condition(SLAAC_READY, true=True, reason=SLAAC_READY, message=cidrs))
    else:
        made = [Condition(READY, true=True, reason=RDMA_ONLY_READY, message=text)]
    if device.rdma:
        names = ", ".join(device.rdma_name or rdma_device.name for rdma_device in device.rdma)
        made.append(
            Condition(
                RDMA_READY, true=True, reason=RDMA_READY, message=one_line(names, MAX_MESSAGE)
            )
        )
    return tuple(made)


def _bad(
    allocated: AllocatedDevice, device: AttachedDevice | None, outlook: _Outlook
) -> tuple[Condition, ...]:
    stays = allocated.share_id and allocated.config.interface.child is None
    types = [READY]
    types += [NETWORK_READY] if allocated.device.key.name and not stays else []
    types += [SLAAC_READY] if allocated.config.interface.addressing is Addressing.SLAAC else []
    types += (
        [RDMA_READY]
        if allocated.device.rdma_devices and not _shares_rdma(allocated, device)
        else []
    )
    reason, text = outlook.reason or PENDING, one_line(outlook.message, MAX_MESSAGE)
    return tuple(Condition(kind, true=False, reason=reason, message=text) for kind in types)


def _shares_rdma(allocated: AllocatedDevice, device: AttachedDevice | None) -> bool:
    """Return whether its RDMA devices stay on the host, so that no condition reports them in the
    pod.

    The mode of the node is known from the plugin's record, if there is one.
    """
    stays = allocated.share_id or allocated.config.interface.child is not None
    return bool(stays or (device is not None and SHARED_MODE_WARNING in device.warnings))


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
