"""Facts of a node for inventory tests, and lookups in the result."""

from dataclasses import replace

from dranet_nri.inventory import Inventory, NetDevice, PciFunction
from dranet_nri.model import Device, Link

PF = "0000:8a:00.0"
VF = "0000:8a:00.1"


def function(address: str = PF, driver: str = "ice", **rest: object) -> PciFunction:
    return replace(PciFunction(address, driver, parent=address), **rest)  # type: ignore[arg-type]


def nic(name: str, index: int, address: str = PF, **rest: object) -> NetDevice:
    link = Link(index, name, bus="pci", parent=address)
    return replace(NetDevice(link, pci=address), **rest)  # type: ignore[arg-type]


def virtual(name: str, index: int, kind: str = "dummy", **rest: object) -> NetDevice:
    link = replace(Link(index, name, kind=kind), **rest)  # type: ignore[arg-type]
    return NetDevice(link, virtual=True)


def names(inventory: Inventory) -> list[str]:
    return [device.name for device in inventory.devices]


def one(inventory: Inventory, name: str) -> Device:
    return next(device for device in inventory.devices if device.name == name)
