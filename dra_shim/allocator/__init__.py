"""The scheduler's allocation, embedded: claims and a node's devices → who gets what, or why not.

    refused.py      what this version cannot allocate, named
    candidates.py   per request: each device with a verdict
    search.py       depth-first, first fit, with back-tracking
    explain.py      a failed search → lines, device by device

Rules:
1. Claims in their order, requests in theirs, devices as listed; the first whole answer wins.
2. A selector that fails on a device that is tried stops everything, as it stops the scheduler.
3. All claims are met or none is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dra_shim.allocator.candidates import Stock, slots_of
from dra_shim.allocator.errors import AllocationError
from dra_shim.allocator.explain import explain
from dra_shim.allocator.refused import check_supported
from dra_shim.allocator.search import search
from dra_shim.claims import ClaimSpec, DeviceClass
from dranet_nri.config import ConfigEntry, select_config, violations_for_rdma_only
from dranet_nri.errors import ConfigError
from dranet_nri.model import AllocatedDevice, Device, NetworkConfig

__all__ = ["AllocationError", "Stock", "Wanted", "allocate"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One claim to be met; label is how messages call it ("default/nics")."""

    label: str
    spec: ClaimSpec


def allocate(
    claims: Sequence[Wanted],
    classes: Mapping[str, DeviceClass],
    stock: Stock,
    node: str,
    *,
    first_valid_config: bool = False,
) -> tuple[tuple[AllocatedDevice, ...], ...]:
    """Return the devices of each claim, in the order of its requests.

    Args:
        claims: claims of one pod, in the pod's order.
        classes: device classes by name.
        stock: the node's devices, those in use, and what the inventory leaves out.
        node: the pool's name.
        first_valid_config: dranet's order of configurations, see `select_config`.

    Raises:
        AllocationError: some claim cannot be met; says why, device by device.
        SelectorError: a selector is no CEL, or fails on a device that was tried.
        ConfigError: the configuration that applies to a chosen device is not valid for it.
    """
    for claim in claims:
        check_supported(claim.label, claim.spec, classes)
    slots = slots_of([(claim.label, claim.spec) for claim in claims], classes, stock)
    chosen = search(slots)
    if chosen is None:
        raise AllocationError(explain(slots, stock))
    results: list[list[AllocatedDevice]] = [[] for _ in claims]
    for slot, devices in zip(slots, chosen, strict=True):
        claim = claims[slot.claim]
        config = _config(claim, classes, slot.request.name, first_valid=first_valid_config)
        main = slot.request.name.partition("/")[0]
        for device in devices:
            _check_rdma_only(claim.label, device, config)
            results[slot.claim].append(AllocatedDevice(main, node, device, config))
    return tuple(map(tuple, results))


def _config(
    claim: Wanted, classes: Mapping[str, DeviceClass], request: str, *, first_valid: bool
) -> NetworkConfig:
    users: dict[str, list[str]] = {}
    for each in claim.spec.requests:
        for part in each.alternatives:
            users.setdefault(part.device_class, []).append(part.name)
    entries: list[ConfigEntry] = [
        replace(entry, requests=tuple(requests), path=f"class {name} {entry.path}")
        for name, requests in users.items()
        for entry in classes[name].configs
    ]
    return select_config([*entries, *claim.spec.configs], request, first_valid_wins=first_valid)


def _check_rdma_only(label: str, device: Device, config: NetworkConfig) -> None:
    if device.attribute("dra.net/ifName") is None and device.rdma_devices:
        violations = violations_for_rdma_only(config)
        if violations:
            raise ConfigError(
                [f"claim {label}: device {device.name}: {violation}" for violation in violations]
            )
