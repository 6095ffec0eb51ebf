"""Slices of nodes with GPUs and NICs, as their drivers publish them, for `kubectl dranet`.

ND H100 v5 and A4 are those of explained_nodes. DGX H100: eight GPUs, each with a ConnectX-7 at its
root, and two cards with two ports for storage; addresses and names as in NVIDIA's user guide.
GB200: four GPUs and four ConnectX-8 with two ports on two sockets, as in slices of OKE's
BM.GPU.GB200-v3.4; each GPU and each card has a PCI domain of its own.
MI300X: eight GPUs of AMD's driver, which publishes their NUMA nodes, each with a NIC at its root.
"""

import json

from tests.dra_shim.commands.explained_nodes import STANDARD, Json, a4_highgpu, nd_h100


def dgx_h100() -> str:
    """Return slices of a DGX H100."""
    roots = [f"pci0000:{bus}" for bus in ("15", "37", "48", "59", "97", "b7", "c7", "d7")]
    gpu_buses = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
    nic_buses = (0x18, 0x40, 0x4F, 0x5E, 0x9A, 0xC0, 0xCE, 0xDC)
    gpus = [
        _gpu(f"gpu-{index}", f"0000:{bus:02x}:00.0", root, "NVIDIA H100 80GB HBM3")
        for index, (bus, root) in enumerate(zip(gpu_buses, roots, strict=True))
    ]
    numbers = (0, 3, 4, 5, 6, 9, 10, 11)  # of the RDMA devices
    nics = [
        _nic(f"ibp{bus}s0", f"mlx5_{number}", f"0000:{bus:02x}:00.0", roots[index], index // 4)
        for index, (bus, number) in enumerate(zip(nic_buses, numbers, strict=True))
    ]
    storage = ((0x29, 1, "pci0000:26", 0), (0xAA, 7, "pci0000:a7", 1))
    nics += [
        _nic(f"enp{bus}s0f{f}", f"mlx5_{first + f}", f"0000:{bus:02x}:00.{f}", root, numa)
        for bus, first, root, numa in storage
        for f in (0, 1)
    ]
    return _slices("dgx-h100", "gpu.nvidia.com", gpus, nics)


def gb200() -> str:
    """Return slices of a compute tray of GB200 NVL72."""
    gpus = [
        _gpu(f"gpu-{index}", f"{domain}:06:00.0", f"pci{domain}:00", "NVIDIA GB200")
        for index, domain in enumerate(("0008", "0009", "0018", "0019"))
    ]
    nics = [
        _nic(
            f"rdma{2 * index + port}", f"mlx5_{2 * index + port}", f"{domain}:03:00.{port}",
            f"pci{domain}:00", index // 2,
        )
        for index, domain in enumerate(("0000", "0002", "0010", "0012"))
        for port in (0, 1)
    ]  # fmt: skip
    return _slices("gb200", "gpu.nvidia.com", gpus, nics)


def mi300x() -> str:
    """Return slices of a node with eight MI300X."""
    roots = [f"pci0000:{0x20 * index:02x}" for index in range(8)]
    gpu_buses = (0x05, 0x26, 0x46, 0x65, 0x85, 0xA6, 0xC6, 0xE5)
    nic_buses = (0x06, 0x25, 0x45, 0x66, 0x86, 0xA5, 0xC5, 0xE6)
    gpus = [
        _gpu(
            f"gpu-{index}-{128 + index}", f"0000:{bus:02x}:00.0", root, "AMD_Instinct_MI300X",
            type={"string": "amdgpu"}, numaNode={"int": index // 4},
        )
        for index, (bus, root) in enumerate(zip(gpu_buses, roots, strict=True))
    ]  # fmt: skip
    nics = [
        _nic(f"rdma{index}", f"bnxt_re{index}", f"0000:{bus:02x}:00.0", root, index // 4)
        for index, (bus, root) in enumerate(zip(nic_buses, roots, strict=True))
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


def _gpu(name: str, address: str, root: str, product: str, **more: Json) -> Json:
    return {
        "name": name,
        "attributes": {
            "productName": {"string": product},
            "type": {"string": "gpu"},
            f"{STANDARD}/pciBusID": {"string": address},
            f"{STANDARD}/pcieRoot": {"string": root},
            **more,
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
