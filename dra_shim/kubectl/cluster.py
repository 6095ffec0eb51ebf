"""Devices of a cluster's nodes with locations and owners, from slices and claims only.

Rules:
1. A GPU is a device of a driver gpu.VENDOR; a partition of one is not counted as a GPU. A NIC is a
   device of this driver with a PCI address.
2. A device without a NUMA node has that of the devices at its PCIe root, if they agree: NVIDIA's
   driver does not publish one. On Azure, where no GPU shares a root with a NIC, a GPU has that of
   the NICs that name its PCI domain.
3. Rails count RDMA NICs in the order of their PCI addresses, from 0: those at the PCIe roots of
   GPUs, so that storage NICs have none; all of them if no root has both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dra_shim.kubectl.source import (
    CLAIMS,
    DRIVER_PODS,
    PODS,
    SLICES,
    Item,
    ObjectSource,
    name_of_item,
)
from dra_shim.resourceapi import (
    DeviceId,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
    parse_stored,
)
from dranet_nri.component.replace import replace
from dranet_nri.config import did_you_mean
from dranet_nri.errors import ConfigError
from dranet_nri.model import DRIVER_NAME

_STANDARD: Final = "resource.kubernetes.io"
_GPU_DRIVER: Final = "gpu."
_GPU_DOMAINS: Final = "azure.dra.net/gpuDomains"
_NO_WHOLE_GPU: Final = frozenset({"mig", "vfio", "amdgpu-partition"})
_BLOCKING: Final = ("NoSchedule", "NoExecute")


class DeviceKind(StrEnum):
    """Kind of a device for the commands."""

    GPU = "gpu"
    NIC = "nic"
    OTHER = "other"


class DeviceState(StrEnum):
    """State of a device; allocated has precedence over unhealthy."""

    FREE = "free"
    ALLOCATED = "allocated"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class PlacedDevice:
    """A device of a node.

    Attributes:
        id: driver, pool, device.
        interface: name of the network interface, "" if none.
        rdma_device: name of the RDMA device, "" if none.
        address: PCI address, "" if unknown.
        root: PCIe root, "" if unknown.
        numa_node: number, None if unknown.
        gpu_domains: PCI domains of the GPUs near a NIC, if Azure's layout names them.
        rail: rail of an RDMA NIC, None for other devices.
        taints: NoSchedule and NoExecute taints.
        consumers: pods that have the device; the claim if it is reserved for no pod.
    """

    id: DeviceId
    kind: DeviceKind
    interface: str = ""
    rdma_device: str = ""
    product: str = ""
    address: str = ""
    root: str = ""
    numa_node: int | None = None
    gpu_domains: tuple[str, ...] = ()
    rail: int | None = None
    taints: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the interface's name, or the device's name without an interface."""
        return self.interface or self.id[2]

    @property
    def state(self) -> DeviceState:
        """Return the state of the device."""
        if self.consumers:
            return DeviceState.ALLOCATED
        return DeviceState.UNHEALTHY if self.taints else DeviceState.FREE


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node that publishes devices, or runs the driver.

    Attributes:
        version: tag or digest of the driver's image, "" if no driver runs there.
        ready: whether the driver's pod is ready.
        devices: GPUs and NICs by NUMA node, root and PCI address, then the others.
    """

    name: str
    version: str = ""
    ready: bool = False
    devices: tuple[PlacedDevice, ...] = ()

    def of_kind(self, kind: DeviceKind) -> tuple[PlacedDevice, ...]:
        """Return the devices of a kind."""
        return tuple(device for device in self.devices if device.kind is kind)


def read_nodes(source: ObjectSource) -> tuple[ClusterNode, ...]:
    """Return all nodes that have devices or the driver, by name.

    Raises:
        KubectlError: the cluster cannot be read.
        ConfigError: a slice cannot be read.
    """
    consumers = _consumers(source.items(CLAIMS))
    drivers = _drivers(source.items(PODS, DRIVER_PODS))
    found: dict[str, list[PlacedDevice]] = {name: [] for name in drivers}
    for resource_slice in _newest(source.items(SLICES)):
        for device in resource_slice.devices:
            node = device.node or resource_slice.node
            if node:
                found.setdefault(node, []).append(_placed(device, consumers.get(device.id, ())))
    return tuple(
        ClusterNode(name, *drivers.get(name, ("", False)), _ordered(devices))
        for name, devices in sorted(found.items())
    )


def node_named(nodes: Sequence[ClusterNode], name: str) -> ClusterNode:
    """Return a node with devices by its name.

    Raises:
        ConfigError: there is none.
    """
    publishing = {node.name: node for node in nodes if node.devices}
    if name in publishing:
        return publishing[name]
    names = list(publishing)
    hint = did_you_mean(name, names)
    shown = ", ".join(names[:10]) or "none"
    raise ConfigError([f"NODE {name}: publishes no devices{hint}; nodes that do: {shown}"])


# --------------------------------------------------------------------------- objects


def _newest(items: Iterable[Item]) -> list[ResourceSlice]:
    """Return the slices of each pool's newest generation."""
    read = map(parse_stored, items)
    slices = [document for document in read if isinstance(document, ResourceSlice)]
    newest: dict[tuple[str, str], int] = {}
    for found in slices:
        pool = found.driver, found.pool
        newest[pool] = max(newest.get(pool, 0), found.generation)
    return [found for found in slices if found.generation == newest[found.driver, found.pool]]


def _consumers(items: Iterable[Item]) -> Mapping[DeviceId, tuple[str, ...]]:
    """Return device → the pods of its claims, or the claims without pods."""
    found: dict[DeviceId, tuple[str, ...]] = {}
    for item in items:
        # The spec is not read, because a newer API may have unknown fields.
        claim = parse_stored({**item, "spec": {}})
        assert isinstance(claim, ResourceClaim), "the source returns claims"
        names = consumers_of(item) or (f"claim {name_of_item(item)}",)
        for allocated in claim.allocated:
            found[allocated.device] = (*found.get(allocated.device, ()), *names)
    return found


def consumers_of(claim: Item) -> tuple[str, ...]:
    """Return "namespace/name" of the pods that a claim is reserved for."""
    namespace = (claim.get("metadata") or {}).get("namespace", "default")
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    return tuple(
        f"{namespace}/{entry.get('name', '')}"
        for entry in reserved
        if entry.get("resource") == "pods"
    )


def _drivers(pods: Iterable[Item]) -> dict[str, tuple[str, bool]]:
    """Return node → (version, readiness) of the driver's pods."""
    found: dict[str, tuple[str, bool]] = {}
    for pod in pods:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        node, containers = spec.get("nodeName", ""), spec.get("containers") or ()
        if node and containers:
            conditions = status.get("conditions") or ()
            ready = any(
                condition.get("type") == "Ready" and condition.get("status") == "True"
                for condition in conditions
            )
            found[node] = (_version(str(containers[0].get("image", ""))), ready)
    return found


def _version(image: str) -> str:
    """Return the tag of an image, or its digest, shortened."""
    plain, _, digest = image.partition("@")
    tag = plain.rpartition("/")[2].partition(":")[2]
    return tag or digest[:19] or "latest"


# --------------------------------------------------------------------------- devices


def _placed(device: SliceDevice, consumers: tuple[str, ...]) -> PlacedDevice:
    numa = _value(device, f"{_STANDARD}/numaNode")
    if numa is None:
        numa = _value(device, f"{device.driver}/numaNode")
    return PlacedDevice(
        device.id,
        _kind(device),
        interface=_text(device, f"{DRIVER_NAME}/ifName"),
        rdma_device=_text(device, f"{DRIVER_NAME}/rdmaDevice"),
        product=_text(device, f"{device.driver}/productName"),
        address=_address(device),
        root=_text(device, f"{_STANDARD}/pcieRoot"),
        numa_node=numa if isinstance(numa, int) and numa >= 0 else None,
        gpu_domains=tuple(filter(None, _text(device, _GPU_DOMAINS).split(","))),
        taints=tuple(str(taint) for taint in device.taints if taint.effect in _BLOCKING),
        consumers=consumers,
    )


def _kind(device: SliceDevice) -> DeviceKind:
    if device.driver.startswith(_GPU_DRIVER):
        kind = _text(device, f"{device.driver}/type")
        return DeviceKind.OTHER if kind in _NO_WHOLE_GPU else DeviceKind.GPU
    if device.driver == DRIVER_NAME and _address(device):
        return DeviceKind.NIC
    return DeviceKind.OTHER


def _address(device: SliceDevice) -> str:
    """Return the PCI address by the standard name, or that of dranet or of AMD's driver."""
    names = (f"{_STANDARD}/pciBusID", f"{DRIVER_NAME}/pciAddress", f"{device.driver}/pciAddr")
    return next(filter(None, (_text(device, name) for name in names)), "")


def _value(device: SliceDevice, name: str) -> object:
    """Return the value of an attribute, the first value of a list, None if it is missing."""
    value = device.attribute(name)
    if isinstance(value, tuple):
        return value[0] if value else None
    return value


def _text(device: SliceDevice, name: str) -> str:
    value = _value(device, name)
    return "" if value is None else str(value)


def _ordered(devices: Iterable[PlacedDevice]) -> tuple[PlacedDevice, ...]:
    """Return the devices in the order of ClusterNode, with NUMA nodes and rails."""
    found = _with_numa_nodes(list(devices))
    gpu_roots = {device.root for device in found if device.kind is DeviceKind.GPU} - {""}
    nics = [device for device in found if device.kind is DeviceKind.NIC and device.rdma_device]
    near = [nic for nic in nics if nic.root in gpu_roots]
    rails = sorted(near or nics, key=lambda device: (device.address, device.id))
    numbers = {device.id: number for number, device in enumerate(rails)}
    found = [replace(device, rail=numbers.get(device.id)) for device in found]
    return tuple(sorted(found, key=_place))


def _with_numa_nodes(devices: Sequence[PlacedDevice]) -> list[PlacedDevice]:
    """Return the devices; those without a NUMA node have that of their place, if it is known."""
    nodes_of_place: dict[str, set[int]] = {}  # by PCIe root, and by PCI domain
    for device in devices:
        if device.numa_node is not None:
            for place in (device.root, *device.gpu_domains):
                nodes_of_place.setdefault(place, set()).add(device.numa_node)
    found = []
    for device in devices:
        places = {device.root, device.address.partition(":")[0]} - {""}
        nodes = {node for place in places for node in nodes_of_place.get(place, ())}
        unknown = device.numa_node is None and len(nodes) == 1
        found.append(replace(device, numa_node=nodes.pop()) if unknown else device)
    return found


def _place(device: PlacedDevice) -> tuple[object, ...]:
    numa = device.numa_node
    kinds = list(DeviceKind)
    return (
        device.kind is DeviceKind.OTHER, numa is None, numa or 0, device.root,
        kinds.index(device.kind), device.address, device.id,
    )  # fmt: skip
