"""`status.allocation` of a claim: the devices it has. The server writes it; only that is read."""

from collections.abc import Iterator
from typing import Final

from dra_shim.claims.devices import required
from dra_shim.claims.needs import amount
from dra_shim.claims.offers import Taken
from dranet_nri.config import Node

_NAMES: Final = ("driver", "pool", "device")


def taken_devices(status: Node) -> tuple[Taken, ...]:
    """Read `status`. Fields of newer servers are passed over; adminAccess takes nothing."""
    results = status
    for name in ("allocation", "devices", "results"):
        inner = _given(results)
        if name not in inner:
            return ()
        results = inner[name]
    return tuple(taken for item in results.items() for taken in _result(item))


def _result(node: Node) -> Iterator[Taken]:
    fields = _given(node)
    named = [required(node, fields, name) for name in _NAMES]
    driver, pool, device = ((each.text() if each else None) or "" for each in named)
    share = (fields["shareID"].text() or "") if "shareID" in fields else ""
    consumed = _given(fields["consumedCapacity"]) if "consumedCapacity" in fields else {}
    amounts = [(name, amount(entry)) for name, entry in consumed.items()]
    if "adminAccess" in fields and fields["adminAccess"].boolean():
        return
    yield Taken(
        (driver, pool, device),
        share,
        tuple((name, value) for name, value in amounts if value is not None),
    )


def _given(node: Node) -> dict[str, Node]:
    return {name: entry for name, entry in node.entries().items() if entry.value is not None}
