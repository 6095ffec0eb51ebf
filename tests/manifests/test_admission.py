"""A node's token writes what its shim writes, and no more. At a real server: tests/cluster."""

from __future__ import annotations

from typing import Any

import pytest

from dra_shim.slices.documents import Pool, new_document, spec_of
from dra_shim.slices.layout import Part, counters_name, slice_name
from tests.cluster.policies import denied
from tests.manifests.test_base import MANIFESTS, documents

SLICES, CLAIMS = (
    each
    for each in documents(MANIFESTS / "base/admission.yaml")
    if each["kind"] == "ValidatingAdmissionPolicy"
)
POOL = "in the pool of its name"
NAME = "whose names begin with"
LABEL = "n" + "-" * 61 + "n"  # the longest, and most is cut where its end is
# The lengths beside those where the shim, and the policy, do otherwise.
LONG = {length: (f"{LABEL}." * 4)[: length - 1] + "x" for length in (232, 233, 253)}
NODES = ["node-1", "n.example.com", *LONG.values(), "a" * 160 + "." + LABEL + "." + "b" * 28]


def asked(operation: str, node: str, document: Any, before: Any = None) -> dict[str, Any]:
    extra = {"authentication.kubernetes.io/node-name": [node]}
    request = {"operation": operation, "userInfo": {"extra": extra}}
    return {"request": request, "object": document, "oldObject": before}


def slice_of(node: str, name: str = "", pool: str = "") -> Any:
    """Return a slice as the shim writes it, but for another name or pool."""
    part = Part(name or slice_name(node, 0))
    document: Any = new_document(Pool(node, "uid"), part, spec_of(Pool(node, "uid"), part, 1, 1))
    document["spec"]["pool"]["name"] = pool or node
    return document


def claim_of(*drivers: str) -> Any:
    """Return a claim that was given a NIC of node-1, with what drivers say of their devices."""
    results = [{"driver": "dra.net", "pool": "node-1", "device": "nic0"}]
    told = [{"driver": each, "pool": "node-1", "device": "0"} for each in drivers]
    return {"status": {"allocation": {"devices": {"results": results}}, "devices": told}}


@pytest.mark.parametrize("node", NODES, ids=lambda node: str(len(node)))
@pytest.mark.parametrize("named", [slice_name, counters_name])
def test_what_the_shim_writes_is_let_in(node: str, named: Any) -> None:
    document = slice_of(node, named(node, 999))

    assert denied(SLICES, asked("CREATE", node, document)) == []
    assert denied(SLICES, asked("UPDATE", node, document, document)) == []
    assert denied(SLICES, asked("DELETE", node, None, document)) == []


@pytest.mark.parametrize("node", NODES, ids=lambda node: str(len(node)))
@pytest.mark.parametrize("name", ["node-2-dra.net-000", "node-10-dra.net-000", "whatever"])
def test_no_node_takes_the_name_of_another_ones_slice(node: str, name: str) -> None:
    (told,) = denied(SLICES, asked("CREATE", node, slice_of(node, name)))

    assert NAME in told


def test_a_name_that_the_server_ends_begins_with_the_nodes() -> None:
    document = slice_of("node-1")
    document["metadata"] = {"generateName": "node-1-dra.net-"}
    other = slice_of("node-1")
    other["metadata"] = {"generateName": "node-2-dra.net-"}

    assert denied(SLICES, asked("CREATE", "node-1", document)) == []
    assert NAME in denied(SLICES, asked("CREATE", "node-1", other))[0]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_no_node_puts_devices_in_the_pool_of_another(operation: str) -> None:
    before = slice_of("node-1") if operation == "UPDATE" else None

    (told,) = denied(SLICES, asked(operation, "node-1", slice_of("node-1", pool="node-2"), before))

    assert POOL in told


def test_a_slice_of_an_older_shim_in_another_pool_can_go() -> None:
    old = slice_of("node-1", "whatever", pool="node-2")

    assert denied(SLICES, asked("DELETE", "node-1", None, old)) == []
    assert denied(SLICES, asked("UPDATE", "node-1", slice_of("node-1", "whatever"), old)) == []


@pytest.mark.parametrize(
    "before", [("gpu.example.com",), ("gpu.example.com", "dra.net")], ids=["first", "again"]
)
def test_a_claim_is_told_of_our_devices(before: tuple[str, ...]) -> None:
    told = claim_of("dra.net", "gpu.example.com")

    assert denied(CLAIMS, asked("UPDATE", "node-1", told, claim_of(*before))) == []


@pytest.mark.parametrize(
    "after", [(), ("gpu.example.com", "tpu.example.com")], ids=["dropped", "made up"]
)
def test_what_another_driver_tells_of_a_claim_stays(after: tuple[str, ...]) -> None:
    (told,) = denied(
        CLAIMS, asked("UPDATE", "node-1", claim_of(*after), claim_of("gpu.example.com"))
    )

    assert "may only say what became of devices of dra.net" in told
