"""Two nodes with GPUs and NICs as slices, as input of `explain`.

Addresses: ND H100 v5 has GPUs 0001, 0002, 0003, 0008 and NICs 0101 to 0104 on NUMA node 0, GPUs
0009 to 000c and NICs 0105 to 0108 on node 1, each alone in its PCI domain; the NICs name the
domains of their GPUs. A4 has eight GPUs and
eight NICs; two of each share a root.
"""

import json
from collections.abc import Iterable

Json = dict[str, object]

STANDARD = "resource.kubernetes.io"
_ND_GPUS = ("0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c")


def nd_h100() -> str:
    """Return slices of a Standard_ND96isr_H100_v5 node, in v1."""
    gpus = [_gpu(index, f"{domain}:00:00.0") for index, domain in enumerate(_ND_GPUS)]
    nics = [
        _nic(
            index, f"{0x101 + index:04x}:00:00.0", numa=index // 4, name=f"ib{index}",
            more={"azure.dra.net/gpuDomains": {"string": domain}},
        )
        for index, domain in enumerate(_ND_GPUS)
    ]  # fmt: skip
    return _file("v1", "aks-gpu-0", gpus, nics)


def a4_highgpu() -> str:
    """Return slices of an a4-highgpu-8g node, in v1beta1."""
    roots = [f"pci0000:{0x10 + 32 * (i // 2):02x}" for i in range(8)]
    gpus = [_gpu(i, f"0000:{0x10 + 16 * i:02x}:00.0", roots[i], "NVIDIA B200") for i in range(8)]
    nics = [
        _nic(i, f"0000:{0x11 + 16 * i:02x}:00.0", numa=i // 4, name=f"gpu{i}rdma0", root=roots[i])
        for i in range(8)
    ]
    return _file("v1beta1", "gke-a4-0", gpus, nics)


def _gpu(index: int, address: str, root: str = "", product: str = "NVIDIA H100") -> Json:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "index": {"int": index},
            "productName": {"string": product},
            f"{STANDARD}/pciBusID": {"string": address},
            f"{STANDARD}/pcieRoot": {"string": root or f"pci{address[:7]}"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }


def _nic(
    index: int, address: str, *, numa: int, name: str, root: str = "", more: Json | None = None
) -> Json:
    return {
        "name": f"pci-{address.replace(':', '-').replace('.', '-')}",
        "attributes": {
            "dra.net/ifName": {"string": name},
            "dra.net/rdma": {"bool": True},
            "dra.net/numaNode": {"int": numa},
            "dra.net/rdmaDevice": {"string": f"mlx5_{index}"},
            **(more or {}),
            f"{STANDARD}/pciBusID": {"string": address},
            f"{STANDARD}/pcieRoot": {"string": root or f"pci{address[:7]}"},
        },
    }


def _file(version: str, node: str, gpus: Iterable[Json], nics: Iterable[Json]) -> str:
    slices = [
        _slice(version, node, "gpu.nvidia.com", gpus),
        _slice(version, node, "dra.net", nics),
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": slices})


def _slice(version: str, node: str, driver: str, devices: Iterable[Json]) -> Json:
    flat = [
        {"name": device["name"], "basic": {k: v for k, v in device.items() if k != "name"}}
        if version == "v1beta1"
        else device
        for device in devices
    ]
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}-x7k2p"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": flat,
        },
    }
