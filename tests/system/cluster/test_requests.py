"""Ways to ask that are not one request for a device of one's own, on a real kubelet."""

from __future__ import annotations

import json
from typing import Any, Final

from dranet_nri.cdi.names import METADATA_ROOT
from tests.box.waiting import wait_until
from tests.system.cluster import documents
from tests.system.cluster.api import Object
from tests.system.cluster.driver import Driver, links_of
from tests.system.cluster.pods import Pods

EXTENDED_CLASS: Final = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: extended}
spec:
  extendedResourceName: example.com/nic
  selectors: [{cel: {expression: 'device.driver == "dra.net" && !device.allowMultipleAllocations'}}]
"""
EXTENDED: Final = """
apiVersion: v1
kind: Pod
metadata: {name: extended}
spec:
  containers:
  - {name: main, image: IMAGE, resources: {limits: {example.com/nic: 2}}}
  - {name: aside, image: IMAGE}
"""
FIRST_AVAILABLE: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: either}
spec:
  devices:
    requests:
    - name: nic
      firstAvailable:
      - name: fast
        deviceClassName: dranet
        selectors: [{cel: {expression: 'device.attributes["dra.net"].ifName == "fastest"'}}]
      - name: plain
        deviceClassName: dranet
        selectors: [{cel: {expression: 'device.attributes["dra.net"].ifName == "nic1"'}}]
    config:
    - requests: [nic/fast]
      opaque: {driver: dra.net, parameters: {interface: {name: fast0}}}
    - requests: [nic/plain]
      opaque: {driver: dra.net, parameters: {interface: {name: plain0}}}
---
apiVersion: v1
kind: Pod
metadata: {name: either}
spec:
  resourceClaims: [{name: either, resourceClaimName: either}]
  containers:
  - {name: main, image: IMAGE, resources: {claims: [{name: either, request: nic}]}}
  - {name: aside, image: IMAGE}
"""


def test_pod_gets_nics_as_extended_resources(driver: Driver, pods: Pods) -> None:
    # One that the scheduler looks at while the class appears, it may bind without any device: its
    # plugins ask one after the other whether there is such a class.
    pods.apply(EXTENDED)
    wait_until("the scheduler to miss the class", lambda: "Unschedulable" in waits(pods))
    pods.apply(EXTENDED_CLASS)
    pods.wait_running("extended")

    assert {"nic0", "nic1"} <= set(links_of(pods, "extended"))
    assert interfaces_in_environment(pods, "extended") == ["nic0,nic1"]
    assert interfaces_in_environment(pods, "extended", "aside") == []
    pods.api.delete("/apis/resource.k8s.io/v1/deviceclasses/extended")
    pods.delete("extended")
    driver.wait_restored()


def test_first_available_alternative_is_allocated(driver: Driver, pods: Pods) -> None:
    pods.apply(documents.manifest(documents.device_class()))
    pods.apply(FIRST_AVAILABLE)
    pods.wait_running("either")

    assert "plain0" in links_of(pods, "either")
    assert interfaces_in_environment(pods, "either") == ["plain0"]
    assert interfaces_in_environment(pods, "either", "aside") == []
    file = f"{METADATA_ROOT}/resourceclaims/either/nic/dra.net-metadata.json"
    metadata: Any = json.JSONDecoder().raw_decode(pods.exec("either", "cat", file))[0]
    assert [request["name"] for request in metadata["requests"]] == ["nic/plain"]
    wait_until("the claim's status", lambda: ready(pods, "either"))
    pods.delete("either")
    driver.wait_restored()


def waits(pods: Pods) -> list[str]:
    """Return why the pod that asks for extended resources has no node."""
    found = pods.get("extended")
    assert found is not None
    conditions: list[Object] = found["status"].get("conditions", [])
    return [
        condition.get("reason", "")
        for condition in conditions
        if condition["type"] == "PodScheduled"
    ]


def interfaces_in_environment(pods: Pods, pod: str, container: str = "main") -> list[str]:
    """Return the interfaces that variables of a container name, one item a variable."""
    lines = pods.exec(pod, "env", container=container).splitlines()
    pairs = [line.partition("=") for line in lines]
    return [value for name, _, value in pairs if name.endswith("_IFNAMES")]


def devices(pods: Pods, claim: str) -> list[Object]:
    """Return what the status of a claim says of its devices."""
    found = pods.claim(claim)
    assert found is not None
    told: list[Object] = found["status"].get("devices", [])
    return told


def ready(pods: Pods, claim: str) -> bool:
    """Tell whether the status of a claim says that its devices are in their pod."""
    found = devices(pods, claim)
    return bool(found) and all(
        {"type": "Ready", "status": "True"}.items() <= condition.items()
        for device in found
        for condition in device["conditions"]
        if condition["type"] == "Ready"
    )
