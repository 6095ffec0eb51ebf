"""Jobs of the examples with their own programs: what the cluster's image and names are made of.

The image of the examples is replaced by Debian's build of the same programs, and DNS by a file of
names. What a job runs, and which devices it claims, is as in the example.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.box import image
from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods
from tests.system.cluster.workload import NAMESPACES

HOSTS: Final = "/run/jobs-hosts"
ENDED: Final = frozenset({"Succeeded", "Failed"})
DEADLINE_S: Final = 240.0  # ends only what never comes: PyTorch is slow to load on a busy machine
# DNS answers once a pod has its address; here the file of names is filled then.
WAITS: Final = 'until [ -s /etc/hosts ]; do sleep 0.2; done; exec "$@"'


def load_image(node: Node, root: Path, directory: Path) -> None:
    """Give the node the image of jobs, whose /usr is on the node."""
    archive = directory / "jobs.tar"
    image.write_jobs(root, archive)
    node.load(archive)
    archive.unlink()


def prepared(document: Object) -> Object:
    """Return a document of an example whose pods run its programs on the node."""
    for spec in pod_specs(document):
        _prepare(spec)
    return document


def pod_specs(document: Object) -> Iterator[Object]:
    """Yield the pod that a document is, or the pod templates in it, whatever its kind."""
    if "containers" in document:
        yield document
    for value in document.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield from pod_specs(item)


def _prepare(spec: Object) -> None:
    volumes = spec.setdefault("volumes", [])
    volumes.append({"name": "programs", "hostPath": {"path": "/srv/usr"}})
    volumes.append({"name": "sockets", "emptyDir": {}})
    volumes.append({"name": "hosts", "hostPath": {"path": HOSTS, "type": "File"}})
    for container in spec["containers"]:
        container["image"] = image.JOBS
        container["command"] = ["sh", "-c", WAITS, "-", *container["command"]]
        mounts = container.setdefault("volumeMounts", [])
        mounts.append({"name": "programs", "mountPath": "/usr", "readOnly": True})
        # Debian's PostgreSQL has its socket there.
        mounts.append({"name": "sockets", "mountPath": "/var/run/postgresql"})
        mounts.append({"name": "hosts", "mountPath": "/etc/hosts"})


class Running:
    """The pods of a namespace, from their creation to the end of a job."""

    def __init__(self, cluster: ControlPlane, node: Node, pods: Pods) -> None:
        self._cluster = cluster
        self._node = node
        self._pods = pods
        checked(node, "sh", "-c", f": >{HOSTS}")

    def name(self, number: int, domain: str) -> None:
        """Give the pods their names once so many have addresses."""

        def addressed() -> dict[str, str]:
            return {
                document["spec"].get("hostname") or document["metadata"]["name"]: document[
                    "status"
                ]["podIP"]
                for document in self._all()
                if document["status"].get("podIP")
            }

        wait_until(f"addresses of {number} pods", lambda: len(addressed()) == number, DEADLINE_S)
        lines = ["127.0.0.1 localhost"]
        service = f"{domain}.{self._pods.namespace}.svc"
        lines += [
            f"{ip} {name} {name}.{domain} {name}.{service}" for name, ip in addressed().items()
        ]
        checked(self._node, "sh", "-c", f'printf "%s\\n" "$@" >{HOSTS}', "-", *lines)

    def wait_ended(self, pod: str) -> str:
        """Return the log of a pod that succeeded, its first container's."""
        wait_until(f"{pod} to end", lambda: self._phase(pod) in ENDED, DEADLINE_S)
        log = self._pods.logs(pod)
        assert self._phase(pod) == "Succeeded", log
        return log

    def end(self, *kinds: str) -> None:
        """Delete all of these kinds, the Jobs, and their pods; return once all are gone."""
        space = f"--namespace={self._pods.namespace}"
        for kind in (*kinds, "jobs"):
            self._cluster.kubectl("delete", space, kind, "--all", "--cascade=orphan")
        self._pods.api.delete(f"{NAMESPACES}/{self._pods.namespace}/pods", grace_s=1)
        wait_until("all pods to be gone", lambda: not self._all(), DEADLINE_S)

    def names(self) -> list[str]:
        """Return the names of all pods, sorted."""
        return sorted(document["metadata"]["name"] for document in self._all())

    def _phase(self, pod: str) -> str:
        found = self._pods.get(pod)
        assert found is not None
        return str(found["status"]["phase"])

    def _all(self) -> list[Object]:
        namespace = f"{NAMESPACES}/{self._pods.namespace}/pods"
        items: list[Object] = self._pods.api.get(namespace)["items"]
        return items


def figures(log: str, kind: str) -> dict[str, Any]:
    """Return the JSON of a log's last line, which begins with the kind of result."""
    last = log.rstrip().splitlines()[-1]
    word, _, text = last.partition(" ")
    assert word == kind, log
    result: dict[str, Any] = json.loads(text)
    return result
