"""Shapes of rows: the claims of a pod, and the act during which the plugin dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from dranet_nri.facts.host import boot_id
from dranet_nri.model import (
    Addressing,
    AllocatedDevice,
    Allocation,
    ContainerClaim,
    Device,
    DeviceKey,
    DriverSetting,
    EthtoolConfig,
    InterfaceConfig,
    IpvlanConfig,
    MacvlanConfig,
    NeighbourConfig,
    NetworkConfig,
    ObjectRef,
    RdmaConfig,
    RouteConfig,
    RuleConfig,
    Switches,
    VlanConfig,
    VrfConfig,
)

NOTHING: Final = NetworkConfig()
EVERYTHING: Final = NetworkConfig(
    interface=InterfaceConfig(
        name="rdma0",
        addresses=("192.168.7.5/24", "fd00:77::5/64"),
        mtu=1300,
        hardware_addr="02:00:00:00:77:05",
        arp_ignore=1,
        arp_announce=2,
        forwarding=True,
        tx_queue_len=77,
        altnames=("rail-7",),
        dad_transmits=0,
        router_solicitations=3,
    ),
    routes=(
        RouteConfig("172.31.0.0/16", "192.168.7.1"),
        RouteConfig("172.30.0.1/32", scope=253, table=77),
    ),
    rules=(RuleConfig(700, source="192.168.7.0/24", table=77),),
    neighbors=(NeighbourConfig("192.168.7.9", "02:00:00:00:00:0a"),),
    ethtool=EthtoolConfig(features=Switches(on=("rx-gro",), off=("tso",))),
)
RENAMED: Final = NetworkConfig(rdma=RdmaConfig(name="mlx5_77"))
REFUSED: Final = NetworkConfig(routes=(RouteConfig("172.31.0.0/16", "198.51.100.1"),))
CHILD: Final = NetworkConfig(
    interface=InterfaceConfig(
        name="net1",
        addresses=("192.168.7.5/24",),
        hardware_addr="02:00:00:00:77:05",  # else another one in each pod
        macvlan=MacvlanConfig(),
    )
)
IPVLAN: Final = NetworkConfig(
    interface=InterfaceConfig(
        name="net1", addresses=("192.168.7.5/24", "fd00:77::5/64"), ipvlan=IpvlanConfig()
    )
)
VLAN: Final = NetworkConfig(
    interface=InterfaceConfig(name="net1", addresses=("192.168.7.5/24",), vlan=VlanConfig(77))
)
VRF: Final = NetworkConfig(
    interface=InterfaceConfig(addresses=("192.168.7.5/24",), vrf=VrfConfig("blue", 77)),
    routes=(RouteConfig("172.31.0.0/16", "192.168.7.1"),),
)
SETTINGS: Final = NetworkConfig(
    ethtool=EthtoolConfig(
        settings=(
            DriverSetting("rings.rx", 512),
            DriverSetting("rings.tx", 128),
            DriverSetting("channels.combined", 2),
            DriverSetting("coalesce.rxUsecs", 20),
        )
    )
)
LEASED: Final = NetworkConfig(interface=InterfaceConfig(name="net1", addressing=Addressing.DHCP))
ROUTED: Final = NetworkConfig(routes=(RouteConfig("172.29.0.0/16", scope=253),))


MACHINES: Final = frozenset({"kvm", "uml", "tcg"})  # BOX_MACHINE, see hack/box/run-machine


class Act(StrEnum):
    """What the runtime does while the plugin dies."""

    ATTACH = "attach"  # RunPodSandbox
    UNDO = "undo"  # RunPodSandbox, which the kernel refuses in the middle
    DETACH = "detach"  # StopPodSandbox and RemovePodSandbox
    SUPERSEDE = "supersede"  # RunPodSandbox of the pod's second sandbox, the first not stopped
    RECOVER = "recover"  # takes over from a plugin that died amid an attach
    UNLINKED = "unlinked"  # the namespace loses its path, then StopPodSandbox; hardware only
    DESTROYED = "destroyed"  # nothing; the namespace died while no plugin ran; hardware only
    LEFT = "left"  # nothing; somebody moves the pod's NICs to the host


HARDWARE_ONLY: Final = frozenset({Act.UNLINKED, Act.DESTROYED})


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of pod.

    Attributes:
        name: in the table.
        act: what is cut short.
        claims: one tuple of parameters a claim, one entry a NIC.
        shared: the pod has a share of each NIC, which stays on the host.
        spoilt: the pod leaves flags, a group and programs on its NICs.
        taken: other links have the NICs' names on the host until they are back.
        machines: only on machines of these kinds, whose kernel and NICs have what it takes; empty:
            everywhere.
    """

    name: str
    act: Act
    claims: tuple[tuple[NetworkConfig, ...], ...]
    shared: bool = False
    spoilt: bool = False
    taken: bool = False
    machines: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """Return the number of NICs."""
        return sum(len(claim) for claim in self.claims)

    @property
    def has_lease(self) -> bool:
        """Whether a DHCP server gives an address."""
        return self.claims == ((LEASED,),)

    @property
    def has_rdma(self) -> bool:
        """Return whether it is about RDMA devices."""
        return any(config.rdma != NOTHING.rdma for claim in self.claims for config in claim)


_PODS: Final = {
    "1 NIC": ((NOTHING,),),
    "3 NICs": ((NOTHING,) * 3,),
    "2 claims": ((NOTHING,), (NOTHING,)),
    "parameters": ((EVERYTHING,),),
}
SHAPES: Final = (
    *(
        Shape(f"{act} {pod}", act, claims)
        for act in (Act.ATTACH, Act.DETACH)
        for pod, claims in _PODS.items()
    ),
    Shape("attach one route twice", Act.ATTACH, ((ROUTED,), (ROUTED,))),
    Shape("detach spoilt", Act.DETACH, ((NOTHING,),), spoilt=True),
    Shape("detach 2 NICs, names taken", Act.DETACH, ((NOTHING, NOTHING),), taken=True),
    Shape("undo 3 NICs", Act.UNDO, ((NOTHING, NOTHING, REFUSED),)),
    Shape("undo 2 claims", Act.UNDO, ((NOTHING,), (REFUSED,))),
    Shape("supersede 1 NIC", Act.SUPERSEDE, ((NOTHING,),)),
    Shape("supersede 2 claims", Act.SUPERSEDE, ((NOTHING,), (NOTHING,))),
    Shape("recover 1 NIC", Act.RECOVER, ((NOTHING,),)),
    Shape("recover 2 claims", Act.RECOVER, ((NOTHING,), (NOTHING,))),
    Shape("unlinked 1 NIC", Act.UNLINKED, ((NOTHING,),)),
    Shape("destroyed 1 NIC", Act.DESTROYED, ((NOTHING,),)),
    Shape("destroyed parameters", Act.DESTROYED, ((EVERYTHING,),)),
    Shape("left 1 NIC", Act.LEFT, ((NOTHING,),)),
    Shape("left parameters", Act.LEFT, ((EVERYTHING,),)),
    *(
        Shape(f"{act} share", act, ((NOTHING,),), shared=True)
        for act in (Act.ATTACH, Act.DETACH, Act.SUPERSEDE)
    ),
    *(
        Shape(f"{act} child", act, ((CHILD,),))
        for act in (Act.ATTACH, Act.DETACH, Act.SUPERSEDE, Act.RECOVER)
    ),
    *(
        Shape(f"{act} {name}", act, ((config,),), machines=machines)
        for name, config, machines in (
            ("IPVLAN", IPVLAN, MACHINES),
            ("VLAN", VLAN, MACHINES),
            ("VRF", VRF, MACHINES),
            ("driver settings", SETTINGS, frozenset({"uml"})),
        )
        for act in (Act.ATTACH, Act.DETACH, Act.SUPERSEDE, Act.RECOVER)
    ),
    *(
        Shape(f"{act} lease", act, ((LEASED,),))
        for act in (Act.ATTACH, Act.DETACH, Act.SUPERSEDE, Act.RECOVER)
    ),
    *(
        Shape(f"{act} renamed RDMA", act, ((RENAMED,),))
        for act in (Act.ATTACH, Act.DETACH, Act.DESTROYED)
    ),
)


def shape(name: str) -> Shape:
    """Return the shape of that name."""
    return next(row for row in SHAPES if row.name == name)


def device_of(name: str) -> Device:
    """Return the host's NIC of that name as the inventory knows it."""
    parent = Path("/sys/class/net", name, "device")
    if not parent.exists():
        return Device(name, DeviceKey("", "", name))
    address = parent.resolve().name
    label = f"pci-{address.replace(':', '-').replace('.', '-')}"
    fabric = parent / "infiniband"
    names = tuple(sorted(path.name for path in fabric.iterdir())) if fabric.is_dir() else ()
    return Device(label, DeviceKey("pci", address, name, address), rdma_devices=names)


def allocations(shape: Shape, devices: Sequence[Device], pod: ObjectRef) -> tuple[Allocation, ...]:
    """Return the pod's claims for the devices, as the shim would record them."""
    left, share = iter(devices), "a-share" if shape.shared else ""
    return tuple(
        Allocation(
            claim=ObjectRef(pod.namespace, f"claim{number}", f"{pod.uid}-claim{number}"),
            pod=pod,
            devices=tuple(
                AllocatedDevice(f"nic{index}", "box", next(left), config, share_id=share)
                for index, config in enumerate(configs)
            ),
            nonce="c0ffee",
            boot_id=boot_id(),
            containers=(ContainerClaim("main"),),
        )
        for number, configs in enumerate(shape.claims)
    )
