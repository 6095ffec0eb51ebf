"""Verification of attached devices, run by every reconcile."""

from dranet_nri.attach.desired import devices_to_attach, with_route_warning
from dranet_nri.attach.observation import observe
from dranet_nri.attach.rdma import RdmaOptions, with_files
from dranet_nri.component.replace import replace
from dranet_nri.config import SHARED_MODE_WARNING
from dranet_nri.model import (
    Allocation,
    AttachedDevice,
    Attachment,
    NetworkConfig,
    ObservedRdma,
    RdmaMode,
)
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.rdma import find_same


def verify_attached(
    session: Session,
    attachment: Attachment,
    allocation: Allocation | None,
    options: RdmaOptions,
) -> Attachment | None:
    """Return the record of an attached claim with the current device files.

    Args:
        session: session of the pod.
        attachment: the record.
        allocation: allocation of the same devices; None if it was removed, which keeps the device
            files.
        options: RDMA options of the operator.

    Returns:
        None if a device or its RDMA device is no longer in the pod's namespace, or if its RDMA
        device is no longer shared.

    Raises:
        KernelError: the kernel could not be read.
    """
    configs = (
        {allocated.identity: allocated.config for allocated in devices_to_attach(allocation)}
        if allocation
        else {}
    )
    devices: list[AttachedDevice] = []
    for device in attachment.devices:
        verified = _verified(session, device, configs.get(device.identity), options)
        if verified is None:
            return None
        devices.append(verified)
    return replace(attachment, devices=tuple(devices))


def _verified(
    session: Session, device: AttachedDevice, config: NetworkConfig | None, options: RdmaOptions
) -> AttachedDevice | None:
    """Return the current record of a device, None if it must be attached again."""
    observed = observe(session, device, link_only=True)
    if (device.snapshot is not None or device.child) and observed.pod is None:
        return None
    if device.snapshot is not None and observed.pod is not None:
        device = replace(device, pod_index=observed.pod.link.index)
    if any(find_same(link, observed.rdma.pod) is None for link in device.rdma):
        return None
    if device.rdma and _stayed(observed.rdma):
        return None
    if config is None:
        return device
    if SHARED_MODE_WARNING in device.warnings and not _are_shared(observed.rdma):
        return None
    return with_route_warning(with_files(session, device, config, observed.rdma, options))


def _stayed(rdma: ObservedRdma) -> bool:
    """Whether an RDMA device of hardware is on the host: its driver was loaded after the attach."""
    return any(link.name not in rdma.software for link in rdma.host)


def _are_shared(rdma: ObservedRdma) -> bool:
    """Whether shared RDMA devices exist; if not, their device numbers may be reused."""
    return rdma.mode is RdmaMode.SHARED and bool(rdma.host)
