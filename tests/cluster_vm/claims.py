"""Claims and pods of the tests on the machine, and what they were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tests.box.cri import ExecResult
from tests.box.place import PATH, PROGRAMS
from tests.cluster.pods import Pods

# Two functions without RDMA, on one NUMA node; the second container lists no claim.
TWO: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train}
spec:
  devices:
    requests:
    - name: nics
      exactly:
        deviceClassName: sriov-vf.dra.net
        count: 2
        selectors: [{cel: {expression: '!device.attributes["dra.net"].rdma'}}]
    constraints: [{matchAttribute: resource.kubernetes.io/numaNode}]
    config:
    - opaque:
        driver: dra.net
        parameters: {interface: {mtu: 1300}}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  nodeSelector: {kubernetes.io/hostname: box}
  resourceClaims: [{name: nics, resourceClaimName: train}]
  containers:
  - {name: main, image: IMAGE, resources: {claims: [{name: nics}]}}
  - {name: aside, image: IMAGE}
"""
# One with an RDMA device, for an ordinary user's programs.
RDMA: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: POD}
spec:
  devices:
    requests:
    - {name: hca, exactly: {deviceClassName: rdma.dra.net}}
    config:
    - opaque:
        driver: dra.net
        parameters: {interface: {addresses: [ADDRESS/24], arpIgnore: 1, arpAnnounce: 2}}
---
apiVersion: v1
kind: Pod
metadata: {name: POD}
spec:
  nodeSelector: {kubernetes.io/hostname: box}
  resourceClaims: [{name: hca, resourceClaimName: POD}]
  securityContext: {runAsUser: 1000}
  containers:
  - name: main
    image: IMAGE
    resources: {claims: [{name: hca}]}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [MOUNTS]
  - {name: aside, image: IMAGE}
  volumes: [VOLUMES]
"""


@dataclass(frozen=True, slots=True)
class Inside:
    """A pod's main container, as a place where programs of the node run."""

    pods: Pods
    pod: str

    def run(self, *command: str) -> ExecResult:
        """Run a command; one that fails says why on its standard error."""
        try:
            said = self.pods.say(self.pod, "/usr/bin/env", f"PATH={PATH}", *command)
        except RuntimeError as error:
            return ExecResult(1, "", str(error))
        return ExecResult(0, said, "")


def apply_rdma(pods: Pods, pod: str, address: str) -> Inside:
    """Create a pod that claims an RDMA device, with this address in a network of 256."""
    numbered = list(enumerate(PROGRAMS))
    mounts = (f"{{name: m{i}, mountPath: {each.target}}}" for i, each in numbered)
    volumes = (f"{{name: m{i}, hostPath: {{path: {each.source}}}}}" for i, each in numbered)
    text = RDMA.replace("POD", pod).replace("ADDRESS", address)
    pods.apply(text.replace("MOUNTS", ", ".join(mounts)).replace("VOLUMES", ", ".join(volumes)))
    return Inside(pods, pod)


def given(pods: Pods, claim: str) -> list[str]:
    """Return the devices that were allocated to a claim."""
    found = pods.claim(claim)
    assert found is not None
    return sorted(each["device"] for each in found["status"]["allocation"]["devices"]["results"])


def told(pods: Pods, claim: str) -> dict[str, Any]:
    """Return what the status of a claim tells of each device, by its name."""
    found = pods.claim(claim)
    assert found is not None
    return {each["device"]: each for each in found["status"].get("devices", [])}


def conditions(entry: Any) -> dict[str, str]:
    """Return what is true of a device: type of condition and its status."""
    return {each["type"]: each["status"] for each in entry.get("conditions", [])}
