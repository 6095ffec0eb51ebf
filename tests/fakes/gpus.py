"""GPUs as their drivers publish them: NVIDIA's (gpu.nvidia.com) and the example driver's.

Names and types of the attributes are those of kubernetes-sigs/dra-driver-nvidia-gpu and
kubernetes-sigs/dra-example-driver, and the common ones of KEP-4381.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

NVIDIA: Final = "gpu.nvidia.com"
EXAMPLE: Final = "gpu.example.com"

_STANDARD: Final = "resource.kubernetes.io"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: the driver's number of it.
        address: of its PCI function.
        root: "pci0000:10".
        numa_node: -1 if unknown.
    """

    index: int
    address: str
    root: str
    numa_node: int = -1

    @property
    def name(self) -> str:
        """Return the device's name."""
        return f"gpu-{self.index}"


def gpu_class(driver: str = NVIDIA, version: str = "v1") -> Document:
    """Return the DeviceClass that comes with the driver."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceClass",
        "metadata": {"name": driver},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }


def gpu_slice(
    node: str, gpus: Iterable[Gpu], driver: str = NVIDIA, version: str = "v1"
) -> Document:
    """Return the slice that is the driver's whole pool on a node."""
    devices = [_device(gpu, driver, version) for gpu in gpus]
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _device(gpu: Gpu, driver: str, version: str) -> Document:
    body = {
        "attributes": {
            name: _attribute(value) for name, value in {**_WORDS[driver], **_topology(gpu)}.items()
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }
    return {"name": gpu.name, **({"basic": body} if version == "v1beta1" else body)}


def _topology(gpu: Gpu) -> Mapping[str, object]:
    found: dict[str, object] = {
        "index": gpu.index,
        "uuid": f"GPU-{gpu.index:08x}-0000-0000-0000-000000000000",
        f"{_STANDARD}/pciBusID": gpu.address,
        f"{_STANDARD}/pcieRoot": gpu.root,
    }
    return found if gpu.numa_node < 0 else found | {f"{_STANDARD}/numaNode": gpu.numa_node}


def _attribute(value: object) -> Document:
    if isinstance(value, tuple):
        return {"version": value[0]}
    return {"int" if isinstance(value, int) else "string": value}


_WORDS: Final[Mapping[str, Mapping[str, object]]] = {
    NVIDIA: {
        "type": "gpu",
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": ("9.0.0",),
        "driverVersion": ("580.65.6",),
        "cudaDriverVersion": ("13.0.0",),
    },
    EXAMPLE: {"model": "LATEST-GPU-MODEL", "driverVersion": ("1.0.0",)},
}
