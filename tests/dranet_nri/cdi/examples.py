"""A claim with two NICs, its attachment and a container."""

import json
from dataclasses import replace

from dranet_nri.cdi.edits import EditOptions, edits
from dranet_nri.cdi.spec import cdi_spec
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    CharDevice,
    Container,
    Device,
    DeviceKey,
    Edits,
    NetnsId,
    ObjectRef,
    Phase,
    Version,
)

DIRECTORY = "/run/dranet-nri/metadata"
CLAIM = ObjectRef("training", "two-nics", "6f1c0a52")
POD = ObjectRef("training", "worker-0", "0b9d5b1e")
UVERBS0 = CharDevice("/dev/infiniband/uverbs0", 231, 192)
RDMA_CM = CharDevice("/dev/infiniband/rdma_cm", 10, 58, mode=0o666, uid=0, gid=7)
DATA = Device(
    "pci-0000-8a-00-0",
    DeviceKey("pci", "0000:8a:00.0", "eth1", "0000:8a:00.0"),
    (
        ("dra.net/driverVersion", Version("6.8.0")),
        ("dra.net/ifName", "eth1"),
        ("dra.net/mtu", 9000),
        ("dra.net/rdma", True),
    ),
    ("mlx5_0",),
)
STORAGE = Device("pci-0000-8b-00-0", DeviceKey("pci", "0000:8b:00.0", "eth2", "0000:8b:00.0"))
WATCHED = Device("pci-0000-8c-00-0", DeviceKey("pci", "0000:8c:00.0", "eth3", "0000:8c:00.0"))
ALLOCATION = Allocation(
    claim=CLAIM,
    pod=POD,
    devices=(
        AllocatedDevice("data", "node-a", DATA),
        AllocatedDevice("storage", "node-b", STORAGE),
        AllocatedDevice("look", "node-a", WATCHED, admin_access=True),
    ),
    nonce="c0ffee",
    boot_id="8a1f5b1c",
)
TEMPLATE = replace(ALLOCATION, pod_claim_name="nics.of-pod")
ATTACHMENT = Attachment(
    claim=CLAIM,
    pod=POD,
    sandbox_id="3f9a6d0c",
    netns=NetnsId("/run/netns/cni-1", 4, 4026532801),
    phase=Phase.ATTACHED,
    devices=(
        AttachedDevice(
            "data",
            DATA,
            pod_name="net1",
            mac="02:00:00:00:00:07",
            addresses=("10.1.0.5/24", "2001:db8::5/64"),
            char_devices=(UVERBS0, RDMA_CM),
        ),
        AttachedDevice("storage", STORAGE, pod_name="net2", mac="02:00:00:00:00:08"),
    ),
    attempt=3,
)
RDMA_ONLY = replace(
    ATTACHMENT,
    devices=(AttachedDevice("data", DATA, char_devices=(RDMA_CM,)), ATTACHMENT.devices[1]),
)
APP = Container("c1", "3f9a6d0c", "app")
OPTIONS = EditOptions()
METADATA_OPTIONS = ("ro", "rbind", "rprivate", "nosuid", "nodev", "noexec")


def given_to(
    container: Container,
    allocation: Allocation = ALLOCATION,
    attachment: Attachment = ATTACHMENT,
    options: EditOptions = OPTIONS,
) -> Edits:
    return edits(allocation, attachment, container, DIRECTORY, options)


def spec_of(
    allocation: Allocation = ALLOCATION,
    attachment: Attachment = ATTACHMENT,
    options: EditOptions = OPTIONS,
) -> dict[str, object]:
    spec = json.loads(cdi_spec(allocation, attachment, DIRECTORY, options))
    assert isinstance(spec, dict)
    return spec
