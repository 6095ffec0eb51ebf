"""Pods of a verification from their creation to their end; kubectl is replaced."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dra_shim.verify.documents import Document, PodRequirements
from dra_shim.verify.kubectl import Kubectl, KubectlError
from dra_shim.verify.pods import running_pods

REQUIREMENTS = PodRequirements("image", "nic.dra.net", 0, "gpu.nvidia.com", 0)
FAILED: Document = {
    "metadata": {"name": "verify-0"},
    "status": {
        "phase": "Failed",
        "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed"}],
        "containerStatuses": [
            {"state": {"terminated": {"reason": "StartError", "message": "no shell in the image"}}}
        ],
    },
}


class Cluster(Kubectl):
    """A cluster of a version, in which every pod fails to start."""

    def __init__(self, version: str) -> None:
        super().__init__("", "", "dranet-verify-x")
        self.version = version
        self.calls: list[str] = []

    def get(self, *words: str) -> list[Document]:
        """Return a slice, or the pod."""
        return [{"apiVersion": self.version}] if words == ("resourceslices",) else [FAILED]

    def create(self, documents: Sequence[Document]) -> None:
        """Remember the kinds and versions."""
        self.calls += [f"{document['kind']} {document['apiVersion']}" for document in documents]

    def delete_namespace(self, name: str, limit_s: float) -> None:
        """Remember that it is deleted."""
        self.calls.append(f"delete {name}")


def test_failed_pod_ends_the_verification_at_once_and_nothing_is_left() -> None:
    cluster = Cluster("resource.k8s.io/v1beta1")
    pods = running_pods(cluster, "x", ["a", "b"], REQUIREMENTS, 3600, lambda text: None)

    with (
        pytest.raises(KubectlError, match="pod verify-0 is not ready: no shell in the image"),
        pods,
    ):
        pass

    template = "ResourceClaimTemplate resource.k8s.io/v1beta1"
    assert cluster.calls == ["Namespace v1", template, "Pod v1", "Pod v1", "delete x"]
