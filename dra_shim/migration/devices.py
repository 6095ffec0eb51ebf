"""Devices of a previous driver: facts about those that it gave to pods.

Rules:
1. A device with its interface on the host is described by the scan, whatever was published.
2. Of a PCI function whose interface is in a pod a scan shows the function alone. The published
   device has the rest.
3. dranet publishes such a function without its interface, and its slices do not outlive it for
   long. The claim's status then has the interface's name in the pod: that is its name on the host,
   unless the claim renamed it. Without either the device would count as one without interface.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from dra_shim.kubeapi import Document
from dra_shim.pool import derived_key
from dra_shim.prepare import DeviceSource
from dra_shim.resourceapi import AllocatedClaim, Result, read_allocated
from dranet_nri.config import select_config
from dranet_nri.errors import ConfigError
from dranet_nri.inventory import NUMA_NODE, Inventory, merge_known
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
    """A claim that has devices of this driver in this node's pool, and pods to use them.

    Attributes:
        ref: the claim.
        devices: their facts in the claim, by name, without those that it only observes.
    """

    ref: ObjectRef
    devices: Mapping[str, Attributes]


class PreviousDevices:
    """A DeviceSource that adds the facts that a previous driver published."""

    def __init__(self, source: DeviceSource, before: Mapping[str, Device]) -> None:
        """Ask source first."""
        self._source = source
        self._before = before

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """See DeviceSource."""
        found = await self._source.devices(names)
        known = [
            _placed(self._before[name], found.get(name)) for name in names if name in self._before
        ]
        merged = merge_known(Inventory(tuple(found.values())), known)
        return {device.name: device for device in merged.devices}


def _placed(before: Device, live: Device | None) -> Device:
    """Return a device of before with the place that the node sees: few functions are the parent."""
    if live is None:
        return before
    interface = before.attribute(_INTERFACE)
    return replace(before, key=replace(live.key, name=str(interface or "")))


def claims_of_node(documents: Sequence[Document], node: str) -> tuple[PreviousClaim, ...]:
    """Return the claims with devices of this driver in this node's pool, and pods to use them."""
    found: list[PreviousClaim] = []
    for document in documents:
        try:
            claim = read_allocated(document)
        except ConfigError:  # the previous driver cannot have written it
            continue
        own = [result for result in claim.results if result.device[:2] == (DRIVER_NAME, node)]
        if own and any(consumer.resource == "pods" for consumer in claim.consumers):
            told = _network_data(document, node)
            devices = {
                result.device[2]: _told(claim, result, told.get(result.device[2], {}))
                for result in own
            }
            found.append(PreviousClaim(claim.ref, devices))
    return tuple(found)


def _told(claim: AllocatedClaim, result: Result, network: Document) -> Attributes:
    """Return the facts of a device in a claim, by whose name it is found in the pod.

    Args:
        claim: the one that has it.
        result: the device.
        network: its networkData in the claim's status.
    """
    name = result.device[2]
    if result.admin_access:
        return {}
    given = ""
    with suppress(ConfigError):  # Its Prepare says so.
        # dranet's order, because dranet set the interface's name.
        config = select_config(claim.configs, result.request, first_valid_wins=True)
        given = config.interface.name or ""
    told = {_INTERFACE: network.get("interfaceName") or given, _MAC: network.get("hardwareAddress")}
    if given and not _PCI_NAME.fullmatch(name):
        del told[_INTERFACE]  # a virtual device has its name by its interface's on the host
    return {key: value for key, value in told.items() if value and isinstance(value, str)}


def _network_data(claim: Document, node: str) -> dict[str, Document]:
    """Return the networkData of a claim's status for a node's devices, by name."""
    return {
        str(entry.get("device")): _object(entry.get("networkData"))
        for entry in _objects(_object(claim.get("status")).get("devices"))
        if (entry.get("driver"), entry.get("pool")) == (DRIVER_NAME, node)
    }


def previous_devices(
    claims: Sequence[PreviousClaim], slices: Sequence[Document]
) -> dict[str, Device]:
    """Return the devices of claims by name, from slices and claims; slices take precedence."""
    published = devices_of_slices(slices)
    told: dict[str, dict[str, AttributeValue]] = {}
    for claim in claims:
        for name, attributes in claim.devices.items():
            told.setdefault(name, {}).update(attributes)
    return {
        name: published_device(
            name, {**attributes, **dict(published[name].attributes if name in published else ())}
        )
        for name, attributes in told.items()
    }


def devices_of_slices(documents: Sequence[Document]) -> dict[str, Device]:
    """Return the devices of slices by name, in whichever version; what is odd says nothing."""
    return {
        str(device.get("name")): published_device(str(device.get("name")), dict(_facts(device)))
        for document in documents
        for device in _objects(_object(document.get("spec")).get("devices"))
    }


def published_device(name: str, attributes: Mapping[str, AttributeValue]) -> Device:
    """Return a device as it is published; its location may be known from its name alone."""
    said = {_qualified(key): value for key, value in attributes.items()}
    place = _PCI_NAME.fullmatch(name)
    if place:
        domain, bus, slot, function, _ = place.groups()
        said.setdefault(_ADDRESS, f"{domain}:{bus}:{slot}.{function}")
    rdma = said.get(_RDMA)
    return Device(
        name,
        derived_key(said, name),
        tuple(sorted(said.items())),
        (rdma,) if isinstance(rdma, str) and rdma else (),
    )


def _facts(device: Document) -> Iterator[tuple[str, AttributeValue]]:
    """Yield name and value of a device's attributes; v1beta1 has them one level deeper."""
    attributes = _object(_object(device.get("basic", device)).get("attributes"))
    for name, entry in attributes.items():
        match entry:
            case {"version": str(text)}:
                yield name, Version(text)
            case {"bool": bool(value)} | {"int": int(value)} | {"string": str(value)}:
                yield name, value
            case {"ints": [int(value), *_]} if name == NUMA_NODE:  # it comes first (KEP-6072)
                yield name, value


def _objects(value: object) -> Iterator[Document]:
    return (
        (element for element in value if isinstance(element, Mapping))
        if isinstance(value, list)
        else iter(())
    )


def _object(value: object) -> Document:
    return value if isinstance(value, Mapping) else {}


def _qualified(name: str) -> str:
    """Return an attribute's whole name; a driver's own may be published without its domain."""
    return name if "/" in name else f"{DRIVER_NAME}/{name}"
