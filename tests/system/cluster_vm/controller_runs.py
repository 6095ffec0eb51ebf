"""Examples of job controllers, run by the controllers themselves: `hack/prove controllers`.

The pods have claims, and NICs. Where the image of an example has a framework that the image of the
tests does not have (Ray, vLLM), their command is replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.box.waiting import wait_until
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods
from tests.system.cluster.site import EXAMPLES
from tests.system.cluster_vm import controllers, jobs
from tests.system.cluster_vm.machine import Machine
from tests.system.cluster_vm.test_programs import running, sent

__all__ = ["running"]

LIMIT_S: Final = 180.0
MIB: Final = 2**20
NIC: Final = "DRA_NET_GPU_NIC_NIC_IFNAMES"
# PyTorch of the tests is the build for CPUs.
ON_CPUS: Final = {
    '"nccl", device_id=torch.device("cuda", 0)': '"gloo"',
    'torch.full((2**28,), dist.get_rank() + 1.0, device="cuda")': (
        "torch.full((2**20,), dist.get_rank() + 1.0)"
    ),
    "exec torchrun": f"export GLOO_SOCKET_IFNAME=${NIC}; exec torchrun",
}
PAIR: Final = ["dra.net", "gpu.nvidia.com"]
SERVING: Final = ["bash", "-c", "env | grep -E '^(DRA_NET|LWS)_'; exec sleep infinity"]


@pytest.fixture
def controller(cluster: ControlPlane, node: Node, request: pytest.FixtureRequest) -> Iterator[str]:
    """Have the controller of the test's parameter at work; return its name."""
    found = controllers.CONTROLLERS[request.param]
    programs = Path(os.environ["BOX_CONTROLLERS"])
    manifests = Path(os.environ["BOX_CONTROLLER_MANIFESTS"])
    with controllers.running(cluster, node, found, programs, manifests):
        yield found.name


def with_controller(name: str) -> pytest.MarkDecorator:
    """Return the mark of a test that a controller is for."""
    return pytest.mark.parametrize("controller", [name], indirect=True)


def apply(
    cluster: ControlPlane, pods: Pods, name: str, replaced: Mapping[str, str] | None = None,
    command: list[str] | None = None,
) -> None:  # fmt: skip
    """Apply an example with the image of the tests.

    Args:
        cluster: has kubectl.
        pods: of the namespace.
        name: of the example.
        replaced: texts of the example, each with another one.
        command: in the place of that of each container.
    """
    text = cluster.kubectl("kustomize", str(EXAMPLES / "controllers" / name))
    for old, new in (replaced or {}).items():
        assert old in text
        text = text.replace(old, new)
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        for spec in jobs.pod_specs(document):
            for container in spec["containers"]:
                container["command"] = command or container["command"]
                container.pop("readinessProbe", None)
        jobs.prepared(document)
    pods.apply(yaml.safe_dump_all(documents))


def claimed(pods: Pods, pod: str) -> list[str]:
    """Return the devices of a pod's claims, by driver."""
    found = pods.get(pod)
    assert found is not None
    drivers: list[str] = []
    for status in found["status"].get("resourceClaimStatuses", []):
        claim = pods.claim(status["resourceClaimName"])
        assert claim is not None
        results: list[Any] = claim["status"]["allocation"]["devices"]["results"]
        drivers += [str(result["driver"]) for result in results]
    return sorted(drivers)


def custom(pods: Pods, path: str) -> Object:
    """Return a custom object of the namespace: GROUP/VERSION/PLURAL/NAME."""
    group, version, rest = path.split("/", 2)
    return pods.api.get(f"/apis/{group}/{version}/namespaces/{pods.namespace}/{rest}")


@with_controller("jobset")
def test_jobset_workers_reduce_over_their_nics(
    cluster: ControlPlane, installed: Machine, controller: str, pods: Pods,
    running: jobs.Running, rails: list[str],
) -> None:  # fmt: skip
    before = sent(installed.node, rails)
    apply(cluster, pods, "jobset", ON_CPUS)
    running.name(2, "train")
    names = running.names()
    held = [claimed(pods, name) for name in names]

    logs = [running.wait_ended(name) for name in names]

    assert held == [PAIR, PAIR]
    assert all("sum of all ranks: 3.0" in log for log in logs)
    wait_until("the JobSet to be completed", lambda: _completed(pods), LIMIT_S)
    running.end("jobsets")
    installed.wait_restored()
    assert sent(installed.node, rails) - before > 4 * MIB


def _completed(pods: Pods) -> bool:
    found = custom(pods, "jobset.x-k8s.io/v1alpha2/jobsets/train")
    return bool(found.get("status", {}).get("terminalState") == "Completed")


@with_controller("leaderworkerset")
def test_leaderworkerset_pods_have_a_gpu_and_nic_pair_each(
    cluster: ControlPlane, installed: Machine, controller: str, pods: Pods,
    running: jobs.Running, rails: list[str],
) -> None:  # fmt: skip
    apply(cluster, pods, "leaderworkerset", command=SERVING)
    running.name(2, "serve")
    for name in running.names():
        pods.wait_running(name)

    assert running.names() == ["serve-0", "serve-0-1"]
    assert [claimed(pods, name) for name in running.names()] == [PAIR, PAIR]
    for name in running.names():
        wait_until(f"output of {name}", partial(_says, pods, name, NIC), LIMIT_S)
        assert "LWS_LEADER_ADDRESS=serve-0.serve." in pods.logs(name)
    running.end("leaderworkersets", "statefulsets")
    installed.wait_restored()


def _says(pods: Pods, pod: str, text: str) -> bool:
    return text in pods.logs(pod)


@with_controller("kueue")
def test_kueue_admits_a_job_when_quota_is_free(
    cluster: ControlPlane, installed: Machine, controller: str, pods: Pods,
    running: jobs.Running, rails: list[str],
) -> None:  # fmt: skip
    waits = "until [ -e /tmp/end ]; do sleep 1; done; env"
    replaced = {"nominalQuota: 8": "nominalQuota: 2", "nvidia-smi -L; env": waits}
    apply(cluster, pods, "kueue", replaced)
    first = names_of(running, 2)
    apply(cluster, pods, "kueue", {**replaced, "name: train\nspec:": "name: second\nspec:"})
    wait_until("the second job to wait", lambda: "couldn't assign" in _queued(pods), LIMIT_S)
    assert running.names() == first
    assert [claimed(pods, name) for name in first] == [PAIR, PAIR]
    running.name(2, "train")
    for name in first:
        pods.wait_running(name)
        pods.exec(name, "touch", "/tmp/end", container="worker")

    logs = [running.wait_ended(name) for name in first]

    assert all(f"{NIC}=" in log for log in logs)
    wait_until("the second job to run", lambda: len(running.names()) == 4, LIMIT_S)
    running.end()
    installed.wait_restored()


def names_of(running: jobs.Running, number: int) -> list[str]:
    """Return the names of the pods once there are so many."""
    wait_until(f"{number} pods", lambda: len(running.names()) == number, LIMIT_S)
    return running.names()


def _queued(pods: Pods) -> str:
    """Return what Kueue says of the workloads."""
    group = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{pods.namespace}/workloads"
    conditions = [
        condition
        for workload in pods.api.get(group)["items"]
        for condition in workload.get("status", {}).get("conditions", [])
    ]
    return "\n".join(condition["message"] for condition in conditions)


@with_controller("kuberay")
def test_ray_workers_have_a_gpu_and_nic_pair_each(
    cluster: ControlPlane, installed: Machine, controller: str, pods: Pods,
    running: jobs.Running, rails: list[str],
) -> None:  # fmt: skip
    own = json.dumps({"ray.io/overwrite-container-cmd": "true"})
    replaced = {"metadata:\n  name: train": f"metadata:\n  name: train\n  annotations: {own}"}
    apply(cluster, pods, "kuberay", replaced, SERVING)
    running.name(3, "train")
    for name in running.names():
        pods.wait_running(name)

    held = {name: claimed(pods, name) for name in running.names()}
    assert sorted(held.values()) == [[], PAIR, PAIR]
    assert all(("worker" in name) == bool(devices) for name, devices in held.items())
    wait_until("the Ray cluster to be ready", lambda: _ready_workers(pods) == 2, LIMIT_S)
    running.end("rayclusters")
    installed.wait_restored()


def _ready_workers(pods: Pods) -> int:
    status = custom(pods, "ray.io/v1/rayclusters/train").get("status", {})
    return int(status.get("readyWorkerReplicas", 0))
