"""NICs of an inventory and claims on them, in a word each; and what the allocator gives or says."""

from collections.abc import Mapping, Sequence

import pytest

from dra_shim.pool import Stock
from dra_shim.resourceapi import Cel, ClaimSpec, Constraint, DeviceClass, DeviceRequest, Request
from dra_shim.scheduling.allocator import AllocationError, Wanted
from dra_shim.scheduling.allocator import allocate as allocate_with
from dranet_nri.config import ConfigEntry
from dranet_nri.model import AllocatedDevice, AttributeValue, Device, DeviceKey

ROOT = "resource.kubernetes.io/pcieRoot"
NUMA = "dra.net/numaNode"
CLASS = DeviceClass("dranet", (Cel('device.driver == "dra.net"'),))
CLASSES = {"dranet": CLASS}


def allocate(
    claims: Sequence[Wanted],
    classes: Mapping[str, DeviceClass],
    stock: Stock,
    node: str,
    *,
    first_valid_config: bool = False,
) -> tuple[tuple[AllocatedDevice, ...], ...]:
    return allocate_with(
        claims, classes, stock, node, new_uid=no_shares, first_valid_config=first_valid_config
    )


def no_shares() -> str:
    raise AssertionError("no device of an inventory is shared")


def nic(name: str, attributes: Mapping[str, AttributeValue] | None = None) -> Device:
    given = {"dra.net/ifName": name} | dict(attributes or {})
    return Device(name, DeviceKey("", "", name), tuple(sorted(given.items())))


def request(name: str = "nic", count: int = 1, *selectors: str, cls: str = "dranet") -> Request:
    cels = tuple(map(Cel, selectors))
    return Request(name, (DeviceRequest(name, cls, cels, count),))


def wanted(
    *requests: Request,
    constraints: Sequence[Constraint] = (),
    configs: Sequence[ConfigEntry] = (),
    label: str = "default/nics",
) -> Wanted:
    return Wanted(label, ClaimSpec(requests, tuple(constraints), tuple(configs)))


def names(results: Sequence[Sequence[object]]) -> list[list[tuple[str, str]]]:
    return [[(device.request, device.device.name) for device in result] for result in results]  # type: ignore[attr-defined]


def refused(
    claims: Sequence[Wanted], stock: Stock, classes: Mapping[str, DeviceClass] = CLASSES
) -> tuple[str, ...]:
    with pytest.raises(AllocationError) as caught:
        allocate(claims, classes, stock, "node")
    return caught.value.lines
