"""Pods as the API server gives them: which entry is the claim, and which containers list it."""

import pytest

from dra_shim.resourceapi import AllocatedClaim, PodUse, has_ended, read_pod_use
from dranet_nri.errors import ConfigError
from dranet_nri.model import ContainerClaim, ObjectRef
from tests.fakes.cluster import Document, pod_document

CLAIM = AllocatedClaim(ObjectRef("ai", "nics", "u1"))
MADE = AllocatedClaim(ObjectRef("ai", "train-fast-x7", "u1"), pod_claim_name="fast")


def templated(statuses: object, **status: object) -> Document:
    document = pod_document("train", "p1", {}, {"main": [{"name": "fast"}], "side": []})
    document["spec"]["resourceClaims"] = [{"name": "fast", "resourceClaimTemplateName": "nic"}]
    document["status"] = {"resourceClaimStatuses": statuses, **status}
    return document


def test_all_container_kinds_that_list_a_claim_are_found() -> None:
    document = pod_document(
        "train",
        "p1",
        {"net": "nics", "other": "gpus"},
        {
            "main": [{"name": "net", "request": "nic"}, {"name": "net", "request": "rdma/fast"}],
            "gpu": [{"name": "other"}],
            "all": [{"name": "other"}, {"name": "net"}, {"name": "net"}],
        },
        initContainers=[
            {"name": "init", "resources": {"claims": [{"name": "net"}]}},
            {"name": "b"},
        ],
    )

    assert read_pod_use(document, CLAIM) == PodUse(
        "p1",
        has_claim=True,
        containers=(
            ContainerClaim("init"),
            ContainerClaim("main", "nic"),
            ContainerClaim("main", "rdma"),
            ContainerClaim("all"),
        ),
    )


def test_claim_at_pod_level_is_listed_by_no_container() -> None:
    document = pod_document("train", "p1", {"net": "nics"}, {"main": []}, hostNetwork=True)

    assert read_pod_use(document, CLAIM) == PodUse("p1", has_claim=True, host_network=True)


def test_node_of_a_scheduled_pod_is_read() -> None:
    assert read_pod_use(pod_document("train", "p1", {}, nodeName="n1"), CLAIM).node == "n1"


@pytest.mark.parametrize(
    ("phase", "ended"), [("Running", False), ("Succeeded", True), ("Failed", True)]
)
def test_terminating_pod_has_not_ended(phase: str, ended: bool) -> None:  # noqa: FBT001
    document = ending(phase, deletionTimestamp="2026-11-22T10:00:00Z")

    assert read_pod_use(document, CLAIM).ended is ended


def test_claim_with_two_names_is_listed_by_either_name() -> None:
    document = pod_document(
        "train", "p1", {"a": "nics", "b": "nics"}, {"x": [{"name": "a"}], "y": [{"name": "b"}]}
    )

    assert read_pod_use(document, CLAIM).containers == (ContainerClaim("x"), ContainerClaim("y"))


def test_claim_of_a_template_is_found_by_its_pod_name() -> None:
    document = templated([{"name": "fast", "resourceClaimName": "train-fast-x7"}])

    assert read_pod_use(document, MADE) == PodUse(
        "p1", has_claim=True, pod_claim_name="fast", containers=(ContainerClaim("main"),)
    )


@pytest.mark.parametrize("statuses", [None, [], [{"name": "fast", "resourceClaimName": None}]])
def test_claim_of_a_template_is_found_without_pod_status(statuses: object) -> None:
    use = read_pod_use(templated(statuses), MADE)

    assert (use.pod_claim_name, use.containers) == ("fast", (ContainerClaim("main"),))


def test_other_claim_of_a_template_is_not_matched() -> None:
    document = templated([{"name": "fast", "resourceClaimName": "train-fast-other"}])

    assert read_pod_use(document, MADE) == PodUse("p1")


def test_extended_resource_claim_is_listed_by_its_containers() -> None:
    mappings = [
        {"containerName": "main", "resourceName": "dra.net/nic", "requestName": "c-0-r-0"},
        {"containerName": "side", "resourceName": "dra.net/nic", "requestName": "c-1-r-0"},
    ]
    document = templated(
        [],
        extendedResourceClaimStatus={"resourceClaimName": "nics", "requestMappings": mappings},
    )

    assert read_pod_use(document, CLAIM) == PodUse(
        "p1",
        has_claim=True,
        containers=(ContainerClaim("main", "c-0-r-0"), ContainerClaim("side", "c-1-r-0")),
    )
    assert not read_pod_use(document, MADE).containers[1:]


@pytest.mark.parametrize("document", [{}, {"metadata": {}, "spec": {}, "status": None}])
def test_pod_without_claims_references_none(document: Document) -> None:
    assert read_pod_use(document, CLAIM) == PodUse("")


def test_malformed_object_is_refused_with_its_path() -> None:
    document = pod_document("train", "p1", {"net": "nics"}, hostNetwork="yes")
    document["spec"]["containers"][0]["resources"]["claims"] = [{"name": 4}]
    document["status"]["extendedResourceClaimStatus"] = {}

    with pytest.raises(ConfigError) as caught:
        read_pod_use(document, CLAIM)

    assert [line.split(": ")[0] for line in caught.value.violations] == [
        "spec.containers[0].resources.claims[0].name",
        "spec.hostNetwork",
        "status.extendedResourceClaimStatus",
    ]


def ending(phase: str = "Running", **metadata: object) -> Document:
    document = pod_document("train", "p1", {})
    document["metadata"] |= metadata
    document["status"]["phase"] = phase
    return document


@pytest.mark.parametrize(
    ("document", "over"),
    [
        (ending("Pending"), False),
        (ending(deletionTimestamp=None), False),
        ({"metadata": {"uid": "p1"}}, False),
        (ending("Succeeded"), True),
        (ending("Failed"), True),
        (ending(deletionTimestamp="2026-11-22T10:00:00Z"), True),
        (ending(uid="p2"), True),
        ({}, True),
        (None, True),
    ],
    ids=[
        "not begun", "not deleted", "without a status", "finished", "failed", "being deleted",
        "another one", "nothing", "gone",
    ],
)  # fmt: skip
def test_pod_is_over_when_ended_or_terminating(document: Document | None, over: bool) -> None:  # noqa: FBT001
    assert has_ended(document, "p1") is over


def test_malformed_pod_is_refused() -> None:
    with pytest.raises(ConfigError):
        has_ended({"metadata": "p1"}, "p1")
