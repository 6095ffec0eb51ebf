"""Slices of nodes with GPUs and NICs, as their drivers publish them, for `kubectl dranet`.

ND H100 v5 and A4 are those of explained_nodes. DGX H100: eight GPUs, each with a ConnectX-7 at its
root, and two NICs for storage. GB200: four GPUs and four ConnectX-7 on two sockets; each device has
a PCI domain of its own. MI300X: eight GPUs of AMD's driver, each with a NIC at its root.
"""

import json

from tests.dra_shim.commands.explained_nodes import STANDARD, Json, a4_highgpu, nd_h100


def dgx_h100() -> str:
    """Return slices of a DGX H100."""
    roots = [f"pci0000:{0x15 + 16 * index:02x}" for index in range(8)]
    gpus = [
        _gpu(f"gpu-{index}", f"0000:{0x1B + 16 * index:02x}:00.0", root, "NVIDIA H100 80GB HBM3")
        for index, root in enumerate(roots)
    ]
    nics = [
        _nic(f"ibp{index}", f"mlx5_{index}", f"0000:{0x18 + 16 * index:02x}:00.0", root, index // 4)
        for index, root in enumerate(roots)
    ]
    nics += [
        _nic("enp170s0", "mlx5_8", "0000:aa:00.0", "pci0000:a0", 0),
        _nic("enp41s0", "mlx5_9", "0000:29:00.0", "pci0000:20", 1),
    ]
    return _slices("dgx-h100", "gpu.nvidia.com", gpus, nics)


def gb200() -> str:
    """Return slices of a compute tray of GB200 NVL72."""
    gpus = [
        _gpu(f"gpu-{index}", f"{domain}:01:00.0", f"pci{domain}:00", "NVIDIA GB200")
        for index, domain in enumerate(("0008", "0009", "0018", "0019"))
    ]
    nics = [
        _nic(
            f"gpu{index}rdma0", f"mlx5_{index}", f"{domain}:03:00.0", f"pci{domain}:00", index // 2
        )
        for index, domain in enumerate(("0000", "0002", "0010", "0012"))
    ]
    return _slices("gb200", "gpu.nvidia.com", gpus, nics)


def mi300x() -> str:
    """Return slices of a node with eight MI300X."""
    roots = [f"pci0000:{0x01 + 0x20 * index:02x}" for index in range(8)]
    gpus = [
        _gpu(f"gpu-{index}", f"0000:{0x05 + 0x20 * index:02x}:00.0", root, "AMD Instinct MI300X")
        for index, root in enumerate(roots)
    ]
    nics = [
        _nic(f"rdma{i}", f"bnxt_re{i}", f"0000:{0x06 + 0x20 * i:02x}:00.0", root, i // 4)
        for i, root in enumerate(roots)
    ]
    return _slices("mi300x", "gpu.amd.com", gpus, nics)


def nodes() -> dict[str, str]:
    """Return the slices of each node by its name."""
    return {
        "dgx-h100": dgx_h100(),
        "gb200": gb200(),
        "mi300x": mi300x(),
        "gke-a4-0": a4_highgpu(),
        "aks-gpu-0": nd_h100(),
    }


def claim(name: str, pod: str, *devices: tuple[str, str, str]) -> Json:
    """Return a claim of namespace ml that has devices, reserved for a pod."""
    results = [
        {"request": f"r{index}", "driver": driver, "pool": pool, "device": device}
        for index, (driver, pool, device) in enumerate(devices)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml", "uid": name},
        "spec": {"devices": {"requests": []}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": pod}],
        },
    }


def driver_pod(node: str, *, ready: bool = True) -> Json:
    """Return the driver's pod of a node."""
    status = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"dranet-{node}", "namespace": "kube-system", "labels": {"k8s-app": "dranet"},
            "annotations": {"token": "s3cret"},
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": "dranet", "image": "registry.example:5000/dranet-nri:0.1.0",
                    "env": [{"name": "PASSWORD", "value": "s3cret"}], "args": ["--token=s3cret"],
                }
            ],
        },
        "status": {"phase": "Running", "conditions": [status]},
    }  # fmt: skip


def _gpu(name: str, address: str, root: str, product: str) -> Json:
    return {
        "name": name,
        "attributes": {
            "productName": {"string": product},
            "type": {"string": "gpu"},
            f"{STANDARD}/pciBusID": {"string": address},
            f"{STANDARD}/pcieRoot": {"string": root},
        },
    }


def _nic(name: str, rdma: str, address: str, root: str, numa: int) -> Json:
    return {
        "name": f"pci-{address.replace(':', '-').replace('.', '-')}",
        "attributes": {
            "dra.net/ifName": {"string": name},
            "dra.net/rdma": {"bool": True},
            "dra.net/rdmaDevice": {"string": rdma},
            "dra.net/numaNode": {"int": numa},
            f"{STANDARD}/pciBusID": {"string": address},
            f"{STANDARD}/pcieRoot": {"string": root},
        },
    }


def _slices(node: str, gpu_driver: str, gpus: list[Json], nics: list[Json]) -> str:
    items = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }
        for driver, devices in ((gpu_driver, gpus), ("dra.net", nics))
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
