"""Claims, their pod and their records, which the tests of this room bend."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from dra_shim.prepare.allocation import PrepareSettings, allocation_of
from dra_shim.prepare.parameters import claim_parameters
from dra_shim.prepare.profiles import Layers
from dra_shim.resourceapi import AllocatedClaim, PodUse, read_allocated
from dranet_nri.model import Allocation, ContainerClaim, Device, ObjectRef
from tests.fakes.cluster import POOL, Document, claim_document, nic, user

REF = ObjectRef("ai", "nics", "u1")
POD = ObjectRef("ai", "train", "p1")
TERMS = PrepareSettings(POOL, "boot1")
USE = PodUse("p1", True, "fast", (ContainerClaim("main", "nic"),))  # noqa: FBT003 refers
NICS = {name: nic(name) for name in ("a", "b", "c")}
HCA = replace(nic("a"), rdma_devices=("mlx5_0",))


def document(*results: Document, users: Any = None, configs: Any = ()) -> Document:
    return claim_document("nics", "u1", results, users or [user("train", "p1")], configs)


def claim(*results: Document, users: Any = None, configs: Any = ()) -> AllocatedClaim:
    return read_allocated(document(*results, users=users, configs=configs))


def recorded(
    allocated: AllocatedClaim,
    settings: PrepareSettings = TERMS,
    pod: ObjectRef = POD,
    **others: Device,
) -> Allocation:
    return allocated_with(allocated, NICS | others, settings, pod)


def allocated_with(
    allocated: AllocatedClaim,
    nics: Mapping[str, Device],
    settings: PrepareSettings = TERMS,
    pod: ObjectRef = POD,
    provided: Layers = MappingProxyType({}),
) -> Allocation:
    parameters = claim_parameters(allocated, first_valid_config=settings.first_valid_config)
    return allocation_of(allocated, pod, USE, nics, settings, "n0nce", parameters, provided)
