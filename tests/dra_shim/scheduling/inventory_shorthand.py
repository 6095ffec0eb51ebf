"""NICs of an inventory and claims on them, in a word each; and what the allocator gives or says."""

from collections.abc import Mapping, Sequence

import pytest

from dra_shim.pool import NodeInventory
from dra_shim.resourceapi import (
    Cel,
    ClaimRequest,
    ClaimSpec,
    Constraint,
    DeviceClass,
    DeviceRequest,
)
from dra_shim.scheduling.allocator import AllocationError, NamedClaim
from dra_shim.scheduling.allocator import allocate as allocate_with
from dranet_nri.config import ConfigEntry
from dranet_nri.model import AllocatedDevice, AttributeValue, Device, DeviceKey

ROOT = "resource.kubernetes.io/pcieRoot"
NUMA = "dra.net/numaNode"
CLASS = DeviceClass("dranet", (Cel('device.driver == "dra.net"'),))
CLASSES = {"dranet": CLASS}


def allocate(
    claims: Sequence[NamedClaim],
    classes: Mapping[str, DeviceClass],
    node_devices: NodeInventory,
    node: str,
    *,
    first_valid_config: bool = False,
) -> tuple[tuple[AllocatedDevice, ...], ...]:
    return allocate_with(
        claims,
        classes,
        node_devices,
        node,
        new_uid=no_shares,
        first_valid_config=first_valid_config,
    )


def no_shares() -> str:
    raise AssertionError("no device of an inventory is shared")


def nic(name: str, attributes: Mapping[str, AttributeValue] | None = None) -> Device:
    given = {"dra.net/ifName": name} | dict(attributes or {})
    return Device(name, DeviceKey("", "", name), tuple(sorted(given.items())))


def request(
    name: str = "nic", count: int = 1, *selectors: str, cls: str = "dranet"
) -> ClaimRequest:
    cels = tuple(map(Cel, selectors))
    return ClaimRequest(name, (DeviceRequest(name, cls, cels, count),))


def wanted(
    *requests: ClaimRequest,
    constraints: Sequence[Constraint] = (),
    configs: Sequence[ConfigEntry] = (),
    label: str = "default/nics",
) -> NamedClaim:
    return NamedClaim(label, ClaimSpec(requests, tuple(constraints), tuple(configs)))


def names(results: Sequence[Sequence[object]]) -> list[list[tuple[str, str]]]:
    return [[(device.request, device.device.name) for device in result] for result in results]  # type: ignore[attr-defined]


def refused(
    claims: Sequence[NamedClaim],
    node_devices: NodeInventory,
    classes: Mapping[str, DeviceClass] = CLASSES,
) -> tuple[str, ...]:
    with pytest.raises(AllocationError) as caught:
        allocate(claims, classes, node_devices, "node")
    return caught.value.lines
