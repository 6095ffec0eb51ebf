"""Jobs of the examples run on the machine, with its NICs and the GPUs of a mock driver.

They are applied as they are but for image and command: the node has one image, which sleeps. Of
the emulated hardware, four functions of one NUMA node and PCIe root have RDMA devices.
"""

from __future__ import annotations

import re
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.box import image
from tests.box.waiting import wait_until
from tests.fakes.gpus import NVIDIA
from tests.system.cluster import mpi
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.driver import links_of
from tests.system.cluster.gpus import gpu_driver
from tests.system.cluster.pods import POD_TIMEOUT_S, Pods
from tests.system.cluster.site import EXAMPLES
from tests.system.cluster.workload import NAMESPACES
from tests.system.cluster_vm.hardware import Facts
from tests.system.cluster_vm.machine import Machine
from tests.system.cluster_vm.plugin import Plugin

ROOT = "resource.kubernetes.io/pcieRoot"
CONTROLLERS = "jobs,statefulsets"


@dataclass(frozen=True, slots=True)
class Worker:
    """A pod of a story.

    Attributes:
        gpus: names of its GPUs.
        nics: what the node knows of its NICs.
    """

    pods: Pods
    name: str
    container: str
    gpus: frozenset[str]
    nics: tuple[Facts, ...]

    def exec(self, *command: str) -> str:
        """Run a command in its container."""
        return self.pods.exec(self.name, *command, container=self.container)

    def check(self) -> None:
        """Look whether it has the NICs and GPUs that it was given, and no others."""
        assert f"GPUS_GPU={','.join(sorted(self.gpus))}" in self.exec("env").splitlines()
        rdma = sorted(str(nic["dra.net/rdmaDevice"]) for nic in self.nics)
        assert sorted(self.exec("ls", "/sys/class/infiniband").split()) == rdma
        verbs = [name for name in self.exec("ls", "/dev/infiniband").split() if "uverbs" in name]
        assert len(verbs) == len(rdma)
        links = links_of(self.pods, self.name, self.container)
        names = [str(nic["dra.net/ifName"]) for nic in self.nics]
        assert sorted(links) == sorted(["lo", "eth0", *names])
        for entry in self.nics:
            name = str(entry["dra.net/ifName"])
            assert entry["dra.net/ipv4"] in links[name]
            shown = self.exec("ip", "-o", "link", "show", name)
            assert f"mtu {entry['dra.net/mtu']} " in shown


class Story:
    """An example on the machine, for one test."""

    def __init__(self, cluster: ControlPlane, pods: Pods, machine: Machine) -> None:
        self.pods = pods
        self._cluster = cluster
        self._machine = machine

    def apply(self, example: str) -> None:
        """Apply a directory, or the file of a job, with an image that sleeps."""
        path = EXAMPLES / example
        text = self._cluster.kubectl("kustomize", str(path)) if path.is_dir() else path.read_text()
        documents = [_asleep(document) for document in yaml.safe_load_all(text)]
        self.pods.apply(yaml.safe_dump_all(documents))

    def workers(self, number: int) -> list[Worker]:
        """Return the pods that run, once there are so many."""

        def running() -> list[Object]:
            return [pod for pod in self._pods() if pod["status"]["phase"] == "Running"]

        wait_until(f"{number} workers to run", lambda: len(running()) == number, POD_TIMEOUT_S)
        return [self._worker(pod) for pod in running()]

    def waiting(self) -> list[str]:
        """Return why pods have no node, once the scheduler said it of one."""

        def verdicts() -> list[str]:
            conditions = [
                condition for pod in self._pods() for condition in pod["status"]["conditions"]
            ]
            return [
                condition["message"]
                for condition in conditions
                if condition.get("reason") == "Unschedulable"
            ]

        wait_until("a pod without a node", verdicts, POD_TIMEOUT_S)
        return verdicts()

    def end(self) -> None:
        """Delete what made the pods; return once the pods are gone, and their NICs restored."""
        space = f"--namespace={self.pods.namespace}"
        self._cluster.kubectl("delete", space, CONTROLLERS, "--all", "--cascade=orphan")
        self.pods.api.delete(f"{NAMESPACES}/{self.pods.namespace}/pods", grace_s=1)
        wait_until("all pods to be gone", lambda: not self._pods(), POD_TIMEOUT_S)
        self._machine.wait_restored()

    def _pods(self) -> list[Object]:
        items: list[Object] = self.pods.api.get(f"{NAMESPACES}/{self.pods.namespace}/pods")["items"]
        return items

    def _worker(self, pod: Object) -> Worker:
        found: dict[str, list[str]] = {}
        for status in pod["status"]["resourceClaimStatuses"]:
            claim: Any = self.pods.claim(status["resourceClaimName"])
            for result in claim["status"]["allocation"]["devices"]["results"]:
                found.setdefault(result["driver"], []).append(result["device"])
        (container,) = pod["spec"]["containers"]
        return Worker(
            self.pods,
            pod["metadata"]["name"],
            container["name"],
            frozenset(found[NVIDIA]),
            tuple(self._machine.functions[device] for device in found["dra.net"]),
        )


@pytest.fixture
def story(cluster: ControlPlane, installed: Machine, pods: Pods) -> Iterator[Story]:
    """Return an example to apply, on a node that has GPUs."""
    story = Story(cluster, pods, installed)
    with gpu_driver(installed.node, pods, NVIDIA, "emulated"):
        yield story
        story.end()


def test_worker_has_a_gpu_and_the_rdma_nic_of_its_root(story: Story) -> None:
    story.apply("scale-out")

    workers = story.workers(2)
    for worker in workers:
        worker.check()
        assert (len(worker.gpus), len(worker.nics)) == (1, 1)
    assert not workers[0].gpus & workers[1].gpus
    assert workers[0].nics != workers[1].nics


def test_unaligned_training_has_the_nics_of_the_other_socket(story: Story) -> None:
    api = story.pods.api
    mpi.install(api)
    story.apply("numa-training")
    story.apply("numa-training/mpijob-unaligned.yaml")

    mpi.start_workers(api, story.pods.namespace, "mfu-unaligned")

    (worker,) = story.workers(1)
    worker.check()
    assert (len(worker.gpus), len(worker.nics)) == (4, 4)
    for nic in worker.nics:
        numa_file = f"/sys/class/net/{nic['dra.net/ifName']}/device/numa_node"
        assert worker.exec("cat", numa_file).strip() == "1"
    assert "cannot allocate all claims" in story.waiting()[0]


def test_pod_has_two_gpus_and_the_two_nics_of_their_root(story: Story) -> None:
    story.apply("gke-nccl/v1")

    (worker,) = story.workers(1)
    worker.check()
    assert (len(worker.gpus), len(worker.nics)) == (2, 2)
    assert {nic[ROOT] for nic in worker.nics} == {"pci0000:80"}
    assert "anti-affinity" in story.waiting()[0]


def test_kubectl_dranet_shows_allocated_and_free_devices(
    cluster: ControlPlane, programs: Path, installed: Machine, story: Story, tmp_path: Path
) -> None:
    plugin = Plugin(cluster, programs)
    assert plugin.text("free") == "4 of 4 GPU+NIC pairs are left on node box\n"
    story.apply("gke-nccl/v1")
    (worker,) = story.workers(1)
    pod = f"{story.pods.namespace}/{worker.name}"
    nics = {name for name, facts in installed.functions.items() if facts in worker.nics}

    assert plugin.text("free", "box") == "2 of 4 GPU+NIC pairs are left on node box\n"
    found = {device["device"]: device["consumers"] for device in _allocated(plugin)}
    assert found == {name: [pod] for name in worker.gpus | nics}
    nodes, _, devices = plugin.text("status").partition("\n\n")
    assert re.search(r"^box +0\.1\.0\S* +yes ", nodes, re.MULTILINE), nodes
    assert devices.count(pod) == 2
    _check_topology(plugin, pod, tmp_path / "box.svg")
    explained = plugin.text("explain", f"pod/{worker.name}", "-n", story.pods.namespace)
    assert all(name in explained for name in nics), explained

    archive = tmp_path / "support.tar.gz"
    plugin.text("bundle", "--file", archive)
    with tarfile.open(archive) as members:
        members.extractall(tmp_path, filter="data")
    assert _allocated(plugin, "--from", tmp_path / "dranet-bundle") == _allocated(plugin)
    assert any((tmp_path / "dranet-bundle/logs").iterdir())


def _allocated(plugin: Plugin, *source: str | Path) -> list[Object]:
    """Return the devices of the node that pods hold, by `status`."""
    (node,) = plugin.document("status", *source)["nodes"]
    return [device for device in node["devices"] if device["state"] == "allocated"]


def _check_topology(plugin: Plugin, pod: str, picture: Path) -> None:
    """Look whether GPUs and NICs of a pod are at one root, in the matrix and in the picture."""
    topology = plugin.document("topology", "box", "--svg", picture)
    labels = [device["label"] for device in topology["devices"] if device["consumers"] == [pod]]
    assert sorted(label[:3] for label in labels) == ["GPU", "GPU", "NIC", "NIC"]
    found = {topology["relations"][row][column] for row in labels for column in labels}
    assert found == {"X", "ROOT"}
    texts = [element.text for element in ET.parse(picture).iter() if element.text]
    assert sum(text.endswith(pod) for text in texts) >= 4


def _asleep(document: Object) -> Object:
    """Return a document whose containers have the node's image, and do what it does."""
    for spec in _pod_specs(document):
        for container in spec["containers"]:
            container["image"] = image.NAME
            container.pop("command", None)
    return document


def _pod_specs(document: Object) -> Iterator[Object]:
    """Yield the pods that a controller or an MPIJob makes."""
    spec = document.get("spec", {})
    if document["kind"] in {"Job", "StatefulSet"}:
        yield spec["template"]["spec"]
    for replica in spec.get("mpiReplicaSpecs", {}).values():
        yield replica["template"]["spec"]
