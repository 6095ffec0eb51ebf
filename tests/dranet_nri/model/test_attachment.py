"""Location of devices according to an attachment."""

import pytest

from dranet_nri.model import (
    BANDWIDTH,
    AllocatedDevice,
    AttachedDevice,
    Attachment,
    CharDevice,
    Consumed,
    Device,
    DeviceKey,
    Link,
    LinkState,
    NetnsId,
    ObjectRef,
    Phase,
    RdmaLink,
)

NIC = Device("pci-0000-8a-00-0", DeviceKey("pci", "0000:8a:00.0", "eth1", "0000:8a:00.0"))
ETH1 = LinkState(Link(4, "eth1"))
FILE = CharDevice("/dev/infiniband/uverbs0", 231, 192)


def attachment(phase: Phase, *devices: AttachedDevice) -> Attachment:
    ref = ObjectRef("default", "nics", "uid-nics")
    return Attachment(ref, ref, "sandbox", NetnsId("/run/netns/a", 4, 1), phase, devices)


@pytest.mark.parametrize(
    ("device", "is_modified"),
    [
        pytest.param(AttachedDevice("nic", NIC), False, id="untouched"),
        pytest.param(AttachedDevice("nic", NIC, ETH1), True, id="a net device"),
        pytest.param(AttachedDevice("nic", NIC, rdma=(RdmaLink(3, "x"),)), True, id="RDMA alone"),
        pytest.param(AttachedDevice("nic", NIC, child="dra.net/u/n"), True, id="a link made"),
        pytest.param(AttachedDevice("nic", NIC, ETH1, restored=True), False, id="restored"),
        pytest.param(AttachedDevice("nic", NIC, share_id="one"), False, id="a share"),
    ],
)
def test_modified_device_is_not_returned_until_it_is_restored(
    device: AttachedDevice,
    is_modified: bool,  # noqa: FBT001
) -> None:
    assert device.is_unrestored is is_modified
    assert attachment(Phase.FAILED, AttachedDevice("nic", NIC), device).is_unrestored is is_modified
    assert attachment(Phase.FAILED, device).owns_devices is is_modified


@pytest.mark.parametrize(
    ("device", "given"),
    [
        pytest.param(AttachedDevice("nic", NIC, ETH1), False, id="on its way"),
        pytest.param(AttachedDevice("nic", NIC, ETH1, mtu=1500), True, id="a net device"),
        pytest.param(AttachedDevice("nic", NIC, char_devices=(FILE,)), True, id="RDMA alone"),
        pytest.param(
            AttachedDevice("nic", NIC, ETH1, mtu=1500, restored=True), False, id="restored"
        ),
    ],
)
def test_device_with_a_recorded_success_was_in_its_pod_until_it_is_restored(
    device: AttachedDevice,
    given: bool,  # noqa: FBT001
) -> None:
    assert device.was_attached is given


def test_attached_record_owns_its_devices_although_none_moved() -> None:
    shared = AttachedDevice("nic", NIC, share_id="one")

    assert attachment(Phase.ATTACHED, shared).owns_devices
    assert not attachment(Phase.RESTORED, shared).owns_devices


@pytest.mark.parametrize("share", ["", "5e0f"])
def test_identity_of_an_allocated_device_and_its_record_includes_the_share(
    share: str,
) -> None:
    desired = AllocatedDevice("nic", "node", NIC, share_id=share)
    record = AttachedDevice("another", NIC, ETH1, share_id=share)

    assert desired.identity == record.identity == (NIC.name, share)


@pytest.mark.parametrize(
    ("parts", "bandwidth"),
    [((), 0), ((Consumed("dra.net/queues", 4),), 0), ((Consumed(BANDWIDTH, 10**9),), 10**9)],
)
def test_bandwidth_of_a_share_is_the_allocated_capacity(
    parts: tuple[Consumed, ...], bandwidth: int
) -> None:
    assert AllocatedDevice("nic", "node", NIC, consumed=parts).bandwidth == bandwidth
