"""GPU placement on Azure: the GPUs near each NIC, which the PCIe tree does not show.

Hyper-V puts each passed-through device into its own PCI domain, so that no NIC shares a root with a
GPU. The hardware layout is published per VM size only, in topology files for NCCL.

Origin: Azure/azhpc-images, topology/ndv4-topo.xml and ndv5-topo.xml.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dranet_nri.errors import InvalidValueError
from dranet_nri.inventory.host_facts import AzureHost


@dataclass(frozen=True, slots=True)
class Placement:
    """NUMA node and GPUs of the NIC of a PCI domain.

    Attributes:
        numa_node: its NUMA node.
        gpu_domains: PCI domains of the GPUs below the same PCIe switch, ascending.
    """

    numa_node: int
    gpu_domains: tuple[str, ...]


_Table = Mapping[str, Placement]  # by the NIC's PCI domain


def _switch(numa_node: int, gpus: str, nics: str) -> Iterator[tuple[str, Placement]]:
    placement = Placement(numa_node, tuple(gpus.split()))
    return ((nic, placement) for nic in nics.split())


_ND_V4: Final[_Table] = dict(
    [
        *_switch(0, "0003 0004", "0103 0104"),
        *_switch(1, "0001 0002", "0101 0102"),
        *_switch(2, "000d 000e", "0107 0108"),
        *_switch(3, "000b 000c", "0105 0106"),
    ]
)
_ND_V5: Final[_Table] = dict(
    [
        *_switch(0, "0001", "0101"),
        *_switch(0, "0002", "0102"),
        *_switch(0, "0003", "0103"),
        *_switch(0, "0008", "0104"),
        *_switch(1, "0009", "0105"),
        *_switch(1, "000a", "0106"),
        *_switch(1, "000b", "0107"),
        *_switch(1, "000c", "0108"),
    ]
)
_BY_SIZE: Final[Mapping[str, _Table]] = {
    "Standard_ND96asr_v4": _ND_V4,
    "Standard_ND96amsr_A100_v4": _ND_V4,
    "Standard_ND96isr_H100_v5": _ND_V5,
}
_CANONICAL: Final = {name.lower(): name for name in _BY_SIZE}
_NOTHING: Final[_Table] = {}


def parse_vm_size(text: str) -> str:
    """Return a VM size that has a table, in Azure's spelling; "" for "".

    Raises:
        InvalidValueError: the size has no table.
    """
    size = _CANONICAL.get(text.strip().lower(), "")
    if text and not size:
        raise InvalidValueError(
            f"--azure-size {text[:40]!r}: the PCIe layout of this VM size is not known; must be of"
            f" {', '.join(_BY_SIZE)}; without the flag, the layout is derived from the GPUs"
        )
    return size


def placements(host: AzureHost | None) -> Mapping[str, Placement]:
    """Return PCI domain of a NIC -> its placement; empty without a matching table.

    The table is that of the VM size, else the one whose GPU domains equal those of the machine, as
    for sizes with other GPUs on the same boards.

    Args:
        host: facts of the machine, None outside of Azure.
    """
    if host is None:
        return _NOTHING
    by_size = _BY_SIZE.get(_CANONICAL.get(host.vm_size.lower(), ""))
    matching = (table for table in (_ND_V4, _ND_V5) if _gpus(table) == host.gpu_domains)
    return by_size or next(matching, _NOTHING)


def _gpus(table: _Table) -> frozenset[str]:
    return frozenset(gpu for placement in table.values() for gpu in placement.gpu_domains)
