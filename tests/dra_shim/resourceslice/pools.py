"""Short constructors of devices, slice devices and pools, and a server that runs a plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import Any

from dra_shim.pool import DriverResources
from dra_shim.resourceapi import CounterValue, ResourceSlice, SliceDevice, Taint, parse_document
from dra_shim.resourceslice.diff import AcceptedSlice, CreateSlice, DeleteSlice, ReplaceSlice, plan
from dra_shim.resourceslice.documents import PublishedSlice, SlicePool, read_published
from dra_shim.resourceslice.layout import SliceContent
from dranet_nri.inventory import NUMA_NODE, NetDevice, PciFunction, RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.model import AttributeValue, Device, DeviceKey, Link

NODE = "node-1"
POOL = SlicePool(NODE, "n1")
PF = "0000:8a:00.0"
TAINT = Taint("dra.net/unhealthy", "NoCarrier")

Document = dict[str, Any]


def device(
    name: str, address: str = "", ifname: str = "", bus: str = "pci", **attributes: AttributeValue
) -> Device:
    """Return a device; attributes are of dra.net."""
    key = DeviceKey(bus if address else "", address, ifname, address)
    named = sorted((f"dra.net/{attribute}", value) for attribute, value in attributes.items())
    return Device(name, key, tuple(named))


def on_node(number: AttributeValue, name: str = "a", others: int = 0) -> Device:
    """Return a device of a NUMA node with so many other attributes."""
    rest = ((f"x.y/a{index}", index) for index in range(others))
    return Device(name, DeviceKey("", "", name), ((NUMA_NODE, number), *rest))


def function(address: str = PF, physical: str = "") -> PciFunction:
    """Return a NIC's PCI function."""
    return PciFunction(address, "ice", physical=physical)


def nic(
    name: str, address: str = PF, *, up: bool = True, carrier: bool = True, **fields: Any
) -> NetDevice:
    """Return a NIC's net device on the host."""
    link = Link(3, name, bus="pci", parent=address, up=up, carrier=carrier)
    return NetDevice(link, pci=address, **fields)


def hca(name: str, *states: str, layer: str = "InfiniBand", netdev: str = "") -> RdmaDeviceFacts:
    """Return an RDMA device with a port in each state; the last one is of the net device."""
    netdevs = (netdev,) if netdev else ()
    ports = [RdmaPortFacts(number, state, "", layer) for number, state in enumerate(states, 1)]
    ports[-1] = replace(ports[-1], netdevs=netdevs)
    return RdmaDeviceFacts(name, ports=tuple(ports))


def slice_devices(
    *names: str, taints: Iterable[str] = (), drawn: Iterable[str] = ()
) -> tuple[SliceDevice, ...]:
    """Return plain devices; some are tainted, some draw on a counter."""
    return tuple(
        SliceDevice(
            "dra.net",
            NODE,
            name,
            taints=(TAINT,) if name in taints else (),
            counters=(CounterValue("pf", "functions", Fraction(1)),) if name in drawn else (),
        )
        for name in names
    )


def many(number: int, prefix: str = "nic") -> list[str]:
    """Return that many names."""
    return [f"{prefix}-{index:04d}" for index in range(number)]


def resources(*names: str, **rest: Iterable[str]) -> DriverResources:
    """Return the driver resources of a node with these devices."""
    return DriverResources(slice_devices(*names, **rest))


def contents(parts: Sequence[SliceContent]) -> list[tuple[str, int]]:
    """Return name and number of devices of each slice."""
    return [(part.name, len(part.devices)) for part in parts]


def parsed(document: Mapping[str, Any]) -> ResourceSlice:
    """Return a slice as our own reader of documents has it."""
    value = parse_document({"kind": "ResourceSlice", **document})
    assert isinstance(value, ResourceSlice)
    return value


class Server:
    """Slices, changed by plans.

    Attributes:
        slices: documents by name.
        layout: names of the devices that were brought into each slice.
        writes: what plans did, as "create NAME".
    """

    def __init__(self, pool: SlicePool = POOL) -> None:
        """Start empty."""
        self.pool = pool
        self.slices: dict[str, Document] = {}
        self.accepted: dict[str, AcceptedSlice] = {}
        self.layout: dict[str, list[str]] = {}
        self.writes: list[str] = []
        self._versions = count(1)

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a slice as somebody would."""
        version = str(next(self._versions))
        uid = self.slices.get(name, {}).get("metadata", {}).get("uid", f"u-{name}")
        metadata = {**document["metadata"], "uid": uid, "resourceVersion": version}
        api_version = f"resource.k8s.io/{self.pool.version}"
        self.slices[name] = {**document, "apiVersion": api_version, "metadata": metadata}

    def published(self) -> list[PublishedSlice]:
        """Return what there is."""
        return [read_published(resource_slice) for resource_slice in self.slices.values()]

    def bring(self, parts: Sequence[SliceContent], most: int | None = None) -> None:
        """Plan and do it, or only so many steps of it."""
        for step in plan(self.pool, parts, self.published(), self.accepted)[:most]:
            match step:
                case CreateSlice():
                    assert step.content.name not in self.slices
                    self.writes.append(f"create {step.content.name}")
                    self.put(step.content.name, step.document)
                case ReplaceSlice():
                    version = self.slices[step.content.name]["metadata"]["resourceVersion"]
                    assert read_published(step.document).version == version
                    self.writes.append(f"change {step.content.name}")
                    self.put(step.content.name, step.document)
                case DeleteSlice():
                    metadata = self.slices.pop(step.name)["metadata"]
                    assert (metadata["uid"], metadata["resourceVersion"]) == (
                        step.uid,
                        step.version,
                    )
                    self.writes.append(f"remove {step.name}")

    def generations(self) -> list[int]:
        """Return the generation of each slice, by name."""
        return [
            resource_slice.generation
            for resource_slice in sorted(self.published(), key=lambda one: one.name)
        ]
