"""Workers of an MPIJob without the MPI Operator, for tests of what their claims get.

The programs of MPIJobs run with the real operator: tests/system/cluster_vm/test_programs.py.
"""

from __future__ import annotations

import json
from typing import Final

from tests.system.cluster.api import Api, ApiError, Object
from tests.system.cluster.crds import CRDS, wait_served
from tests.system.cluster.workload import NAMESPACES

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
    wait_served(api, NAME)


def start_workers(api: Api, namespace: str, job: str) -> int:
    """Create the pods of a job's workers; return how many."""
    spec = _job(api, namespace, job)["spec"]
    replicas = int(spec["mpiReplicaSpecs"]["Worker"]["replicas"])
    for index in range(replicas):
        pod = {
            "metadata": {"name": f"{job}-worker-{index}"},
            "spec": _with_keys(spec, "Worker", job),
        }
        api.create(f"{NAMESPACES}/{namespace}/pods", pod)
    return replicas


def _job(api: Api, namespace: str, job: str) -> Object:
    return api.get(f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/mpijobs/{job}")


def _with_keys(spec: Object, role: str, job: str) -> Object:
    """Return the pod of a role with the keys that the operator mounts; they need not exist."""
    pod: Object = json.loads(json.dumps(spec["mpiReplicaSpecs"][role]["template"]["spec"]))
    items = [
        {"key": "ssh-privatekey", "path": "id_rsa"},
        {"key": "ssh-publickey", "path": "id_rsa.pub"},
        {"key": "ssh-publickey", "path": "authorized_keys"},
    ]
    source = {"secretName": f"{job}-ssh", "items": items, "defaultMode": 0o600, "optional": True}
    pod.setdefault("volumes", []).append({"name": "ssh-auth", "secret": source})
    mount = {"name": "ssh-auth", "mountPath": spec["sshAuthMountPath"]}
    pod["containers"][0].setdefault("volumeMounts", []).append(mount)
    return pod
