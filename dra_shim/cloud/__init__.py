"""Cloud providers: attributes and parameters of this node's devices from cloud metadata.

provider.py    the protocol of a provider gce.py, aws.py, azure.py, oke.py, alibaba.py, coreweave.py
               metadata of each cloud
webhook.py     a provider of the administrator metadata.py    client of a metadata server detect.py
detection of the cloud directory.py   facts of all devices, refreshed in the background
"""

from dra_shim.cloud.detect import HINTS, NONE, WEBHOOK, Detection, Machine
from dra_shim.cloud.directory import CloudDirectory, CloudFailed, CloudFound, CloudNotice
from dra_shim.cloud.provider import (
    CloudError,
    DeviceFacts,
    Provider,
    ProviderDeviceId,
    enriched,
    identity_of,
)

__all__ = [
    "HINTS",
    "NONE",
    "WEBHOOK",
    "CloudDirectory",
    "CloudError",
    "CloudFailed",
    "CloudFound",
    "CloudNotice",
    "Detection",
    "DeviceFacts",
    "Machine",
    "Provider",
    "ProviderDeviceId",
    "enriched",
    "identity_of",
]
