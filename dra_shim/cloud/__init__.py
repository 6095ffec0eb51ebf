"""Cloud providers: what a cloud knows of this node's devices, as attributes and as parameters.

provider.py    the protocol: one device → attributes and parameters
gce.py, aws.py, azure.py, oke.py, alibaba.py, coreweave.py
               what each cloud's metadata says
metadata.py    requests to a metadata server
detect.py      which cloud this machine is in
directory.py   the facts of all devices, kept current
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
