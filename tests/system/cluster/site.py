"""A cluster with nodes of several kinds, and the devices of pods of an applied manifest.

Their NICs are published by our own publisher, their GPUs by the mock driver. There is no kubelet:
a pod that the scheduler has placed stays as it is.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dra_shim.cel import matching_devices
from dra_shim.pool import driver_resources, physical_functions
from dra_shim.resourceapi import DeviceClass, ResourceSlice, SliceDevice, parse_document
from tests.box.gpu_driver import publish_gpus
from tests.box.waiting import wait_until
from tests.dra_shim.resourceslice.publisher_bench import Bench
from tests.fakes.gpus import gpu_class
from tests.fakes.machines import Machine
from tests.system.cluster.api import Api, ApiError, Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.documents import manifest
from tests.system.cluster.subject import RealSubject
from tests.system.cluster.workload import NAMESPACES, NODES, RESOURCES, SLICES, node_of

CLASSES: Final = f"{RESOURCES}/deviceclasses"
EXAMPLES: Final = Path(__file__).resolve().parents[3] / "manifests" / "examples"

DEADLINE_S: Final = 120.0  # ends only what never comes

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod with a node.

    Attributes:
        devices: (request, device) in the order of its claims' results.
        claims: their documents.
    """

    name: str
    node: str
    devices: tuple[tuple[str, SliceDevice], ...]
    claims: tuple[Object, ...]

    def of(self, request: str) -> tuple[SliceDevice, ...]:
        """Return the devices of a request."""
        return tuple(device for name, device in self.devices if name == request)


class Site:
    """The nodes and namespaces of one test.

    Attributes:
        nodes: their names.
    """

    def __init__(self, cluster: ControlPlane) -> None:
        self.api: Api = cluster.api()
        self._cluster = cluster
        self._subject = RealSubject(cluster)
        self._number = next(_numbers)
        self.nodes: list[str] = []
        self._namespaces: list[str] = []
        with suppress(ApiError):  # it is there already
            self.api.create(CLASSES, gpu_class())

    def add(self, *machines: Machine, version: str = "", shared: str = "") -> list[str]:
        """Add a node for each machine and publish its devices; return their names.

        Args:
            machines: what they are.
            version: of the API that drivers shall write slices in, "" for the newest.
            shared: which NICs several claims may have, as the driver's flag, "" for none.
        """
        names = []
        for machine in machines:
            name = f"{machine.kind}-{self._number}-{len(self.nodes)}"
            self.api.create(NODES, node_of(name, machine.labels, machine.taints))
            self.nodes.append(name)
            names.append(name)
            asyncio.run(self._publish(name, machine, version, shared))
        wait_until("nodes that are ready", lambda: all(map(self._is_ready, names)), DEADLINE_S)
        return names

    def namespace(self, labels: Object | None = None) -> str:
        """Create a namespace for pods; return its name."""
        name = f"site-{self._number}-{len(self._namespaces)}"
        self.api.create(NAMESPACES, {"metadata": {"name": name, "labels": labels or {}}})
        self._namespaces.append(name)
        accounts = f"{NAMESPACES}/{name}/serviceaccounts"
        wait_until("an account for pods", lambda: self.api.get(accounts)["items"], DEADLINE_S)
        return name

    def apply(self, example: str, namespace: str) -> None:
        """Apply an example as a user does: a file, or a directory with a kustomization."""
        path = EXAMPLES / example
        flag = "--kustomize" if path.is_dir() else "--filename"
        self._cluster.kubectl("apply", f"--namespace={namespace}", f"{flag}={path}")

    def create(self, namespace: str, *documents: Object) -> None:
        """Apply documents."""
        self.api.apply(manifest(*documents), namespace)

    def delete(self) -> None:
        """Delete all but classes; what is in namespaces goes with them, on its own.

        Pods are marked at once, or one that found no node here would take the next test's.
        """
        for name in self._namespaces:
            self.api.delete(f"{NAMESPACES}/{name}")
            self.api.delete(f"{NAMESPACES}/{name}/pods")
        for document in self.api.get(SLICES)["items"]:
            if document["spec"]["nodeName"] in self.nodes:
                self.api.delete(f"{SLICES}/{document['metadata']['name']}")
        for name in self.nodes:
            self.api.delete(f"{NODES}/{name}")

    # ------------------------------------------------------------------- what became of it

    def placed(self, namespace: str, number: int) -> list[Placed]:
        """Return the namespace's pods once that many have a node, by name."""

        def with_node() -> list[Object]:
            return [pod for pod in self._pods(namespace) if "nodeName" in pod["spec"]]

        wait_until(
            f"{number} pods of {namespace} on nodes", lambda: len(with_node()) == number, DEADLINE_S
        )
        devices = {
            device.id: device
            for resource_slice in self.slices()
            for device in resource_slice.devices
        }
        return [self._placed(pod, devices) for pod in with_node()]

    def refusal(self, namespace: str, number: int = 1) -> list[str]:
        """Return why so many pods of the namespace have no node, once the scheduler said it."""

        def verdicts() -> list[str]:
            found = [_verdict(pod) for pod in self._pods(namespace)]
            return [message for message in found if message]

        wait_until(
            f"{number} refusals in {namespace}", lambda: len(verdicts()) == number, DEADLINE_S
        )
        return verdicts()

    def slices(self) -> list[ResourceSlice]:
        """Return the slices of this site's nodes."""
        documents = [
            parse_document(
                {**resource_slice, "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
            )
            for resource_slice in self.api.get(SLICES)["items"]
        ]
        found = [document for document in documents if isinstance(document, ResourceSlice)]
        return [resource_slice for resource_slice in found if resource_slice.node in self.nodes]

    def classes(self) -> dict[str, DeviceClass]:
        """Return the cluster's classes."""
        found = [
            parse_document(
                {**device_class, "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
            )
            for device_class in self.api.get(CLASSES)["items"]
        ]
        return {document.name: document for document in found if isinstance(document, DeviceClass)}

    def claims(self, namespace: str, version: str = "v1") -> list[Object]:
        """Return the namespace's claims, in this version of the API."""
        path = f"/apis/resource.k8s.io/{version}/namespaces/{namespace}/resourceclaims"
        about = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaim"}
        return [{**about, **document} for document in self.api.get(path)["items"]]

    def all_claims(self) -> list[Object]:
        """Return the claims of all of the site's namespaces."""
        return [claim for namespace in self._namespaces for claim in self.claims(namespace)]

    # ------------------------------------------------------------------- parts

    async def _publish(self, node: str, machine: Machine, version: str, shared: str) -> None:
        async with self._subject.client() as api:
            if version:
                api._versions["resource.k8s.io"] = version
            bench = Bench(api, node)
            both = matching_devices(shared, machine.devices)
            names = frozenset(ref.name for ref in both)
            async with bench.running():
                physical = physical_functions(machine.facts)
                await bench.publish(
                    driver_resources(node, machine.devices, names, physical=physical)
                )
            await publish_gpus(api, node, machine.gpus)

    def _is_ready(self, node: str) -> bool:
        taints = self.api.get(f"{NODES}/{node}")["spec"].get("taints", [])
        return not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)

    def _pods(self, namespace: str) -> list[Object]:
        items: list[Object] = self.api.get(f"{NAMESPACES}/{namespace}/pods")["items"]
        return sorted(items, key=lambda document: str(document["metadata"]["name"]))

    def _placed(self, pod: Object, by_id: dict[tuple[str, str, str], SliceDevice]) -> Placed:
        metadata = pod["metadata"]
        claims = {claim["metadata"]["name"]: claim for claim in self.claims(metadata["namespace"])}
        own = tuple(claims[name] for name in _claims_of(pod))
        devices = [
            (result["request"], by_id[result["driver"], result["pool"], result["device"]])
            for claim in own
            for result in claim["status"]["allocation"]["devices"]["results"]
        ]
        return Placed(metadata["name"], pod["spec"]["nodeName"], tuple(devices), own)


def values(devices: Sequence[SliceDevice], attribute: str) -> list[object]:
    """Return an attribute of each device."""
    return [device.attribute(attribute) for device in devices]


def _claims_of(pod: Object) -> Iterator[str]:
    made = {
        status["name"]: status["resourceClaimName"]
        for status in pod["status"].get("resourceClaimStatuses", [])
    }
    for claim in pod["spec"]["resourceClaims"]:
        yield claim.get("resourceClaimName") or made[claim["name"]]


def _verdict(pod: Object) -> str:
    """Return why a pod has no node, "" if it has one or nobody said."""
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition["message"])
    return ""
