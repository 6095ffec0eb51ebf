# ruff: noqa: E501  one case per line reads as a table
"""Claims of the pods of workloads: Jobs, Deployments and others."""

import pytest

from dra_shim.resourceapi import (
    OtherObject,
    PodClaimEntry,
    PodContainer,
    PodSpec,
    Workload,
    parse_document,
)

POD = {
    "resourceClaims": [
        {"name": "net", "resourceClaimTemplateName": "fast"},
        {"name": "own", "resourceClaimName": "mine"},
        "odd",
    ],
    "initContainers": [{"name": "init"}],
    "containers": [
        {"name": "main", "resources": {"claims": [{"name": "net", "request": "nic"}, 1]}},
        {"name": "side", "resources": 7},
    ],
}
READ = PodSpec(
    "",
    (PodClaimEntry("net", template="fast"), PodClaimEntry("own", "mine")),
    (
        PodContainer("init", init=True),
        PodContainer("main", (("net", "nic"),)),
        PodContainer("side"),
    ),
)


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("Pod", POD, "spec"),
        ("Deployment", {"template": {"spec": POD}}, "spec.template.spec"),
        ("CronJob", {"jobTemplate": {"spec": {"template": {"spec": POD}}}}, "spec.jobTemplate.spec.template.spec"),
        ("MPIJob", {"mpiReplicaSpecs": {"Worker": {"template": {"spec": POD}}}}, "spec.mpiReplicaSpecs.Worker.template.spec"),
        ("JobSet", {"replicatedJobs": [{"name": "a"}, {"template": {"spec": {"template": {"spec": POD}}}}]}, "spec.replicatedJobs[1].template.spec.template.spec"),
    ],
)  # fmt: skip
def test_pod_templates_of_all_kinds_are_found(kind: str, spec: object, path: str) -> None:
    document = {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "w", "namespace": "ai"}}

    found = parse_document(document | {"spec": spec}, "documents[0]")

    assert isinstance(found, Workload)
    assert (found.kind, found.namespace, found.name) == (kind, "ai", "w")
    assert [pod.path for pod in found.pods] == [f"documents[0].{path}"]
    assert found.pods[0].claims == READ.claims
    assert found.pods[0].containers == READ.containers


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "main"}]},
        {"containers": "many", "resourceClaims": [{"name": "net"}]},
        None,
        [],
    ],
    ids=["no-claims", "no-containers", "nothing", "a-list"],
)
def test_object_without_claims_is_ignored(spec: object) -> None:
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}

    assert parse_document(document) == OtherObject("Pod", "p")


def test_status_is_not_searched_for_pod_specs() -> None:
    document = {"apiVersion": "v1", "kind": "Report", "status": POD}

    assert parse_document(document) == OtherObject("Report", "")
