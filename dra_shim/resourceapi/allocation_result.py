"""`status.allocation` of a claim: its devices. The server writes it, so it is only read."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil
from typing import Final

from dra_shim.resourceapi.requirements import amount
from dra_shim.resourceapi.slice_types import AllocatedResult, DeviceId
from dranet_nri.config import Node
from dranet_nri.config.json_cursor import Fields, given, object_of, required_text, text_of
from dranet_nri.model import DRIVER_NAME, Consumed

_NAMES: Final = ("driver", "pool", "device")


def allocated_devices(status: Node) -> tuple[AllocatedResult, ...]:
    """Read the devices of `status` without adminAccess; unknown fields are ignored."""
    return tuple(allocated for item in result_items(status) for allocated in _result(item))


def result_items(status: Node) -> list[Node]:
    """Return the entries of `allocation.devices.results`, none without an allocation."""
    results = status
    for name in ("allocation", "devices", "results"):
        inner = results.present()
        if name not in inner:
            return []
        results = inner[name]
    return results.items()


def device_of(node: Node, fields: Fields) -> tuple[DeviceId, str, bool]:
    """Return device id, share id and adminAccess of a result."""
    driver, pool, device = (required_text(node, fields, name) for name in _NAMES)
    admin = given(fields, "adminAccess", Node.boolean)
    return (driver, pool, device), text_of(fields, "shareID"), bool(admin)


def consumed_of(fields: Fields) -> tuple[tuple[str, Fraction], ...]:
    """Return (capacity, amount) pairs that the share of a result consumes."""
    entries = object_of(fields, "consumedCapacity")
    amounts = ((name, amount(entry)) for name, entry in entries.items())
    return tuple((name, value) for name, value in amounts if value is not None)


def recorded_amounts(consumed: Iterable[tuple[str, Fraction]]) -> tuple[Consumed, ...]:
    """Return (capacity, amount) pairs for a record: whole units, rounded up.

    The API does not say whether a scheduler writes the driver's own domain, so it is added.
    """
    return tuple(
        Consumed(name if "/" in name else f"{DRIVER_NAME}/{name}", ceil(value))
        for name, value in sorted(consumed)
    )


def _result(node: Node) -> Iterator[AllocatedResult]:
    fields = node.present()
    device, share, admin = device_of(node, fields)
    consumed = consumed_of(fields)
    if not admin:
        yield AllocatedResult(device, share, consumed)
