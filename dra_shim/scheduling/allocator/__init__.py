"""Embedded allocator: claims and devices → allocations, or the reasons against them.

    errors.py       claims that cannot be allocated
    feasibility.py  claims that no search can allocate
    pools.py        slices or an inventory → pools
    capacity.py     consumption of a device's capacity
    candidates.py   each device with the checks of one request
    matching.py     feasibility of one constraint alone
    usage.py        devices, capacity and counters in use during the search
    search.py       depth-first, first fit, with back-tracking
    explain.py      a failed search → reasons, device by device
    report.py       all checks of all devices, for users

Rules:
1. Claims, requests, alternatives and devices are tried in their given order; the first complete
   solution is used.
2. A selector that fails on a tried device stops the search, as it stops the scheduler.
3. All claims are allocated, or none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dra_shim.cel import SelectorError
from dra_shim.pool import NodeInventory
from dra_shim.resourceapi import ClaimSpec, DeviceClass, SliceDevice, recorded_amounts
from dra_shim.scheduling.allocator.candidates import (
    Check,
    CheckOutcome,
    PendingRequest,
    pending_requests,
)
from dra_shim.scheduling.allocator.errors import AllocationError
from dra_shim.scheduling.allocator.explain import explain, headlines
from dra_shim.scheduling.allocator.feasibility import check_feasible
from dra_shim.scheduling.allocator.pools import Pool, PoolSet, pool_set_of, pools_of, with_allocated
from dra_shim.scheduling.allocator.report import AlternativeReport, DeviceReport, report
from dra_shim.scheduling.allocator.search import Search
from dranet_nri.component.replace import replace
from dranet_nri.config import (
    ConfigEntry,
    select_config,
    violations_for_device,
    why_without_interface,
)
from dranet_nri.errors import ConfigError
from dranet_nri.model import AllocatedDevice, Device, NetworkConfig

__all__ = [
    "AllocationError",
    "AlternativeReport",
    "Check",
    "CheckOutcome",
    "DeviceReport",
    "Grant",
    "NamedClaim",
    "Pool",
    "PoolSet",
    "allocate",
    "choose",
    "config_for",
    "explained",
    "pool_set_of",
    "pools_of",
    "with_allocated",
]


@dataclass(frozen=True, slots=True)
class NamedClaim:
    """A claim to allocate; label is its name in messages ("default/nics")."""

    label: str
    spec: ClaimSpec


@dataclass(frozen=True, slots=True)
class Grant:
    """One device for one request.

    Attributes:
        claim: index of the claim.
        request: "req", or "req/sub" for firstAvailable.
        device: the allocated device.
        admin_access: the claim only observes the device.
        share_id: id of a share of the device, "" for the whole device.
        consumed: (capacity, amount) pairs of the share.
    """

    claim: int
    request: str
    device: SliceDevice
    admin_access: bool = False
    share_id: str = ""
    consumed: tuple[tuple[str, Fraction], ...] = ()


def allocate(
    claims: Sequence[NamedClaim],
    classes: Mapping[str, DeviceClass],
    inventory: NodeInventory,
    node: str,
    *,
    new_uid: Callable[[], str],
    first_valid_config: bool = False,
) -> tuple[tuple[AllocatedDevice, ...], ...]:
    """Return the devices of each claim, in the order of its requests.

    Args:
        claims: claims of one pod, in the pod's order.
        classes: device classes by name.
        inventory: the node's devices, those in use, and excluded devices.
        node: name of the pool.
        new_uid: returns an id for each share of a device.
        first_valid_config: dranet's precedence of configurations, see `select_parameters`.

    Raises:
        AllocationError: a claim cannot be allocated; the text has the reason for each device.
        SelectorError: a selector is not valid CEL, or fails on a tried device.
        ConfigError: the configuration of a device is not valid for it.
    """
    devices = {device.name: device for device in inventory.devices}
    results: list[list[AllocatedDevice]] = [[] for _ in claims]
    for grant in choose(claims, classes, pool_set_of(inventory, node), new_uid=new_uid):
        claim, device = claims[grant.claim], devices[grant.device.name]
        config = NetworkConfig()
        if not grant.admin_access:  # otherwise the owner of the device configures it
            config = config_for(claim, classes, grant.request, first_valid=first_valid_config)
            _check_device(claim.label, device, config, share=grant.device.shared)
        results[grant.claim].append(_allocated_device(grant, node, device, config))
    return tuple(map(tuple, results))


def _allocated_device(
    grant: Grant, node: str, device: Device, config: NetworkConfig
) -> AllocatedDevice:
    """Return a device in the form for a record."""
    request, _, subrequest = grant.request.partition("/")
    return AllocatedDevice(
        request,
        node,
        device,
        config,
        grant.admin_access,
        grant.share_id,
        subrequest,
        recorded_amounts(grant.consumed),
    )


def choose(
    claims: Sequence[NamedClaim],
    classes: Mapping[str, DeviceClass],
    pool_set: PoolSet,
    *,
    new_uid: Callable[[], str],
) -> tuple[Grant, ...]:
    """Return the devices of each request, in the order of claims and requests.

    Raises:
        AllocationError: a claim cannot be allocated; the text has the reason for each device.
        SelectorError: a selector is not valid CEL, or fails on a tried device.
    """
    pending = _pending(claims, classes, pool_set)
    search = Search(pending, pool_set)
    if not search.run():
        raise AllocationError(explain(pending, pool_set))
    return _grants(search, new_uid)


def explained(
    claims: Sequence[NamedClaim],
    classes: Mapping[str, DeviceClass],
    pool_set: PoolSet,
    *,
    new_uid: Callable[[], str],
) -> tuple[tuple[AlternativeReport, ...], tuple[Grant, ...], tuple[str, ...]]:
    """Return (checks of all devices, allocated devices, reasons for a failed allocation).

    There are either allocated devices or reasons. A reason is about a request; the checks have the
    reasons for each device.

    Raises:
        AllocationError: a claim requests what no search can allocate.
        SelectorError: a selector is not valid CEL.
    """
    pending = _pending(claims, classes, pool_set)
    search = Search(pending, pool_set)
    why: tuple[str, ...] = ()
    try:
        met = search.run()
    except AllocationError as error:
        met, why = False, error.lines
    except SelectorError as error:
        met, why = False, (str(error),)
    if met:
        return report(pending, search), _grants(search, new_uid), ()
    return report(pending, Search(pending, pool_set)), (), why or headlines(pending, pool_set)


def _pending(
    claims: Sequence[NamedClaim], classes: Mapping[str, DeviceClass], pool_set: PoolSet
) -> tuple[PendingRequest, ...]:
    for claim in claims:
        check_feasible(claim.label, claim.spec, classes)
    return pending_requests([(claim.label, claim.spec) for claim in claims], classes, pool_set)


def _grants(search: Search, new_uid: Callable[[], str]) -> tuple[Grant, ...]:
    return tuple(
        Grant(
            alternative.claim,
            alternative.request.name,
            candidate.device,
            alternative.request.admin_access,
            new_uid() if candidate.device.shared else "",
            candidate.share.amounts,
        )
        for picks in search.chosen
        for alternative, candidate in picks
    )


def config_for(
    claim: NamedClaim, classes: Mapping[str, DeviceClass], request: str, *, first_valid: bool
) -> NetworkConfig:
    """Return the configuration of a request ("req" or "req/sub") from class and claim.

    Raises:
        ConfigError: the configuration is invalid.
    """
    users: dict[str, list[str]] = {}
    for alternative in claim.spec.alternatives:
        users.setdefault(alternative.device_class, []).append(alternative.name)
    entries: list[ConfigEntry] = [
        replace(entry, requests=tuple(requests), path=f"class {name} {entry.path}")
        for name, requests in users.items()
        for entry in classes[name].configs
    ]
    return select_config([*entries, *claim.spec.configs], request, first_valid_wins=first_valid)


def _check_device(label: str, device: Device, config: NetworkConfig, *, share: bool) -> None:
    reason = why_without_interface(device)
    if reason:
        violations: tuple[str, ...] = (reason,)
    elif config.profile:  # the other parameters may need those of the profile
        violations = (
            f'profile: "{config.profile}": only dra-shim run uses the profile provider; '
            "remove profile to allocate without it",
        )
    else:
        violations = violations_for_device(config, device, share=share)
    if violations:
        raise ConfigError(
            [f"claim {label}: device {device.name}: {violation}" for violation in violations]
        )
