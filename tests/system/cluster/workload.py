"""A namespace for a test, and a node that exists in the API only, with two devices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from tests.box.waiting import wait_until
from tests.system.cluster.api import Api, ApiError, Object
from tests.system.cluster.control_plane import ControlPlane

NODES: Final = "/api/v1/nodes"
NAMESPACES: Final = "/api/v1/namespaces"
RESOURCES: Final = "/apis/resource.k8s.io/v1"
SLICES: Final = f"{RESOURCES}/resourceslices"
LINUX: Final = {"kubernetes.io/os": "linux"}
HOSTNAME: Final = "kubernetes.io/hostname"
ROOM: Final = {"cpu": "96", "memory": "1900Gi", "pods": "110"}
DEVICES: Final = [
    {"name": name, "attributes": {"dra.net/ifName": {"string": interface}}}
    for name, interface in (("nic0", "eth0"), ("nic1", "eth1"))
]

_numbers = itertools.count(1)


class Workload:
    """What one test owns. Its node and its namespace have the same name.

    The node says once that it is ready, so the controllers believe in it for ten minutes.
    """

    def __init__(self, cluster: ControlPlane) -> None:
        self.name = f"test-{next(_numbers)}"
        self.api: Api = cluster.api()

    def create(self) -> None:
        """Create all; return when pods can be created and the node can have them."""
        self.api.create(NAMESPACES, {"metadata": {"name": self.name}})
        self.api.create(NODES, node_of(self.name))
        self.api.create(SLICES, slice_of(self.name, {"devices": DEVICES}))
        account = f"{NAMESPACES}/{self.name}/serviceaccounts/default"
        wait_until("a service account for pods", lambda: self._exists(account))
        wait_until("a node without taints", self._is_untainted)

    def delete(self) -> None:
        """Delete all; the pods and claims of the namespace go on their own."""
        for path in (SLICES, NODES, NAMESPACES):
            if self._exists(f"{path}/{self.name}"):  # a driver takes a slice for its own
                self.api.delete(f"{path}/{self.name}")

    def apply(self, manifest: str) -> None:
        """Apply a manifest, to this namespace unless it names another."""
        self.api.apply(manifest, self.name)

    def pod(self, name: str) -> Object:
        """Return a pod of the namespace."""
        return self.api.get(f"{NAMESPACES}/{self.name}/pods/{name}")

    def claim(self, name: str, version: str = "v1") -> Object:
        """Return a ResourceClaim of the namespace, in this version of its API."""
        group = f"/apis/resource.k8s.io/{version}"
        return self.api.get(f"{group}/namespaces/{self.name}/resourceclaims/{name}")

    def _exists(self, path: str) -> bool:
        try:
            self.api.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _is_untainted(self) -> bool:
        return "taints" not in self.api.get(f"{NODES}/{self.name}")["spec"]


def node_of(
    name: str, labels: Mapping[str, str] | None = None, taints: Sequence[Mapping[str, str]] = ()
) -> Object:
    """Return a Node that is ready from now on, for ten minutes.

    Args:
        name: its name, and its host's.
        labels: further ones.
        taints: as in its spec.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    condition = ready | {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {
        "metadata": {"name": name, "labels": {**LINUX, HOSTNAME: name, **(labels or {})}},
        "spec": {"taints": list(taints)},
        "status": {"capacity": ROOM, "allocatable": ROOM, "conditions": [condition]},
    }


def slice_of(node: str, content: Object) -> Object:
    """Return a ResourceSlice that has the node's name and is its whole pool.

    Args:
        node: The node; the API server doesn't ask whether it exists.
        content: `devices` or `sharedCounters`, as in the spec of a slice.
    """
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "dra.net", "nodeName": node, "pool": pool} | content
    return {"metadata": {"name": node}, "spec": spec}
