"""A NIC as the allocator sees it, with attributes of every kind and of several domains."""

from dra_shim.resourceapi import SliceDevice
from dranet_nri.model import Version

NIC = SliceDevice(
    "dra.net",
    "node",
    "pci-0000-8a-00-0",
    (
        ("bare", "x"),
        ("dra.net/firmware", Version("22.39.1002-rc.1+build")),
        ("dra.net/ifName", "eth1"),
        ("dra.net/numaNode", 0),
        ("dra.net/pciDevice", "MT2910 Family [ConnectX-7]"),
        ("dra.net/rdma", True),
        ("dra.net/rdmaDevice", "mlx5_0"),
        ("dra.net/type", "device"),
        ("dra.net/virtual", False),
        ("gce.dra.net/networkName", "rdma-0"),
        ("oke.dra.net/localBlockId", "abc"),
        ("resource.kubernetes.io/numaNode", 0),
        ("resource.kubernetes.io/pciBusID", "0001:00:00.0"),
        ("resource.kubernetes.io/pcieRoot", "pci0000:8a"),
    ),
)
