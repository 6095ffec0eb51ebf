"""Servers for training: the facts that a scan of each one gives, and its GPUs.

Addresses and names are made up, the layout is not: which GPU and which NIC share a PCIe root or a
NUMA node is as on the real ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dranet_nri.inventory import (
    AzureHost,
    HostFacts,
    NetDevice,
    PciFunction,
    RdmaDeviceFacts,
    RdmaPortFacts,
    inventory_from_facts,
    placements,
)
from dranet_nri.model import Address, DefaultRoute, Device, Link
from tests.fakes.gpus import Gpu

GPU_TAINT: Final = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}

_MELLANOX: Final = "Mellanox Technologies"
_UPLINK: Final = "0000:00:1f.6"
_DOMAINS: Final = ("0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c")


@dataclass(frozen=True, slots=True)
class Machine:
    """A node as its drivers see it.

    Attributes:
        kind: a word for names.
        facts: the result of a scan.
        labels, taints: what the cloud gives its Node.
    """

    kind: str
    facts: HostFacts
    gpus: tuple[Gpu, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()

    @property
    def devices(self) -> tuple[Device, ...]:
        """Return the NICs that may be given to pods."""
        return inventory_from_facts(self.facts).devices


def server() -> Machine:
    """Return one with two sockets, eight GPUs and eight RoCE NICs; a pair shares a PCIe root.

    GPUs are numbered the other way round than NICs: the first of each are no pair.
    """
    buses = [0x10 * (index + 1) for index in range(8)]
    return _with_gpus(
        "server",
        [
            _nic(f"0000:{bus + 2:02x}:00.0", f"eth{i + 1}", i // 4, f"pci0000:{bus:02x}")
            for i, bus in enumerate(buses)
        ],
        [
            Gpu(7 - i, f"0000:{bus + 1:02x}:00.0", f"pci0000:{bus:02x}", i // 4)
            for i, bus in reversed([*enumerate(buses)])
        ],
    )


def nd_h100() -> Machine:
    """Return Azure's Standard_ND96isr_H100_v5: eight H100, eight InfiniBand functions.

    Each is alone in its PCI domain, and no firmware tells its NUMA node.
    """
    azure = AzureHost(frozenset(_DOMAINS))
    numa = {gpu: spot.numa_node for spot in placements(azure).values() for gpu in spot.gpu_domains}
    return _with_gpus(
        "nd-h100",
        [
            _infiniband(f"{0x101 + i:04x}:00:00.0", f"ib{i}", f"mlx5_{i}", rate=400)
            for i in range(8)
        ],
        [
            Gpu(i, f"{domain}:00:00.0", f"pci{domain}:00", numa[domain])
            for i, domain in enumerate(_DOMAINS)
        ],
        azure,
        labels={"node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5"},
    )


def hb_v4() -> Machine:
    """Return Azure's Standard_HB176rs_v4: no GPU, one InfiniBand function."""
    nic = _infiniband("0101:00:00.0", "ib0", "mlx5_0", rate=400)
    label = {"node.kubernetes.io/instance-type": "Standard_HB176rs_v4"}
    return Machine("hb", _facts([nic], AzureHost(vm_size="Standard_HB176rs_v4")), labels=label)


def emulated() -> Machine:
    """Return the GPUs of the tests' machine, beside its RDMA devices; NICs it has of its own.

    They have the bus addresses of nd_h100's first four, which the training asks for.
    """
    gpus = [Gpu(i, f"{domain}:00:00.0", "pci0000:80", 1) for i, domain in enumerate(_DOMAINS[:4])]
    return Machine("emulated", HostFacts(), tuple(gpus))


def split() -> Machine:
    """Return one without GPUs: two NICs with two virtual functions each."""
    nics: list[Nic] = []
    for bus in ("10", "20"):
        physical = f"0000:{bus}:00.0"
        for number in range(3):
            name = f"eth{bus}" + (f"v{number - 1}" if number else "")
            function, netdev, rdma = _nic(f"0000:{bus}:00.{number}", name, 0, f"pci0000:{bus}")
            above = physical if number else ""
            nics.append((replace(function, physical=above), netdev, rdma))
    return Machine("split", _facts(nics))


def a4_highgpu() -> Machine:
    """Return Google's a4-highgpu-8g: eight B200, eight RoCE NICs; two of each share a PCIe root.

    PCI addresses fall while the numbers rise: the first NICs by name are not beside GPU 0.
    """
    buses = [0x80 - 16 * index for index in range(8)]
    roots = [f"pci0000:{0x70 - 32 * (index // 2):02x}" for index in range(8)]
    return _with_gpus(
        "a4",
        [
            _nic(
                f"0000:{bus + 2:02x}:00.0",
                f"gpu{i}rdma0",
                i // 4,
                roots[i],
                Address(f"192.168.{i + 1}.5/32"),
                8896,
            )
            for i, bus in enumerate(buses)
        ],
        [Gpu(i, f"0000:{bus + 1:02x}:00.0", roots[i], i // 4) for i, bus in enumerate(buses)],
        labels={
            "nvidia.com/gpu.present": "true",
            "cloud.google.com/gke-accelerator": "nvidia-b200",
        },
        taints=(GPU_TAINT,),
    )


# --------------------------------------------------------------------------- parts

Nic = tuple[PciFunction, NetDevice, RdmaDeviceFacts]


def _with_gpus(
    kind: str,
    nics: Iterable[Nic],
    gpus: Iterable[Gpu],
    azure: AzureHost | None = None,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Mapping[str, str], ...] = (),
) -> Machine:
    return Machine(kind, _facts(nics, azure), tuple(gpus), labels or {}, taints)


def _facts(nics: Iterable[Nic], azure: AzureHost | None = None) -> HostFacts:
    """Return what is seen of a node with these NICs, and of its uplink."""
    functions, netdevs, rdma = zip(*nics, strict=True)
    uplink = Link(2, "eth0", up=True, carrier=True, operstate="up", bus="pci", parent=_UPLINK)
    return HostFacts(
        (PciFunction(_UPLINK, "virtio-pci", root="pci0000:00"), *functions),
        (NetDevice(uplink, pci=_UPLINK), *netdevs),
        rdma,
        (DefaultRoute(4, 100, (2,)),),
        numa_nodes=2,
        azure=azure,
    )


def _nic(
    address: str,
    name: str,
    numa_node: int,
    root: str,
    ip: Address | None = None,
    mtu: int = 4200,
) -> Nic:
    """Return a RoCE NIC."""
    index = 10 + int(address[5:7], 16)
    function = PciFunction(
        address, "mlx5_core", numa_node, root, "0041", _MELLANOX, "MT2910 Family [ConnectX-7]"
    )
    link = Link(
        index, name, mac=f"b8:ce:f6:00:00:{index:02x}", mtu=mtu, up=True, carrier=True,
        operstate="up", bus="pci", parent=address,
    )  # fmt: skip
    netdev = NetDevice(link, (ip,) if ip else (), address, speed_mbps=400_000)
    port = RdmaPortFacts(1, "ACTIVE", "400 Gb/sec (4X NDR)", "Ethernet", (name,), "LinkUp", 400)
    rdma = RdmaDeviceFacts(
        f"mlx5_{index}", "pci", address, address, "CA", ports=(port,), protocol="roce"
    )  # fmt: skip
    return function, netdev, rdma


def _infiniband(address: str, name: str, hca: str, rate: int) -> Nic:
    """Return an InfiniBand function as Azure passes it through: of no NUMA node that it knows."""
    index = int(address[:4], 16)
    function = PciFunction(
        address, "mlx5_core", -1, f"pci{address[:7]}", "0040", _MELLANOX, "ConnectX Family VF"
    )
    guid = f"0015:5dff:fe34:{index:04x}"
    mac = f"00:00:01:47:fe:80:00:00:00:00:00:00:00:15:5d:ff:fe:34:01:{index & 0xFF:02x}"
    link = Link(index, name, "", 32, mac, 2044, operstate="down", bus="pci", parent=address)
    port = RdmaPortFacts(
        1, "ACTIVE", f"{rate} Gb/sec (4X NDR)", "InfiniBand", (name,), "LinkUp", rate,
        lid=index, sm_lid=1, subnet_prefix="fe80:0000:0000:0000", guid=guid, pkeys=(0xFFFF, 0x8012),
    )  # fmt: skip
    return (
        function,
        NetDevice(link, pci=address),
        RdmaDeviceFacts(hca, "pci", address, address, "CA", guid, (port,), protocol="ib"),
    )
