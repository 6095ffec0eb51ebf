"""Pods that a claim is handed on to while the node's record of it is an earlier one's."""

from typing import Any

import pytest

from dra_shim.prepare.allocation import (
    successor_pods,
    waits_for_claim,
)
from dra_shim.resourceapi import AllocatedClaim, read_allocated
from dranet_nri.model import Allocation, ObjectRef
from tests.dra_shim.prepare.claims import allocated_with
from tests.fakes.cluster import POOL, Document, claim_document, nic, pod_document, result, user

NEXT = ObjectRef("ai", "train-2", "p2")
HANDED_ON = [user("train-2", "p2"), user("g", "g1", apiGroup="scheduling.k8s.io")]


def claim(*results: Document, users: Any = None) -> AllocatedClaim:
    users = users or [user("train", "p1")]
    return read_allocated(claim_document("nics", "u1", results, users))


def recorded(allocated: AllocatedClaim) -> Allocation:
    return allocated_with(allocated, {"a": nic("a")})


@pytest.mark.parametrize(
    ("found", "pods"),
    [
        (claim(result("a"), users=HANDED_ON), (NEXT,)),
        (claim(result("a"), users=[user("train", "p1"), *HANDED_ON]), ()),
        (claim(result("b"), users=HANDED_ON), ()),
        (claim(result("a", shareID="5a"), users=HANDED_ON), ()),
    ],
)
def test_claim_of_only_other_pods_is_handed_over(
    found: AllocatedClaim, pods: tuple[ObjectRef, ...]
) -> None:
    assert successor_pods(recorded(claim(result("a"))), found) == pods


def test_admin_access_claim_is_not_handed_over() -> None:
    admin_result = result("a", adminAccess=True)

    assert successor_pods(recorded(claim(admin_result)), claim(admin_result, users=HANDED_ON)) == ()


def next_pod(claims: Any = None, node: str = POOL, **metadata: Any) -> Document:
    made = pod_document("train-2", "p2", {"net": "nics"} if claims is None else claims)
    made["metadata"].update(metadata)
    made["spec"]["nodeName"] = node
    return made


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (next_pod(), True),
        (None, False),
        (next_pod(uid="p3"), False),
        (next_pod(deletionTimestamp="2026-09-21T14:13:20Z"), False),
        (next_pod(node="node-2"), False),
        (next_pod(claims={"net": "others"}), False),
    ],
)
def test_only_a_live_pod_of_this_node_waits_for_the_claim(
    found: Document | None,
    expected: bool,  # noqa: FBT001
) -> None:
    allocated = claim(result("a"))

    assert waits_for_claim(found, allocated, NEXT, recorded(allocated)) is expected
