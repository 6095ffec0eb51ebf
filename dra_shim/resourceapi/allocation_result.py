"""`status.allocation` of a claim: its devices. The server writes it, so it is only read."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil
from typing import Final

from dra_shim.resourceapi.claim_spec import required
from dra_shim.resourceapi.requirements import amount
from dra_shim.resourceapi.slice_types import AllocatedResult, DeviceId
from dranet_nri.config import Node
from dranet_nri.model import Consumed

_NAMES: Final = ("driver", "pool", "device")


def allocated_devices(status: Node) -> tuple[AllocatedResult, ...]:
    """Read the devices of `status` without adminAccess; unknown fields are ignored."""
    return tuple(allocated for item in result_items(status) for allocated in _result(item))


def result_items(status: Node) -> list[Node]:
    """Return the entries of `allocation.devices.results`, none without an allocation."""
    results = status
    for name in ("allocation", "devices", "results"):
        inner = present(results)
        if name not in inner:
            return []
        results = inner[name]
    return results.items()


def device_of(node: Node, fields: dict[str, Node]) -> tuple[DeviceId, str, bool]:
    """Return device id, share id and adminAccess of a result."""
    named = [required(node, fields, name) for name in _NAMES]
    driver, pool, device = ((field.text() if field else None) or "" for field in named)
    share = (fields["shareID"].text() or "") if "shareID" in fields else ""
    admin = "adminAccess" in fields and fields["adminAccess"].boolean()
    return (driver, pool, device), share, bool(admin)


def consumed_of(fields: dict[str, Node]) -> tuple[tuple[str, Fraction], ...]:
    """Return (capacity, amount) pairs that the share of a result consumes."""
    entries = present(fields["consumedCapacity"]) if "consumedCapacity" in fields else {}
    amounts = ((name, amount(entry)) for name, entry in entries.items())
    return tuple((name, value) for name, value in amounts if value is not None)


def recorded_amounts(consumed: Iterable[tuple[str, Fraction]]) -> tuple[Consumed, ...]:
    """Return (capacity, amount) pairs for a record: whole units, rounded up."""
    return tuple(Consumed(name, ceil(value)) for name, value in sorted(consumed))


def present(node: Node) -> dict[str, Node]:
    """Return the fields of an object without null values."""
    return {name: entry for name, entry in node.entries().items() if entry.value is not None}


def _result(node: Node) -> Iterator[AllocatedResult]:
    fields = present(node)
    device, share, admin = device_of(node, fields)
    consumed = consumed_of(fields)
    if not admin:
        yield AllocatedResult(device, share, consumed)
