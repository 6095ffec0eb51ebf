"""Cloud detection: by the firmware's strings, without a request to any server.

Rules:
1. A machine of no known cloud causes no request. Only CoreWeave, whose machines are bare metal, is
   told by a label of the Node.
2. A hint decides alone; metadata is then requested whatever the firmware says.
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
# (file below class/dmi/id, its text) → cloud.
_FIRMWARE: Final = (
    ("product_name", "Google Compute Engine", GCE),
    ("sys_vendor", "Amazon EC2", AWS),
    ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", AZURE),
    ("chassis_asset_tag", "OracleCloud.com", OKE),
    ("sys_vendor", "Alibaba Cloud", ALIBABA),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the facts of this machine come from.

    Attributes:
        sysfs: where sysfs is mounted.
        labels: returns the Node's labels.
        servers: cloud → address of its metadata server, where it is not the cloud's own.
    """

    sysfs: Path
    labels: Labels
    servers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Detection:
    """Chooses the provider of a machine.

    Attributes:
        hint: a cloud's name, "" to detect it.
        webhook: the provider of --webhook-url, None without one.
    """

    machine: Machine
    hint: str = ""
    webhook: Provider | None = None

    async def provider(self) -> Provider | None:
        """Return the provider, None if there is none.

        Raises:
            CloudError: the Node's labels are not known.
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
    """Return the cloud that the firmware names, None if it names none."""
    return next(
        (cloud for name, text, cloud in _FIRMWARE if _read(sysfs, name) == text),
        None,
    )


def _read(sysfs: Path, name: str) -> str:
    try:
        return (sysfs / "class/dmi/id" / name).read_text(errors="replace").strip()
    except OSError:  # firmware without DMI
        return ""
