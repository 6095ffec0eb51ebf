"""Devices of a previous driver: facts about devices that it attached to pods.

Rules:
1. A device with its interface on the host is described by the scan, not by published facts.
2. If the interface of a PCI function is in a pod, a scan finds only the function. The published
   device has the remaining facts.
3. dranet publishes such a function without its interface, and its slices are deleted soon after it
   ends. The claim's status has the interface's name in the pod, which is its name on the host
   unless the claim renamed it. Without either, the device would count as one without an interface.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dra_shim.kubeapi import Document, object_at, objects_at
from dra_shim.pool import derived_key
from dra_shim.prepare import DeviceSource
from dra_shim.resourceapi import AllocatedClaim, Result, read_allocated
from dranet_nri.component.replace import replace
from dranet_nri.config import select_config
from dranet_nri.errors import ConfigError
from dranet_nri.inventory import NUMA_NODE, Inventory, merge_recorded
from dranet_nri.model import DRIVER_NAME, AttributeValue, Device, ObjectRef, Version

_PCI_NAME: Final = re.compile(
    r"pci-([0-9a-f]{4,8})-([0-9a-f]{2})-([0-9a-f]{2})-([0-9a-f])(-p[0-9]+)?"
)
_RDMA: Final = "dra.net/rdmaDevice"
_ADDRESS: Final = "dra.net/pciAddress"
_INTERFACE: Final = "dra.net/ifName"
_MAC: Final = "dra.net/mac"

Attributes = Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class PreviousClaim:
    """A claim with devices of this driver in this node's pool, and pods that use them.

    Attributes:
        ref: the claim.
        devices: their facts in the claim, by name, without devices with adminAccess.
    """

    ref: ObjectRef
    devices: Mapping[str, Attributes]


class PreviousDevices:
    """DeviceSource that adds the facts of a previous driver."""

    def __init__(self, source: DeviceSource, previous: Mapping[str, Device]) -> None:
        """Use the facts of the source; previous devices add what is missing."""
        self._source = source
        self._previous = previous

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """Implement DeviceSource."""
        found = await self._source.devices(names)
        previous = [
            _with_location(self._previous[name], found.get(name))
            for name in names
            if name in self._previous
        ]
        merged = merge_recorded(Inventory(tuple(found.values())), previous)
        return {device.name: device for device in merged.devices}


def _with_location(previous: Device, scanned: Device | None) -> Device:
    """Return a previous device with the location from the scan, if the scan found the device."""
    if scanned is None:
        return previous
    interface = previous.attribute(_INTERFACE)
    return replace(previous, key=replace(scanned.key, name=str(interface or "")))


def claims_of_node(documents: Sequence[Document], node: str) -> tuple[PreviousClaim, ...]:
    """Return the claims with devices of this driver in this node's pool, and pods that use them."""
    found: list[PreviousClaim] = []
    for document in documents:
        try:
            claim = read_allocated(document)
        except ConfigError:  # the previous driver cannot have prepared it
            continue
        own = [result for result in claim.results if result.device[:2] == (DRIVER_NAME, node)]
        if own and any(consumer.resource == "pods" for consumer in claim.consumers):
            network_data = _network_data(document, node)
            devices = {
                result.device[2]: _facts_of_claim(
                    claim, result, network_data.get(result.device[2], {})
                )
                for result in own
            }
            found.append(PreviousClaim(claim.ref, devices))
    return tuple(found)


def _facts_of_claim(claim: AllocatedClaim, result: Result, network: Document) -> Attributes:
    """Return the facts of a device in a claim, with its interface name.

    Args:
        claim: the claim.
        result: the device.
        network: its networkData in the claim's status.
    """
    name = result.device[2]
    if result.admin_access:
        return {}
    configured = ""
    with suppress(ConfigError):  # Prepare reports the violations.
        # dranet's order, because dranet set the interface's name.
        config = select_config(claim.configs, result.request, first_valid_wins=True)
        configured = config.interface.name or ""
    attributes = {
        _INTERFACE: network.get("interfaceName") or configured,
        _MAC: network.get("hardwareAddress"),
    }
    if configured and not _PCI_NAME.fullmatch(name):
        # A virtual device is named after its interface on the host, not in the pod.
        del attributes[_INTERFACE]
    return {key: value for key, value in attributes.items() if value and isinstance(value, str)}


def _network_data(claim: Document, node: str) -> dict[str, Document]:
    """Return the networkData of a claim's status for the node's devices, by name."""
    return {
        str(entry.get("device")): object_at(entry, "networkData")
        for entry in objects_at(claim, "status", "devices")
        if (entry.get("driver"), entry.get("pool")) == (DRIVER_NAME, node)
    }


def previous_devices(
    claims: Sequence[PreviousClaim], slices: Sequence[Document]
) -> dict[str, Device]:
    """Return the devices of claims by name, from slices and claims; slices have precedence."""
    published = devices_of_slices(slices)
    from_claims: dict[str, dict[str, AttributeValue]] = {}
    for claim in claims:
        for name, attributes in claim.devices.items():
            from_claims.setdefault(name, {}).update(attributes)
    return {
        name: published_device(
            name, {**attributes, **dict(published[name].attributes if name in published else ())}
        )
        for name, attributes in from_claims.items()
    }


def devices_of_slices(documents: Sequence[Document]) -> dict[str, Device]:
    """Return the devices of slices by name, in any version; invalid entries are ignored."""
    return {
        str(device.get("name")): published_device(str(device.get("name")), dict(_facts(device)))
        for document in documents
        for device in objects_at(document, "spec", "devices")
    }


def published_device(name: str, attributes: Mapping[str, AttributeValue]) -> Device:
    """Return a published device; its location may follow only from its name."""
    found = {_qualified(key): value for key, value in attributes.items()}
    location = _PCI_NAME.fullmatch(name)
    if location:
        domain, bus, slot, function, _ = location.groups()
        found.setdefault(_ADDRESS, f"{domain}:{bus}:{slot}.{function}")
    rdma = found.get(_RDMA)
    return Device(
        name,
        derived_key(found, name),
        tuple(sorted(found.items())),
        (rdma,) if isinstance(rdma, str) and rdma else (),
    )


def _facts(device: Document) -> Iterator[tuple[str, AttributeValue]]:
    """Yield name and value of a device's attributes; in v1beta1 they are nested."""
    attributes = object_at(device.get("basic", device), "attributes")
    for name, entry in attributes.items():
        match entry:
            case {"version": str(text)}:
                yield name, Version(text)
            case {"bool": bool(value)} | {"int": int(value)} | {"string": str(value)}:
                yield name, value
            # the first value is the node (KEP-6072)
            case {"ints": [int(value), *_]} if name == NUMA_NODE:
                yield name, value


def _qualified(name: str) -> str:
    """Return the qualified name of an attribute; the driver's own can lack the domain."""
    return name if "/" in name else f"{DRIVER_NAME}/{name}"
