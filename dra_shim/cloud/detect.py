"""Cloud detection by firmware strings, without a request to a server.

Rules:
1. On a machine outside these clouds, no request is sent. CoreWeave machines are bare metal, and are
   detected by a label of the Node.
2. A hint overrides the detection: metadata is then requested regardless of the firmware.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dra_shim.cloud.alibaba import ALIBABA
from dra_shim.cloud.aws import AWS
from dra_shim.cloud.azure import AZURE
from dra_shim.cloud.coreweave import CLUSTER, CoreWeave, Labels
from dra_shim.cloud.gce import GCE
from dra_shim.cloud.metadata import MetadataProvider
from dra_shim.cloud.names import COREWEAVE, NONE, WEBHOOK
from dra_shim.cloud.oke import OKE
from dra_shim.cloud.provider import Cloud, Provider

_CLOUDS: Final[Mapping[str, Cloud]] = {
    cloud.name: cloud for cloud in (GCE, AWS, AZURE, OKE, ALIBABA)
}
# (file below class/dmi/id, content) → cloud.
_FIRMWARE: Final = (
    ("product_name", "Google Compute Engine", GCE),
    ("sys_vendor", "Amazon EC2", AWS),
    ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", AZURE),
    ("chassis_asset_tag", "OracleCloud.com", OKE),
    ("sys_vendor", "Alibaba Cloud", ALIBABA),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Sources for the detection.

    Attributes:
        sysfs: mount point of sysfs.
        labels: returns the labels of the Node.
        servers: cloud → address of its metadata server, if not the default.
    """

    sysfs: Path
    labels: Labels
    servers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Detection:
    """Selection of the provider of a machine.

    Attributes:
        hint: name of the cloud, "" to detect it.
        webhook: the provider of --webhook-url, None without one.
    """

    machine: Machine
    hint: str = ""
    webhook: Provider | None = None

    async def provider(self) -> Provider | None:
        """Return the provider, None if there is none.

        Raises:
            CloudError: the labels of the Node are not known.
        """
        if self.hint == NONE:
            return None
        if self.hint == WEBHOOK:
            return self.webhook
        if self.hint == COREWEAVE:
            return CoreWeave(self.machine.labels)
        cloud = _CLOUDS.get(self.hint) or by_firmware(self.machine.sysfs)
        if cloud is not None:
            return MetadataProvider(cloud, self.machine.servers.get(cloud.name, ""))
        if CLUSTER in await self.machine.labels():
            return CoreWeave(self.machine.labels)
        return self.webhook


def by_firmware(sysfs: Path) -> Cloud | None:
    """Return the cloud that the firmware identifies, None if there is none."""
    return next(
        (cloud for name, text, cloud in _FIRMWARE if _read(sysfs, name) == text),
        None,
    )


def _read(sysfs: Path, name: str) -> str:
    try:
        return (sysfs / "class/dmi/id" / name).read_text(errors="replace").strip()
    except OSError:  # firmware without DMI
        return ""
