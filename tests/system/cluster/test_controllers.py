"""Examples of job controllers: a real API server takes them, with the controllers' own CRDs."""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.capability import lacking
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.crds import apply_crds
from tests.system.cluster.site import EXAMPLES

CONTROLLERS: Final = ("jobset", "leaderworkerset", "kueue", "kuberay")
CRDS: Final = (
    "jobset/jobset.x-k8s.io_jobsets",
    "leaderworkerset/leaderworkerset.x-k8s.io_leaderworkersets",
    "kueue/kueue.x-k8s.io_clusterqueues",
    "kueue/kueue.x-k8s.io_localqueues",
    "kueue/kueue.x-k8s.io_resourceflavors",
    "kuberay/ray.io_rayclusters",
    "mpi-operator/kubeflow.org_mpijobs",
)
JOBS: Final = (
    *(f"controllers/{name}" for name in CONTROLLERS),
    *("beyond-gpus/mpi", "numa-training/mpijob-aligned.yaml"),
)


@pytest.fixture(scope="module")
def crds(cluster: ControlPlane) -> None:
    """Have the CRDs of the controllers. They stay: their deletion takes as long."""
    directory = os.environ.get("BOX_CONTROLLER_MANIFESTS")
    if not directory:
        lacking("Go 1.26 or newer", "install it and run ./hack/test cluster")
    apply_crds(cluster, *(f"{directory}/{name}.yaml" for name in CRDS))


def applied(cluster: ControlPlane, text: str) -> str:
    """Return what the API server says of a manifest, without unknown fields and duplicates."""
    arguments = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-")
    return cluster.kubectl(*arguments, stdin=text)


def manifest(cluster: ControlPlane, example: str) -> str:
    """Return the manifest of a directory or a file."""
    path = EXAMPLES / example
    return cluster.kubectl("kustomize", str(path)) if path.is_dir() else path.read_text()


@pytest.mark.parametrize("example", JOBS)
def test_controller_accepts_its_example(cluster: ControlPlane, crds: None, example: str) -> None:
    text = manifest(cluster, example)

    assert "serverside-applied (server dry run)" in applied(cluster, text)
    # A claim in a wrong place is no claim.
    with pytest.raises(RuntimeError, match=r"unknown field|field not declared"):
        applied(cluster, text.replace("resourceClaims:", "resourceclaims:"))
