"""Records that the tests of this room bend."""

from dataclasses import replace

from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    Device,
    DeviceKey,
    Failure,
    NetnsId,
    ObjectRef,
    Phase,
    RdmaLink,
)

CLAIM = ObjectRef("ai", "fast", "claim-1")
POD = ObjectRef("ai", "train", "pod-1")
OTHER_POD = ObjectRef("ai", "gone", "pod-0")
NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z
STAMP = "2026-09-21T14:13:20Z"


def nic(name: str = "nic-0", *rdma: str) -> Device:
    """Return a NIC, with these RDMA devices."""
    key = DeviceKey("pci", "0000:8a:00.0", "eth0", "0000:8a:00.0")
    return Device(name, key, rdma_devices=rdma)


def hca(name: str = "hca-0") -> Device:
    """Return an RDMA device without a net device."""
    key = DeviceKey("pci", "0000:8b:00.0", "", "0000:8b:00.0")
    return Device(name, key, rdma_devices=("mlx5_0",))


def given(*devices: AllocatedDevice) -> Allocation:
    """Return the record of a claim that has these devices, or one NIC."""
    return Allocation(CLAIM, POD, devices or (one(nic()),), "n0", "b0")


def one(device: Device, share_id: str = "") -> AllocatedDevice:
    """Return a device given to a request."""
    return AllocatedDevice("nic", "node-a", device, share_id=share_id)


def attached_device(device: Device, pod_name: str = "net1") -> AttachedDevice:
    """Return a device in a pod; pod_name "" for one that has no net device there."""
    mac, addresses = ("02:00:00:00:00:05", ("10.1.0.5/24",)) if pod_name else ("", ())
    return AttachedDevice("nic", device, pod_name=pod_name, mac=mac, addresses=addresses)


def moved(device: AttachedDevice, *names: str) -> AttachedDevice:
    """Return the device with RDMA devices that moved along."""
    links = tuple(RdmaLink(index, name) for index, name in enumerate(names))
    return replace(device, rdma=links)


def attachment(
    *devices: AttachedDevice, phase: Phase = Phase.ATTACHED, failure: Failure | None = None
) -> Attachment:
    """Return the plugin's record of the claim, of one NIC unless told otherwise."""
    netns = NetnsId("/run/netns/a", 4, 4026532801)
    return Attachment(
        CLAIM, POD, "s1", netns, phase, devices or (attached_device(nic()),), failure=failure
    )


def failure(
    message: str = "eth0: MTU 9000 is above 1500",
    reason: str = "NetworkDeviceAttachFailed",
    time: float = NOW,
) -> Failure:
    """Return why an attach failed."""
    return Failure(reason, message, int(time))
