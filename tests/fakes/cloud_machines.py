"""Machines of clouds for which kubernetes-sigs/dranet has examples, as their drivers publish them.

Bus addresses, NUMA nodes and names of devices have the layout of the ResourceSlices in its
examples, and of the providers' documents. MACs and ids are made up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dra_shim.cloud.provider import DeviceFacts, enriched
from dranet_nri.inventory import (
    HostFacts,
    NetDevice,
    PciFunction,
    RdmaDeviceFacts,
    RdmaPortFacts,
    inventory_from_facts,
)
from dranet_nri.model import DefaultRoute, Device, Link
from tests.fakes.gpus import Gpu

PLACEMENT_GROUP: Final = "11111111-2222-3333-4444-555555555555"
BLOCKS: Final = ("localBlockId", "networkBlockId", "gpuMemoryFabricId")

_CONNECTX_VF: Final = ("0240", "Mellanox Technologies", "ConnectX Family mlx5Gen Virtual Function")
_CONNECTX_7: Final = ("0041", "Mellanox Technologies", "MT2910 Family [ConnectX-7]")
_CONNECTX_8: Final = ("0091", "Mellanox Technologies", "CX8 Family [ConnectX-8]")
_EFA: Final = ("efa0", "Amazon.com, Inc.", "Elastic Fabric Adapter (EFA)")
_ENA: Final = ("ec20", "Amazon.com, Inc.", "Elastic Network Adapter (ENA)")
_ERDMA: Final = ("0000", "Alibaba (China) Co., Ltd.", "Elastic RDMA adapter")
_GVNIC: Final = ("0058", "Google, Inc.", "Compute Engine Virtual Ethernet [gVNIC]")

_GB200_GPUS: Final = ("0008:06:00.0", "0009:06:00.0", "0018:06:00.0", "0019:06:00.0")


@dataclass(frozen=True, slots=True)
class Nic:
    """One PCI function with a net device, an RDMA device, or both.

    Attributes:
        product: subsystem id, and names of vendor and device.
        name: of its net device, "" if it has none.
        rdma: name of its RDMA device, "" if it has none.
        protocol: of the RDMA device's port; "" for EFA.
    """

    address: str
    driver: str
    product: tuple[str, str, str]
    numa_node: int = 0
    name: str = ""
    rdma: str = ""
    protocol: str = "roce"

    @property
    def function(self) -> PciFunction:
        """Return the PCI function as a scan sees it."""
        root = f"pci{self.address[:7]}"
        return PciFunction(self.address, self.driver, self.numa_node, root, *self.product)

    def netdev(self, index: int) -> NetDevice:
        """Return the net device as a scan sees it."""
        link = Link(
            index, self.name, mac=f"02:00:00:00:00:{index:02x}", mtu=9000, up=True, carrier=True,
            operstate="up", bus="pci", parent=self.address,
        )  # fmt: skip
        return NetDevice(link, (), self.address, speed_mbps=400_000)

    @property
    def rdma_device(self) -> RdmaDeviceFacts:
        """Return the RDMA device as a scan sees it."""
        layer = "InfiniBand" if self.protocol == "ib" else "Ethernet"
        netdevs = (self.name,) if self.name else ()
        port = RdmaPortFacts(1, "ACTIVE", "400 Gb/sec (4X NDR)", layer, netdevs, "LinkUp", 400)
        return RdmaDeviceFacts(
            self.rdma, "pci", self.address, self.address, "CA", ports=(port,),
            protocol=self.protocol,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CloudMachine:
    """A node of a cloud.

    Attributes:
        cloud: attributes that the cloud gives each NIC.
    """

    nics: tuple[Nic, ...]
    gpus: tuple[Gpu, ...] = ()
    cloud: Mapping[str, str | bool] = field(default_factory=dict)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Return the NICs that pods may have, with the attributes of the cloud."""
        uplink = Nic("00ff:00:1f.0", "virtio-pci", ("0001", "", ""), name="eth0")
        netdevs = [nic.netdev(2 + i) for i, nic in enumerate((uplink, *self.nics)) if nic.name]
        facts = HostFacts(
            tuple(nic.function for nic in (uplink, *self.nics)),
            tuple(netdevs),
            tuple(nic.rdma_device for nic in self.nics if nic.rdma),
            (DefaultRoute(4, 100, (2,)),),
            numa_nodes=2,
        )
        given = DeviceFacts(tuple(self.cloud.items()))
        return tuple(enriched(device, given) for device in inventory_from_facts(facts).devices)


def efa() -> CloudMachine:
    """Return an instance of EC2 with four EFA devices, three ENA NICs and eight GPUs."""
    buses = ((0x10, 0), (0x20, 0), (0x90, 1), (0xA0, 1))
    fabric = [
        Nic(f"0000:{bus:02x}:1b.0", "efa", _EFA, numa, rdma=f"rdmap{bus}s27", protocol="")
        for bus, numa in buses
    ]
    plain = [
        Nic(f"0000:{bus:02x}:01.0", "ena", _ENA, numa, name=f"ens{bus + 33}")
        for bus, numa in buses[1:]
    ]
    gpus = [
        Gpu(2 * i + function, f"0000:{bus:02x}:{0x1C + function:02x}.0", f"pci0000:{bus:02x}", numa)
        for i, (bus, numa) in enumerate(buses)
        for function in range(2)
    ]
    return CloudMachine((*fabric, *plain), tuple(gpus))


def gb300() -> CloudMachine:
    """Return Azure's Standard_ND128isr_GB300_v6: four InfiniBand functions without net device."""
    cloud = {"azure.dra.net/placementGroupId": PLACEMENT_GROUP}
    return CloudMachine(_infiniband(4), _grace_gpus(), cloud)


def mi300x() -> CloudMachine:
    """Return Azure's Standard_ND96isr_MI300X_v5: eight InfiniBand functions."""
    return CloudMachine(_infiniband(8))


def gb200() -> CloudMachine:
    """Return Oracle's BM.GPU.GB200-v3.4: four cards with two RoCE ports each, four GPUs."""
    cards = [("0000", 0), ("0002", 0), ("0010", 1), ("0012", 1)]
    places = [(f"{domain}:03:00.{port}", numa) for domain, numa in cards for port in range(2)]
    cloud = {f"oke.dra.net/{name}": f"{name.lower()}-1" for name in BLOCKS}
    return CloudMachine(_roce("rdma", places, _CONNECTX_8), _grace_gpus(), cloud)


def oke_h100() -> CloudMachine:
    """Return Oracle's BM.GPU.H100.8: sixteen RoCE ports, eight GPUs, and an Ethernet NIC."""
    places = [(f"0000:{16 * i + 12:02x}:00.0", i // 8) for i in range(16)]
    front = Nic("0000:01:00.0", "mlx5_core", _CONNECTX_7, name="eth1", rdma="mlx5_16")
    gpus = [Gpu(i, f"0000:{32 * i + 8:02x}:00.0", f"pci0000:{32 * i:02x}") for i in range(8)]
    return CloudMachine((front, *_roce("rdma", places, _CONNECTX_7)), tuple(gpus))


def gke_rdma() -> CloudMachine:
    """Return Google's a3-ultragpu-8g: eight RoCE NICs that are named by GPU."""
    places = [(f"0000:{16 * i + 12:02x}:00.0", i // 4) for i in range(8)]
    nics = _roce("gpu", places, _CONNECTX_7)
    return CloudMachine(tuple(replace(nic, name=f"{nic.name}rdma0") for nic in nics))


def gke_multinetwork() -> CloudMachine:
    """Return a GKE node with a gVNIC in a second network."""
    nic = Nic("0000:00:06.0", "gve", _GVNIC, -1, name="eth1")
    return CloudMachine((nic,), cloud={"gce.dra.net/networkName": "dranet-net-1"})


def erdma() -> CloudMachine:
    """Return an Alibaba instance with an elastic RDMA interface."""
    nic = Nic("0000:00:07.0", "erdma", _ERDMA, rdma="erdma_0", protocol="iw")
    return CloudMachine((nic,), cloud={"alibaba.dra.net/erdma": True})


def _infiniband(number: int) -> tuple[Nic, ...]:
    """Return InfiniBand functions, each in a PCI domain of its own, half on each NUMA node."""
    return tuple(
        Nic(
            f"{0x101 + i:04x}:00:00.0", "mlx5_core", _CONNECTX_VF, 2 * i // number,
            rdma=f"mlx5_{i}", protocol="ib",
        )
        for i in range(number)
    )  # fmt: skip


def _roce(
    prefix: str, places: list[tuple[str, int]], product: tuple[str, str, str]
) -> tuple[Nic, ...]:
    """Return RoCE ports at these addresses and NUMA nodes, with numbered names."""
    return tuple(
        Nic(address, "mlx5_core", product, numa, name=f"{prefix}{i}", rdma=f"mlx5_{i}")
        for i, (address, numa) in enumerate(places)
    )


def _grace_gpus() -> tuple[Gpu, ...]:
    """Return the four GPUs of a node with two Grace CPUs."""
    return tuple(
        Gpu(i, address, f"pci{address[:4]}:00", i // 2) for i, address in enumerate(_GB200_GPUS)
    )
