"""The driver on a real node, and pods that claim its NICs."""

from __future__ import annotations

import re
from typing import Final

from dranet_nri.model import DRIVER_NAME
from tests.box.nics import changes
from tests.box.waiting import wait_until
from tests.system.cluster import documents
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.inside import NICS
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods
from tests.system.cluster.workload import SLICES

NAMES: Final = [f"nic{number}" for number in range(NICS)]
REGISTERED: Final = re.compile(r"\] registered\b")


class Driver:
    """Plugin and shim of a node.

    Attributes:
        node: where they are.
    """

    def __init__(self, cluster: ControlPlane, node: Node) -> None:
        self.node = node
        self._api = cluster.api()
        self._before: dict[str, object] = {}

    def start(self) -> None:
        """Start both; return once pods can claim NICs."""
        self.node.plugin.start()
        self.node.shim.start()
        self.wait_registered(1)
        self.settle()

    def settle(self) -> None:
        """Return once all NICs are published; how the node is then is how it shall be again."""
        self.wait_published()
        self.node.settle()
        self._before = self.node.state()

    def stop(self) -> None:
        """Stop both."""
        self.node.shim.stop()
        self.node.plugin.stop()

    def registrations(self) -> int:
        """Return how often the kubelet took the driver."""
        return len(REGISTERED.findall(self.node.log("dra-shim")))

    def wait_registered(self, times: int) -> None:
        """Return once the kubelet took the driver so often."""
        wait_until(f"registration {times}", lambda: self.registrations() >= times)

    def wait_published(self) -> None:
        """Return once all NICs are in slices."""
        wait_until("slices of all NICs", lambda: self.published() == NAMES)

    def published(self) -> list[str]:
        """Return the interfaces in the node's slices, sorted."""
        return sorted(
            device["attributes"]["dra.net/ifName"]["string"]
            for resource_slice in self.slices()
            for device in resource_slice["spec"]["devices"]
        )

    def slices(self) -> list[Object]:
        """Return the node's slices of our driver, or of one before us."""
        slices: list[Object] = self._api.get(SLICES)["items"]
        here = {"nodeName": self.node.name, "driver": DRIVER_NAME}
        return [
            resource_slice
            for resource_slice in slices
            if here.items() <= resource_slice["spec"].items()
        ]

    def is_on_node(self, nic: str) -> bool:
        """Tell whether the node has the NIC, rather than a pod."""
        return self.node.run("ip", "link", "show", nic).exit_code == 0

    def wait_restored(self) -> None:
        """Return once links, addresses, routes and rules of the node are as at the start."""
        try:
            wait_until("the NICs to be restored", lambda: self.node.state() == self._before)
        except TimeoutError as error:
            raise AssertionError(changes(self._before, self.node.state())) from error


def apply(pods: Pods, pod: str, nic: str) -> None:
    """Create a pod whose one container lists a claim for this NIC."""
    made = (documents.nic_claim(pod, nic), documents.pod(pod, "nic"))
    pods.apply(documents.manifest(documents.device_class(), *made))


def links_of(pods: Pods, pod: str, container: str = "main") -> dict[str, list[str]]:
    """Return the addresses of a pod's links, by name."""
    links: dict[str, list[str]] = {}
    for line in pods.exec(pod, "ip", "-o", "addr", container=container).splitlines():
        _, name, _, address, *_ = line.split()
        links.setdefault(name, []).append(address)
    return links


def why_waiting(pods: Pods, pod: str) -> str:
    """Return what the kubelet says why the container of a pod does not run, "" if nothing."""
    found = pods.get(pod)
    assert found is not None
    (status,) = found["status"].get("containerStatuses", [{}])
    waiting: Object = status.get("state", {}).get("waiting", {})
    return f"{waiting.get('reason', '')}: {waiting.get('message', '')}"
