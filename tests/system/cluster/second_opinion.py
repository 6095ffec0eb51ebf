"""Our own allocator, asked what the scheduler was asked: the same slices, classes and claims.

Which of several devices that fit a pod gets is not compared: pods that the scheduler tries at once
may find others taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dra_shim.resourceapi import AllocatedResult, ResourceClaim, parse_document
from dra_shim.scheduling.allocator import (
    AllocationError,
    NamedClaim,
    PoolSet,
    choose,
    pools_of,
    with_allocated,
)
from tests.system.cluster.api import Object
from tests.system.cluster.site import Placed, Site


def chosen_devices(site: Site, pods: Sequence[Placed]) -> list[Placed]:
    """Return what we would have given these pods on their nodes, one after the other."""
    found: list[Placed] = []
    supplies = {pod.node: _pool_set(site, pod.node) for pod in pods}
    for pod in pods:
        allocated = _allocated(site, pod, supplies[pod.node])
        taken = [(pod.name, entry) for entry in allocated[1]]
        supplies[pod.node] = with_allocated(supplies[pod.node], taken)
        found.append(allocated[0])
    return found


def confirmed(site: Site, pod: Placed) -> bool:
    """Tell whether the devices of a pod meet its claims by our rules as well."""
    own = {slice_device.id for _, slice_device in pod.devices}
    pool_set = _pool_set(site, pod.node)
    pools = (
        replace(
            pool,
            devices=tuple(slice_device for slice_device in pool.devices if slice_device.id in own),
        )
        for pool in pool_set.pools
    )
    allocated, _ = _allocated(site, pod, replace(pool_set, pools=tuple(pools)))
    return sorted(allocated.devices, key=str) == sorted(pod.devices, key=str)


def our_refusals(site: Site, claims: Sequence[Object]) -> Iterator[str]:
    """Yield why each of these claims cannot be met on any node, given what all claims have.

    A claim that can be met yields nothing.
    """
    others = map(_parsed, site.all_claims())
    taken = [(claim.name, result) for claim in others for result in claim.allocated]
    for claim in _wanted(claims):
        reasons: list[str] = []
        for node in site.nodes:
            pool_set = with_allocated(_pool_set(site, node), taken)
            try:
                choose([claim], site.classes(), pool_set, new_uid=str)
            except AllocationError as error:
                reasons += error.lines
            else:
                break
        else:
            yield "\n".join(reasons)


def _pool_set(site: Site, node: str) -> PoolSet:
    return PoolSet(pools_of(site.slices(), node))


def _allocated(site: Site, pod: Placed, pool_set: PoolSet) -> tuple[Placed, list[AllocatedResult]]:
    """Return the pod with devices of this pool set, and its allocation."""
    numbers = itertools.count(1)
    grants = choose(
        _wanted(pod.claims),
        site.classes(),
        pool_set,
        new_uid=lambda: f"{pod.name}-{next(numbers)}",
    )
    devices = tuple((grant.request, grant.device) for grant in grants)
    taken = [AllocatedResult(grant.device.id, grant.share_id, grant.consumed) for grant in grants]
    return replace(pod, devices=devices), taken


def _wanted(claims: Sequence[Object]) -> list[NamedClaim]:
    return [NamedClaim(claim.name, claim.spec) for claim in map(_parsed, claims)]


def _parsed(document: Object) -> ResourceClaim:
    claim = parse_document(document)
    assert isinstance(claim, ResourceClaim)
    return claim
