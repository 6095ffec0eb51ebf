"""Alibaba Cloud: instance type, and devices that are elastic RDMA interfaces.

Origin: alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata (the server),
kubernetes-sigs/dranet (the attributes).
"""

from typing import Final

from dra_shim.cloud import names
from dra_shim.cloud.provider import (
    Cloud,
    Describe,
    DeviceFacts,
    Get,
    MetadataRequest,
    ProviderDeviceId,
    read_word,
    string_attributes,
)

_LIFETIME_S: Final = "21600"


async def _load(get: Get) -> Describe:
    ttl = (("X-aliyun-ecs-metadata-token-ttl-seconds", _LIFETIME_S),)
    token = read_word(
        await get(MetadataRequest("/latest/api/token", ttl, "PUT")), "Alibaba metadata"
    )
    headers = (("X-aliyun-ecs-metadata-token", token),)
    kind = read_word(
        await get(MetadataRequest("/latest/meta-data/instance/instance-type", headers)),
        "Alibaba metadata",
    )
    node = string_attributes({"alibaba.dra.net/instanceType": kind})

    def describe(device: ProviderDeviceId) -> DeviceFacts:
        elastic = any(name.startswith("erdma") for name in device.rdma)
        return DeviceFacts((*node, ("alibaba.dra.net/erdma", True)) if elastic else node)

    return describe


ALIBABA: Final = Cloud(names.ALIBABA, "http://100.100.100.200", _load)
