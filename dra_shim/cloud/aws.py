"""Amazon EC2: groups of EFA and Neuron devices.

An EFA device and its neighbouring Neuron devices have the same `resource.aws.com/devicegroupN_id`,
where N is the number of Neuron devices in the group. The id of a group is the start of a SHA-256 of
the PCI addresses of its EFA devices, so that the drivers of both kinds compute the same id.

Origin: docs.aws.amazon.com, EC2 user guide, "Retrieve instance metadata" (the server);
aws-neuron/connected-device-maps-over-efa-for-neuron (layout of the machines, ids).
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from dra_shim.cloud import names
from dra_shim.cloud.provider import (
    Cloud,
    Describe,
    DeviceFacts,
    Get,
    MetadataRequest,
    ProviderDeviceId,
    read_json,
    read_word,
    text_at,
)

_LIFETIME_S: Final = "21600"
_SIZES: Final = (4, 8, 16)
# PCI address (without domain 0000) of the EFA device of each Neuron device, by device number.
_TRN1: Final = (
    "10:1a.0 10:1a.0 a0:1a.0 a0:1a.0 20:19.0 20:19.0 90:19.0 90:19.0"
    " 20:1a.0 20:1a.0 90:1a.0 90:1a.0 10:19.0 10:19.0 a0:19.0 a0:19.0"
)
_TRN1N: Final = (
    "10:17.0 10:1a.0 a0:17.0 a0:1a.0 20:19.0 20:18.0 90:19.0 90:18.0"
    " 20:17.0 20:1a.0 90:17.0 90:1a.0 10:19.0 10:18.0 a0:19.0 a0:18.0"
)
_TRN2: Final = (
    "c9:00.0 b4:00.0 b3:00.0 ca:00.0 6c:00.0 57:00.0 56:00.0 6d:00.0"
    " 98:00.0 83:00.0 82:00.0 99:00.0 f5:00.0 e0:00.0 df:00.0 f6:00.0"
)
_TRN3: Final = (
    "be:00.0 a9:00.0 a8:00.0 bf:00.0 61:00.0 4c:00.0 4b:00.0 62:00.0"
    " 8d:00.0 78:00.0 77:00.0 8e:00.0 ea:00.0 d5:00.0 d4:00.0 eb:00.0"
)
_BY_TYPE: Final[Mapping[str, str]] = {
    "trn1.32xlarge": _TRN1,
    "trn1n.32xlarge": _TRN1N,
    **dict.fromkeys(("trn2.48xlarge", "trn2e.48xlarge", "trn2u.48xlarge"), _TRN2),
    **{f"trn3{variant}.48xlarge": _TRN3 for variant in ("", "p", "pd98", "s")},
}


async def _load(get: Get) -> Describe:
    ttl = (("X-aws-ec2-metadata-token-ttl-seconds", _LIFETIME_S),)
    token = read_word(await get(MetadataRequest("/latest/api/token", ttl, "PUT")), "EC2 metadata")
    headers = (("X-aws-ec2-metadata-token", token),)
    raw = await get(MetadataRequest("/latest/dynamic/instance-identity/document", headers))
    layout = _BY_TYPE.get(text_at(read_json(raw, "EC2 metadata"), "instanceType"), "")
    groups = device_groups([f"0000:{address}" for address in layout.split()])

    def describe(device: ProviderDeviceId) -> DeviceFacts:
        return groups.get(device.pci, DeviceFacts()) if device.driver == "efa" else DeviceFacts()

    return describe


def device_groups(layout: list[str]) -> Mapping[str, DeviceFacts]:
    """Return the facts of each EFA device by PCI address.

    Args:
        layout: address of the EFA device of each Neuron device, by device number.
    """
    found: dict[str, DeviceFacts] = {}
    for index, address in enumerate(layout):
        attributes = [("resource.aws.com/devicegroup1_id", address)]
        for size in _SIZES:
            first = index // size * size
            group = ",".join(sorted(set(layout[first : first + size])))
            digest = hashlib.sha256(group.encode()).hexdigest()[:16]
            attributes.append((f"resource.aws.com/devicegroup{size}_id", digest))
        found.setdefault(address, DeviceFacts(tuple(attributes)))
    return found


AWS: Final = Cloud(names.AWS, "http://169.254.169.254", _load)
