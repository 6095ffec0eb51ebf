"""`status.allocation` of a claim: the devices it has. The server writes it; only that is read."""

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


def taken_devices(status: Node) -> tuple[AllocatedResult, ...]:
    """Read `status`. Fields of newer servers are passed over; adminAccess takes nothing."""
    return tuple(taken for item in result_items(status) for taken in _result(item))


def result_items(status: Node) -> list[Node]:
    """Return the entries of `allocation.devices.results`, none where nothing is allocated."""
    results = status
    for name in ("allocation", "devices", "results"):
        inner = present(results)
        if name not in inner:
            return []
        results = inner[name]
    return results.items()


def device_of(node: Node, fields: dict[str, Node]) -> tuple[DeviceId, str, bool]:
    """Read of a result which device it is, the id of a share of it, and adminAccess."""
    named = [required(node, fields, name) for name in _NAMES]
    driver, pool, device = ((field.text() if field else None) or "" for field in named)
    share = (fields["shareID"].text() or "") if "shareID" in fields else ""
    admin = "adminAccess" in fields and fields["adminAccess"].boolean()
    return (driver, pool, device), share, bool(admin)


def consumed_of(fields: dict[str, Node]) -> tuple[tuple[str, Fraction], ...]:
    """Read of a result (capacity, amount) of what its share consumes."""
    entries = present(fields["consumedCapacity"]) if "consumedCapacity" in fields else {}
    amounts = ((name, amount(entry)) for name, entry in entries.items())
    return tuple((name, value) for name, value in amounts if value is not None)


def recorded_amounts(consumed: Iterable[tuple[str, Fraction]]) -> tuple[Consumed, ...]:
    """Return what a record says of (capacity, amount): whole units, none lost by rounding."""
    return tuple(Consumed(name, ceil(value)) for name, value in sorted(consumed))


def present(node: Node) -> dict[str, Node]:
    """Return what an object of the server's says; null is not said."""
    return {name: entry for name, entry in node.entries().items() if entry.value is not None}


def _result(node: Node) -> Iterator[AllocatedResult]:
    fields = present(node)
    device, share, admin = device_of(node, fields)
    consumed = consumed_of(fields)
    if not admin:
        yield AllocatedResult(device, share, consumed)
