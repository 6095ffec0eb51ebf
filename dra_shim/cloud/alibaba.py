"""Alibaba Cloud: instance type, and devices that are elastic RDMA interfaces.

Origin: alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata (the server),
kubernetes-sigs/dranet (the attributes).
"""

from typing import Final

from dra_shim.cloud import names
from dra_shim.cloud.provider import (
    Ask,
    Cloud,
    Describe,
    DeviceFacts,
    ProviderDeviceId,
    Question,
    texts,
)

_LIFETIME_S: Final = "21600"


async def _load(ask: Ask) -> Describe:
    ttl = (("X-aliyun-ecs-metadata-token-ttl-seconds", _LIFETIME_S),)
    token = await ask(Question("/latest/api/token", ttl, "PUT"))
    headers = (("X-aliyun-ecs-metadata-token", token.strip()),)
    kind = await ask(Question("/latest/meta-data/instance/instance-type", headers))
    node = texts({"alibaba.dra.net/instanceType": kind.strip()})

    def describe(device: ProviderDeviceId) -> DeviceFacts:
        elastic = any(name.startswith("erdma") for name in device.rdma)
        return DeviceFacts((*node, ("alibaba.dra.net/erdma", True)) if elastic else node)

    return describe


ALIBABA: Final = Cloud(names.ALIBABA, "http://100.100.100.200", _load)
