"""Claims, their pod and their records, which the tests of this room bend."""

from dataclasses import replace
from typing import Any

from dra_shim.prepare.allocation import PrepareSettings, allocation_of
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
    return allocation_of(allocated, pod, USE, NICS | others, settings, "n0nce")
