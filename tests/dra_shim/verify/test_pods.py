"""Pods of a verification from their creation to their end; kubectl is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dra_shim.verify.documents import Document, PodRequirements
from dra_shim.verify.kubectl import Kubectl, KubectlError
from dra_shim.verify.pods import running_pods
from dra_shim.verify.types import Outcome

REQUIREMENTS = PodRequirements("image", "nic.dra.net", 0, "gpu.nvidia.com", 0)
READY = {"type": "Ready", "status": "True"}
UNREADY = {"type": "Ready", "status": "False", "message": "containers with unready status"}
NO_SHELL = {"terminated": {"reason": "StartError", "message": "no shell in the image"}}
PULLING = {"waiting": {"reason": "ImagePullBackOff"}}


def pod_of(name: str, phase: str, *conditions: Document, state: Document) -> Document:
    """Return a pod with one claim."""
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": f"node of {name}"},
        "status": {
            "phase": phase, "conditions": conditions, "containerStatuses": [{"state": state}],
            "podIP": "10.0.0.1",
            "resourceClaimStatuses": [{"name": "nics", "resourceClaimName": f"{name}-nics"}],
        },
    }  # fmt: skip


class Cluster(Kubectl):
    """A cluster whose API has a version, and whose pods stay as they are.

    Args:
        version: of the slices.
        pods: its pods.

    Attributes:
        silent: pods whose NICs the driver has not reported.
    """

    silent: Sequence[str] = ()

    def __init__(self, version: str, *pods: Document) -> None:
        super().__init__("", "", "dranet-verify-x")
        self.version = version
        self.pods = [*pods]
        self.calls: list[str] = []

    def get(self, *words: str) -> list[Document]:
        """Return a slice without devices, the pods, or their claim."""
        spec = {"driver": "dra.net", "pool": {"name": "a"}}
        return {
            "resourceslices": [{"apiVersion": self.version, "spec": spec}],
            "pods": self.pods,
            "resourceclaims": [self.claim_of(pod["metadata"]["name"]) for pod in self.pods],
        }[words[0]]

    def claim_of(self, pod: str) -> Document:
        """Return the claim of a pod: one NIC, and the NIC's status unless it is silent."""
        device = {"driver": "dra.net", "pool": "a", "device": "nic"}
        status = {
            "allocation": {"devices": {"results": [device]}},
            "devices": [] if pod in self.silent else [device],
        }
        return {"metadata": {"name": f"{pod}-nics"}, "status": status}

    def create(self, documents: Sequence[Document]) -> None:
        """Remember the kinds and versions."""
        self.calls += [f"{document['kind']} {document['apiVersion']}" for document in documents]

    def delete_namespace(self, name: str, limit_s: float) -> None:
        """Remember that it is deleted."""
        self.calls.append(f"delete {name}")


def test_failed_pod_ends_the_verification_at_once_and_nothing_is_left() -> None:
    broken = pod_of("verify-0", "Failed", UNREADY, state=NO_SHELL)
    cluster = Cluster("resource.k8s.io/v1beta1", broken)
    pods = running_pods(cluster, "x", ["a", "b"], REQUIREMENTS, 3600, lambda text: None)

    with (
        pytest.raises(
            KubectlError, match="pod verify-0 on node a is not ready: no shell in the image"
        ),
        pods,
    ):
        pass

    template = "ResourceClaimTemplate resource.k8s.io/v1beta1"
    assert cluster.calls == ["Namespace v1", template, "Pod v1", "Pod v1", "delete x"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        pytest.param(PULLING, "ImagePullBackOff", id="no image"),
        pytest.param({"running": {}}, "the programs are not installed yet", id="no programs"),
    ],
)
def test_reason_of_an_unready_pod_is_that_of_its_container(state: Document, reason: str) -> None:
    cluster = Cluster("resource.k8s.io/v1", pod_of("verify-0", "Pending", UNREADY, state=state))
    pods = running_pods(cluster, "x", ["a", "b"], REQUIREMENTS, 0, lambda text: None)

    expected = f"pod verify-0 on node a is not ready: .*{reason}; free"
    with pytest.raises(KubectlError, match=expected), pods:
        pass


def test_pods_that_are_not_ready_do_not_end_the_verification() -> None:
    ready = [
        pod_of(f"verify-{number}", "Running", READY, state={"running": {}}) for number in (0, 2)
    ]
    cluster = Cluster(
        "resource.k8s.io/v1", *ready, pod_of("verify-1", "Failed", UNREADY, state=NO_SHELL)
    )
    progress: list[str] = []

    with running_pods(cluster, "x", ["a", "b", "c", "d"], REQUIREMENTS, 0, progress.append) as pods:
        workers, lines = pods

    assert [worker.pod for worker in workers] == ["verify-0", "verify-2"]
    assert [(line.source, line.outcome) for line in lines] == [
        ("b", Outcome.FAILED), ("d", Outcome.FAILED),
    ]  # fmt: skip
    assert "no shell in the image" in lines[0].meaning
    assert "verify-3 on node d is not ready: it was deleted" in lines[1].meaning
    assert progress[0] == "2 of 4 pods are ready"


def test_pod_whose_nics_are_not_reported_is_not_measured() -> None:
    pods = [
        pod_of(f"verify-{number}", "Running", READY, state={"running": {}}) for number in range(3)
    ]
    cluster = Cluster("resource.k8s.io/v1", *pods)
    cluster.silent = ["verify-1"]

    with running_pods(cluster, "x", "abc", REQUIREMENTS, 0, lambda text: None) as (workers, lines):
        pass

    assert [worker.pod for worker in workers] == ["verify-0", "verify-2"]
    assert "on node b is not ready: its claim has no status of the NICs" in lines[0].meaning


def test_namespace_is_deleted_although_nothing_reads_the_progress() -> None:
    cluster = Cluster("resource.k8s.io/v1")

    def broken(text: str) -> None:
        raise BrokenPipeError(text)

    with (
        pytest.raises(BrokenPipeError),
        running_pods(cluster, "x", ["a", "b"], REQUIREMENTS, 0, broken),
    ):
        pass

    assert cluster.calls[-1] == "delete x"


def test_objects_of_the_users_pod_are_created_before_the_pods() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"}}
    cluster = Cluster("resource.k8s.io/v1")
    requirements = replace(REQUIREMENTS, others=(secret,))

    with (
        pytest.raises(KubectlError),
        running_pods(cluster, "x", ["a", "b"], requirements, 0, lambda text: None),
    ):
        pass

    assert cluster.calls.index("Secret v1") < cluster.calls.index("Pod v1")
