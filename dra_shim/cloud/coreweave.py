"""CoreWeave: the fabric from labels of the Node, because there is no metadata server.

Origin: docs.coreweave.com, "Node labels"; kubernetes-sigs/dranet (the attributes).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dra_shim.cloud.provider import DeviceFacts, ProviderDeviceId, ProviderFacts, string_attributes

CLUSTER: Final = "cks.coreweave.com/cluster"  # present on each CoreWeave Node
_BACKEND: Final = "backend.coreweave.cloud"
_LABELS: Final = {
    "coreweave.dra.net/fabricFlavor": f"{_BACKEND}/flavor",
    "coreweave.dra.net/fabric": f"{_BACKEND}/fabric",
    "coreweave.dra.net/superpod": f"{_BACKEND}/superpod",
    "coreweave.dra.net/leafgroup": f"{_BACKEND}/leafgroup",
    "coreweave.dra.net/leafgroupName": f"{_BACKEND}/leafgroup-name",
    "coreweave.dra.net/rack": "node.coreweave.cloud/rack",
    "coreweave.dra.net/speedCurrent": f"{_BACKEND}/speed.current",
    "coreweave.dra.net/speedExpected": f"{_BACKEND}/speed.expected",
    "coreweave.dra.net/instanceType": "node.kubernetes.io/instance-type",
}

Labels = Callable[[], Awaitable[Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class CoreWeave:
    """Provider of CoreWeave.

    Attributes:
        labels: returns the labels of the Node; raises CloudError if they are not known.
    """

    labels: Labels
    name: str = "CKS"
    required: bool = False

    async def describe(self, devices: Sequence[ProviderDeviceId]) -> ProviderFacts:
        """Implement Provider."""
        labels = await self.labels()
        node = string_attributes({name: labels.get(label, "") for name, label in _LABELS.items()})
        return ProviderFacts(
            {device: DeviceFacts((*node, *_leaf(device, labels))) for device in devices}
        )


def _leaf(device: ProviderDeviceId, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the leaf switch to which a device should be connected."""
    keys = (f"{_BACKEND}/neighbors.expected.{name}.device" for name in device.rdma)
    found = next((labels[key] for key in keys if labels.get(key)), "")
    return (("coreweave.dra.net/leafSwitch", found),) if found else ()
