"""Claims and pods of the tests on the machine, and what they were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tests.box.cri import ExecResult
from tests.box.target import PATH, PROGRAMS
from tests.system.cluster import documents
from tests.system.cluster.pods import Pods

# Two functions without RDMA, on one NUMA node; the second container lists no claim.
TWO: Final = documents.manifest(
    documents.claim(
        "train",
        documents.request(
            "nics",
            "sriov-vf.dra.net",
            count=2,
            selectors=documents.selectors('!device.attributes["dra.net"].rdma'),
        ),
        constraints=[{"matchAttribute": "resource.kubernetes.io/numaNode"}],
        config=documents.parameters(interface={"mtu": 1300}),
    ),
    documents.pod("train", "nics", aside=True),
)
UNPRIVILEGED: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True, slots=True)
class Inside:
    """A pod's main container, as a place where programs of the node run."""

    pods: Pods
    pod: str

    def run(self, *command: str) -> ExecResult:
        """Run a command; one that fails says why on its standard error."""
        try:
            output = self.pods.exec(self.pod, "/usr/bin/env", f"PATH={PATH}", *command)
        except RuntimeError as error:
            return ExecResult(1, "", str(error))
        return ExecResult(0, output, "")


def apply_rdma(pods: Pods, pod: str, address: str) -> Inside:
    """Create a pod that claims an RDMA device, with this address in a network of 256.

    Programs of the node run in it, as an ordinary user.
    """
    numbered = list(enumerate(PROGRAMS))
    interface = {"addresses": [f"{address}/24"], "arpIgnore": 1, "arpAnnounce": 2}
    request = documents.request("hca", "rdma.dra.net")
    claim = documents.claim(pod, request, config=documents.parameters(interface=interface))
    document = documents.pod(
        pod,
        "hca",
        main={
            "securityContext": UNPRIVILEGED,
            "volumeMounts": [{"name": f"m{i}", "mountPath": hop.target} for i, hop in numbered],
        },
        aside=True,
        securityContext={"runAsUser": 1000},
        volumes=[{"name": f"m{i}", "hostPath": {"path": hop.source}} for i, hop in numbered],
    )
    pods.apply(documents.manifest(claim, document))
    return Inside(pods, pod)


def given(pods: Pods, claim: str) -> list[str]:
    """Return the devices that were allocated to a claim."""
    found = pods.claim(claim)
    assert found is not None
    return sorted(
        result["device"] for result in found["status"]["allocation"]["devices"]["results"]
    )


def device_status(pods: Pods, claim: str) -> dict[str, Any]:
    """Return what the status of a claim tells of each device, by its name."""
    found = pods.claim(claim)
    assert found is not None
    return {device["device"]: device for device in found["status"].get("devices", [])}


def told_ready(pods: Pods, claim: str) -> list[str]:
    """Return the devices that the status of a claim calls ready; it may have called them late."""
    entries = device_status(pods, claim).items()
    return sorted(name for name, entry in entries if conditions(entry).get("Ready") == "True")


def conditions(entry: Any) -> dict[str, str]:
    """Return what is true of a device: type of condition and its status."""
    return {condition["type"]: condition["status"] for condition in entry.get("conditions", [])}
