"""Free pairs of a GPU and a NIC on a node.

A pair is at one PCIe root. If no root of the node has both (ND H100 v5: each device has its own PCI
domain), a pair is on one NUMA node; if that is unknown, anywhere on the node.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from dra_shim.kubectl.cluster import ClusterNode, DeviceKind, DeviceState, PlacedDevice

_LEVELS: Final[tuple[tuple[str, Callable[[PlacedDevice], object]], ...]] = (
    ("same PCIe root", lambda device: device.root or None),
    ("same NUMA node", lambda device: device.numa_node),
    ("same node", lambda _: 0),
)


@dataclass(frozen=True, slots=True)
class FreePairs:
    """Free devices and pairs of a node; fields with `all` count devices in use too.

    Attributes:
        near: what GPU and NIC of a pair share, such as "same PCIe root"; "" without pairs.
    """

    node: str
    pairs: int
    all_pairs: int
    gpus: int
    all_gpus: int
    nics: int
    all_nics: int
    near: str

    @property
    def text(self) -> str:
        """Return the line of the node."""
        if self.all_pairs:
            free, total, things = self.pairs, self.all_pairs, "GPU+NIC pairs"
        elif self.all_nics:
            free, total, things = self.nics, self.all_nics, "NICs"
        else:
            free, total, things = self.gpus, self.all_gpus, "GPUs"
        verb = "is" if free == 1 else "are"
        return f"{free} of {total} {things} {verb} left on node {self.node}"


def free_pairs_of(node: ClusterNode) -> FreePairs:
    """Count the free devices of a node; NICs without RDMA do not count if other NICs have it."""
    gpus, nics = node.of_kind(DeviceKind.GPU), node.of_kind(DeviceKind.NIC)
    if any(nic.rdma_device for nic in nics):
        nics = tuple(nic for nic in nics if nic.rdma_device)
    near, place = next(
        ((name, place) for name, place in _LEVELS if _count(gpus, nics, place)),
        ("", lambda _: 0),
    )
    free_gpus, free_nics = _free(gpus), _free(nics)
    return FreePairs(
        node.name, _count(free_gpus, free_nics, place), _count(gpus, nics, place),
        len(free_gpus), len(gpus), len(free_nics), len(nics), near,
    )  # fmt: skip


def _free(devices: Iterable[PlacedDevice]) -> list[PlacedDevice]:
    return [device for device in devices if device.state is DeviceState.FREE]


def _count(
    gpus: Iterable[PlacedDevice],
    nics: Iterable[PlacedDevice],
    place: Callable[[PlacedDevice], object],
) -> int:
    """Return the number of pairs; a device is in at most one pair."""
    gpu_places = Counter(place(gpu) for gpu in gpus)
    nic_places = Counter(place(nic) for nic in nics)
    both = gpu_places & nic_places
    return sum(count for where, count in both.items() if where is not None)
