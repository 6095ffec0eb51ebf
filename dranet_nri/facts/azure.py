"""Azure facts: detection of an Azure machine, and the PCI domains of its GPUs."""

import re
from pathlib import Path
from typing import Final

from dranet_nri.inventory import AzureHost
from dranet_nri.linux.dirfd import DirFd

_ASSET_TAG: Final = "7783-7084-3265-9085-8269-3286-77"  # DMI asset tag of Azure machines
# Display controllers and accelerators of NVIDIA and AMD (Documentation/ABI/testing/sysfs-bus-pci).
_GPU: Final = re.compile(r"pci:v0000(10DE|1002)d.*bc(03|12)sc.*")


def azure_host(sysfs: Path, size: str = "") -> AzureHost | None:
    """Return the facts of the machine's PCIe layout, None if it is not on Azure.

    Args:
        sysfs: mount point of sysfs.
        size: VM size in Azure's spelling, "" if unknown; DMI does not have it.
    """
    with DirFd(sysfs) as directory:
        if not size and directory.text("class/dmi/id/chassis_asset_tag") != _ASSET_TAG:
            return None
        functions = "bus/pci/devices"
        domains = frozenset(
            address.partition(":")[0]
            for address in directory.names(functions)
            if _GPU.fullmatch(directory.text(f"{functions}/{address}/modalias"))
        )
    return AzureHost(domains, size)
