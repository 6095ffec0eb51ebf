"""Which GPUs sit beside which NIC on Azure, where the PCIe tree does not tell.

Hyper-V gives every passed-through device a PCI domain of its own, so that no NIC shares a root with
a GPU. What the hardware looks like is published per VM size only, as topology files for NCCL.

Origin: Azure/azhpc-images, topology/ndv4-topo.xml and ndv5-topo.xml.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dranet_nri.inventory.observed import AzureHost


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the NIC of a PCI domain sits.

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
    "standard_nd96asr_v4": _ND_V4,
    "standard_nd96amsr_a100_v4": _ND_V4,
    "standard_nd96isr_h100_v5": _ND_V5,
}
_NOTHING: Final[_Table] = {}


def placements(host: AzureHost | None) -> Mapping[str, Placement]:
    """Return PCI domain of a NIC -> where it sits; empty where no table is known to fit.

    A size that has a table decides. Otherwise it is the table whose GPUs are in exactly the domains
    that were seen: sizes with other GPUs on the same boards fit too.

    Args:
        host: None for a machine that is not Azure's.
    """
    if host is None:
        return _NOTHING
    told = _BY_SIZE.get(host.vm_size.lower())
    seen = (table for table in (_ND_V4, _ND_V5) if _gpus(table) == host.gpu_domains)
    return told or next(seen, _NOTHING)


def _gpus(table: _Table) -> frozenset[str]:
    return frozenset(gpu for placement in table.values() for gpu in placement.gpu_domains)
