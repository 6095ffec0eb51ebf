"""Pods of a verification from their creation to their end; kubectl is replaced."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dra_shim.verify.documents import Document, PodRequirements
from dra_shim.verify.kubectl import Kubectl, KubectlError
from dra_shim.verify.pods import running_pods

REQUIREMENTS = PodRequirements("image", "nic.dra.net", 0, "gpu.nvidia.com", 0)
UNREADY = {"type": "Ready", "status": "False", "message": "containers with unready status"}
NO_SHELL = {"terminated": {"reason": "StartError", "message": "no shell in the image"}}
PULLING = {"waiting": {"reason": "ImagePullBackOff"}}


class Cluster(Kubectl):
    """A cluster whose API has a version, and whose pods do not become ready.

    Args:
        version: of the slices.
        phase: of the pods.
        state: of their containers.
    """

    def __init__(self, version: str, phase: str, state: Document) -> None:
        super().__init__("", "", "dranet-verify-x")
        self.version = version
        self.pod: Document = {
            "metadata": {"name": "verify-0"},
            "status": {
                "phase": phase, "conditions": [UNREADY], "containerStatuses": [{"state": state}],
            },
        }  # fmt: skip
        self.calls: list[str] = []

    def get(self, *words: str) -> list[Document]:
        """Return a slice, or the pod."""
        return [{"apiVersion": self.version}] if words == ("resourceslices",) else [self.pod]

    def create(self, documents: Sequence[Document]) -> None:
        """Remember the kinds and versions."""
        self.calls += [f"{document['kind']} {document['apiVersion']}" for document in documents]

    def delete_namespace(self, name: str, limit_s: float) -> None:
        """Remember that it is deleted."""
        self.calls.append(f"delete {name}")


def test_failed_pod_ends_the_verification_at_once_and_nothing_is_left() -> None:
    cluster = Cluster("resource.k8s.io/v1beta1", "Failed", NO_SHELL)
    pods = running_pods(cluster, "x", ["a", "b"], REQUIREMENTS, 3600, lambda text: None)

    with (
        pytest.raises(KubectlError, match="pod verify-0 is not ready: no shell in the image"),
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
    cluster = Cluster("resource.k8s.io/v1", "Pending", state)
    pods = running_pods(cluster, "x", ["a", "b"], REQUIREMENTS, 0, lambda text: None)

    with pytest.raises(KubectlError, match=f"pod verify-0 is not ready: .*{reason}; free"), pods:
        pass
