"""Pods of dranet's end-to-end cases, and the state of the node that the cases read."""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import dataclass
from typing import Any, Final

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.daemons import DAEMON_SET, SPACED, Daemons
from tests.system.cluster.pods import Pods
from tests.system.cluster.workload import NAMESPACES
from tests.system.cluster_vm import webhook

# NETNS-FILE ADDRESS…: the network namespace of each pod, a line each.
FIND: Final = """
cd /run/netns
for netns in *; do
    ip -n $netns -o -4 addr show eth0 | sed -n "s|.*inet \\([^/]*\\)/.*|\\1 $netns|p"
done
"""
SOCKETS: Final = (
    "/var/lib/kubelet/plugins/dra.net/dra.sock",
    "/var/lib/kubelet/plugins_registry/dra.net-reg.sock",
)
DEADLINE_S: Final = 120.0
# Attributes that can follow in a later update than that of the interface.
LATE: Final = {webhook.NIC: webhook.ATTRIBUTE, "programs": "dra.net/tcxProgramNames"}


@dataclass
class Cases:
    """The pods of the cases.

    Attributes:
        attributes: those of all devices before any was allocated, by interface.
        namespaces: network namespace of each pod's address.
    """

    cluster: ControlPlane
    daemons: Daemons
    pods: Pods
    attributes: dict[str, Object]
    namespaces: dict[str, str]

    def run(self, case: str, *command: str) -> str:
        """Run a program of the node in the network namespace of a pod."""
        netns = self.namespaces[self.pod(case)["status"]["podIP"]]
        return checked(self.daemons.node, "ip", "netns", "exec", netns, *command)

    def pod(self, case: str) -> Object:
        """Return the pod of a claim or of a Deployment."""
        (found,) = (pod for pod in self.listed() if of_case(pod, case))
        return found

    def listed(self) -> list[Object]:
        """Return all pods that are not being deleted."""
        items = self.pods.api.get(f"{NAMESPACES}/{self.pods.namespace}/pods")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def addresses(self, case: str) -> list[str]:
        """Return the addresses that the status of a pod's claim has, of all its devices."""
        wait_until(f"the status of the claim of {case}", lambda: self._entries(case))
        return [address for entry in self._entries(case) for address in entry["networkData"]["ips"]]

    def wait_running(self, number: int) -> None:
        """Wait until that many pods run, and read their network namespaces."""
        wait_until("pods of all cases", lambda: len(self._running()) == number, DEADLINE_S)
        found = checked(self.daemons.node, "sh", "-c", FIND)
        self.namespaces = dict(line.split() for line in found.splitlines())

    def _running(self) -> list[Object]:
        return [pod for pod in self.listed() if pod["status"]["phase"] == "Running"]

    def _entries(self, case: str) -> list[Object]:
        made = self.pod(case)["status"].get("resourceClaimStatuses", [])
        claim = self.pods.claim(made[0]["resourceClaimName"] if made else case)
        assert claim is not None
        entries: list[Object] = claim["status"].get("devices", [])
        allocated = len(claim["status"]["allocation"]["devices"]["results"])
        ready = [entry for entry in entries if entry.get("networkData", {}).get("ips")]
        return ready if len(ready) == allocated else []


def of_case(pod: Object, case: str) -> bool:
    """Return whether a pod is the one of a case."""
    return case in (pod["metadata"]["name"], pod["metadata"].get("labels", {}).get("app"))


def published(daemons: Daemons, expected: Set[str]) -> dict[str, Object]:
    """Return the attributes of each device by interface, once the slices have these NICs."""
    found: dict[str, Object] = {}

    def absent() -> set[str]:
        late = {nic for nic in expected & LATE.keys() if LATE[nic] not in found.get(nic, {})}
        return (expected - found.keys()) | late

    def is_complete() -> bool:
        found.clear()
        for resource_slice in daemons.slices():
            for device in resource_slice["spec"].get("devices", ()):
                attributes = device["attributes"]
                found[attributes.get("dra.net/ifName", {}).get("string")] = attributes
        return not absent()

    try:
        wait_until("NICs in slices", is_complete, DEADLINE_S)
    except TimeoutError as error:
        raise AssertionError(absent()) from error
    return dict(found)


def remove(cases: Cases, case: str) -> None:
    """Delete the Deployment of a case, and wait until its pod is gone."""
    path = f"/apis/apps/v1/namespaces/{cases.pods.namespace}/deployments/{case}"
    name = cases.pod(case)["metadata"]["name"]
    cases.pods.api.delete(path)
    cases.pods.begin_deletion(name)
    cases.pods.wait_gone(name)


def leases(cases: Cases) -> list[str]:
    """Return the files of the IPAM plugin, one for each address."""
    return checked(cases.daemons.node, "ls", webhook.LEASES).split()


def sockets(daemons: Daemons) -> list[str]:
    """Return the sockets of the driver that the node has."""
    return [path for path in SOCKETS if not daemons.node.run("test", "-S", path).exit_code]


def records(daemons: Daemons) -> str:
    """Return the names of the allocation records."""
    return checked(daemons.node, "ls", "/var/lib/dranet-nri/allocations")


def attachments(daemons: Daemons) -> str:
    """Return the names of the attachment records; the plugin drops one after the restore."""
    return checked(daemons.node, "ls", "/run/dranet-nri/attachments")


def set_affinity(cluster: ControlPlane, affinity: Any) -> None:
    """Set the affinity of the DaemonSet's pods."""
    patch = {"spec": {"template": {"spec": {"affinity": affinity}}}}
    cluster.kubectl("patch", DAEMON_SET, SPACED, "--type=merge", f"--patch={json.dumps(patch)}")
