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
from dranet_nri.errors import ConfigError

POD = {
    "resourceClaims": [
        {"name": "net", "resourceClaimTemplateName": "fast"},
        {"name": "own", "resourceClaimName": "mine"},
    ],
    "initContainers": [{"name": "init"}],
    "containers": [
        {"name": "main", "resources": {"claims": [{"name": "net", "request": "nic"}]}},
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
    ("spec", "copies"),
    [
        (POD, 1),
        ({"replicas": 3, "template": {"spec": POD}}, 3),
        ({"replicas": "3", "parallelism": True, "template": {"spec": POD}}, 1),
        ({"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 4, "template": {"spec": POD}}}}]}, 8),
    ],
)  # fmt: skip
def test_number_of_pods_of_a_template_is_found(spec: object, copies: int) -> None:
    document = {"apiVersion": "x/v1", "kind": "Job", "metadata": {"name": "w"}, "spec": spec}

    found = parse_document(document, "documents[0]")

    assert isinstance(found, Workload)
    assert [pod.copies for pod in found.pods] == [copies]


def test_claims_of_a_virtual_machine_are_found() -> None:
    machine = {"domain": {"devices": {}}, "resourceClaims": POD["resourceClaims"]}
    spec = {"template": {"spec": machine}}

    found = parse_document({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "spec": spec})

    assert isinstance(found, Workload)
    assert found.pods == (PodSpec("spec.template.spec", READ.claims),)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "main"}]},
        {"domain": {}, "networks": [{"name": "default"}]},
        {"containers": "many", "resourceClaims": [{"name": "net"}]},
        {"containers": [{"name": "main", "resources": {"claims": None}}], "resourceClaims": None},
        None,
        [],
    ],
    ids=["no-claims", "machine", "no-containers", "null-claims", "nothing", "a-list"],
)
def test_object_without_claims_is_ignored(spec: object) -> None:
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}

    assert parse_document(document) == OtherObject("Pod", "p")


def test_status_is_not_searched_for_pod_specs() -> None:
    document = {"apiVersion": "v1", "kind": "Report", "status": POD}

    assert parse_document(document) == OtherObject("Report", "")


def test_generated_name_is_the_name() -> None:
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "w-"}, "spec": POD}

    found = parse_document(document)

    assert isinstance(found, Workload)
    assert found.name == "w"


NET = {"name": "net", "resourceClaimTemplateName": "fast"}


@pytest.mark.parametrize(
    ("claims", "listed", "violation"),
    [
        ([NET | {"resourceClaimName": "mine"}], [], "resourceClaims[0]: object with name, resourceClaimTemplateName, resourceClai...: has resourceClaimName and resourceClaimTemplateName; keep one"),
        ([NET, NET], [], "resourceClaims[1]: object with name, resourceClaimTemplateName: the name of a claim must be unique in the pod; rename one"),
        ([NET | {"name": "Net_1"}], [], 'resourceClaims[0].name: "Net_1": must be a DNS label: 1 to 63 lower-case letters, digits and inner -'),
        ([NET | {"name": None}], [], "resourceClaims[0]: object with name, resourceClaimTemplateName: needs name; add it"),
        ([NET | {"resourceClaimTemplateName": 5}], [], "resourceClaims[0].resourceClaimTemplateName: 5: must be a string; put it in quotes"),
        (NET, [], "resourceClaims: object with name, resourceClaimTemplateName: must be a list; put it in [ ]"),
        ([NET], ["net"], 'containers[0].resources.claims[0]: "net": must be an object with named fields'),
        ([NET], [{"request": "nic"}], "containers[0].resources.claims[0]: object with request: needs name; add it"),
        ([NET], [{"name": "net"}] * 2, "containers[0].resources.claims[1]: object with name: the container already lists this claim; keep one"),
        ([NET], [{"name": "net"}, {"name": "net", "request": "a"}], "containers[0].resources.claims[1]: object with name, request: the container already lists this claim; keep one"),
        ([NET], [{"name": "net", "request": "a"}, {"name": "net"}], "containers[0].resources.claims[1]: object with name: the container already lists this claim; keep one"),
        ([NET], [{"name": "net", "request": "a"}] * 2, "containers[0].resources.claims[1]: object with name, request: the container already lists this claim; keep one"),
        ([NET], [{"name": "net", "request": "a/b"}], 'containers[0].resources.claims[0].request: "a/b": must be a DNS label: 1 to 63 lower-case letters, digits and inner -'),
        ([NET], {"name": "net"}, "containers[0].resources.claims: object with name: must be a list; put it in [ ]"),
    ],
)  # fmt: skip
def test_claims_that_the_server_refuses_are_refused(
    claims: object, listed: object, violation: str
) -> None:
    container = {"name": "main", "resources": {"claims": listed}}
    spec = {"resourceClaims": claims, "containers": [container]}

    with pytest.raises(ConfigError) as caught:
        parse_document({"apiVersion": "v1", "kind": "Pod", "spec": spec})

    assert f"spec.{violation}" in caught.value.violations


def test_several_requests_of_a_claim_may_be_listed() -> None:
    listed = [{"name": "net", "request": name} for name in ("a", "b")]
    container = {"name": "main", "resources": {"claims": listed}}
    spec = {"resourceClaims": [NET], "containers": [container]}

    found = parse_document({"apiVersion": "v1", "kind": "Pod", "spec": spec})

    assert isinstance(found, Workload)
    assert found.pods[0].containers == (PodContainer("main", (("net", "a"), ("net", "b"))),)


def test_claims_of_an_ephemeral_container_are_refused() -> None:
    spec = POD | {"ephemeralContainers": [{"name": "e", "resources": {"claims": [NET]}}]}

    with pytest.raises(ConfigError, match=r"ephemeralContainers\[0\].resources.claims.*remove it"):
        parse_document({"apiVersion": "v1", "kind": "Pod", "spec": spec})
