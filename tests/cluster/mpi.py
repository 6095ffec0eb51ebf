"""What MPI Operator does with an MPIJob, as far as the scheduler sees it: pods for the workers."""

from __future__ import annotations

from typing import Final

from tests.box.waiting import wait_until
from tests.cluster.api import Api, ApiError, Object
from tests.cluster.workload import NAMESPACES

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP: Final = "kubeflow.org"
VERSION: Final = "v2beta1"
NAME: Final = f"mpijobs.{GROUP}"


def install(api: Api) -> None:
    """Have the server take MPIJobs, whatever they say."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": "MPIJob", "plural": "mpijobs", "singular": "mpijob"}
    spec = {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
    try:
        api.create(CRDS, {"metadata": {"name": NAME}, "spec": spec})
    except ApiError as error:
        if error.status != 409:
            raise
    wait_until("MPIJobs to be served", lambda: _is_established(api.get(f"{CRDS}/{NAME}")))


def start_workers(api: Api, namespace: str, job: str) -> int:
    """Create the pods of a job's workers; return how many."""
    document = api.get(f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/mpijobs/{job}")
    workers = document["spec"]["mpiReplicaSpecs"]["Worker"]
    for index in range(workers["replicas"]):
        pod = {"metadata": {"name": f"{job}-worker-{index}"}, "spec": workers["template"]["spec"]}
        api.create(f"{NAMESPACES}/{namespace}/pods", pod)
    return int(workers["replicas"])


def _is_established(crd: Object) -> bool:
    conditions = {
        condition["type"]: condition["status"]
        for condition in crd["status"].get("conditions") or []
    }
    return conditions.get("Established") == "True"
