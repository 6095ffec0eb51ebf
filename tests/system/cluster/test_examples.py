"""The examples in dranet's style on a real kubelet, and a claim of two drivers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from dranet_nri.cdi.names import METADATA_ROOT
from tests.box.nics import SWITCH
from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.fakes.gpus import EXAMPLE
from tests.system.cluster.driver import Driver, links_of
from tests.system.cluster.gpus import gpu_driver
from tests.system.cluster.inside import NICS
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods
from tests.system.cluster.site import EXAMPLES
from tests.system.cluster.workload import NAMESPACES

BOTH: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: both}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.example.com, count: 2}}
    - {name: nic, exactly: {deviceClassName: dranet}}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  resourceClaims: [{name: both, resourceClaimName: both}]
  containers:
  - {name: main, image: IMAGE, resources: {claims: [{name: both}]}}
  - {name: aside, image: IMAGE, resources: {claims: [{name: both, request: nic}]}}
"""
# Of the link fast0, in whichever pod it is.
OFFLOADS: Final = """
for netns in /run/netns/*; do
    nsenter --net=$netns ethtool -k fast0 2>/dev/null && exit
done
exit 1
"""


def apply(pods: Pods, name: str) -> None:
    """Apply an example and its class, with an image that the node has."""
    for file in ("class.yaml", f"{name}.yaml"):
        text = (EXAMPLES / "dranet-style" / file).read_text()
        pods.apply(text.replace("docker.io/library/busybox:1.37", "IMAGE"))


def output_lines(pods: Pods, pod: str, *command: str) -> list[str]:
    """Return the lines that a command prints in a pod, single spaces between words."""
    return [" ".join(line.split()) for line in pods.exec(pod, *command).splitlines()]


# --------------------------------------------------------------------------- dranet's style


def test_pod_has_the_routes_of_the_claim(driver: Driver, pods: Pods) -> None:
    apply(pods, "routes")
    pods.wait_running("routes")

    assert links_of(pods, "routes")["net1"][0] == "10.20.1.5/32"
    routes = output_lines(pods, "routes", "ip", "route")
    assert "10.20.1.1 dev net1 scope link" in routes
    assert "10.20.0.0/16 via 10.20.1.1 dev net1 src 10.20.1.5" in routes


def test_interface_has_every_setting_of_the_claim(driver: Driver, pods: Pods) -> None:
    apply(pods, "advanced")
    pods.wait_running("advanced")

    assert {"10.21.1.5/24", "fd00:21::5/64"} <= set(links_of(pods, "advanced")["fast0"])
    link = " ".join(output_lines(pods, "advanced", "ip", "link", "show", "fast0"))
    assert "mtu 1400" in link
    assert "link/ether 02:00:00:21:00:05" in link
    conf = "/proc/sys/net/ipv4/conf/fast0"
    settings = [f"{conf}/{name}" for name in ("arp_ignore", "arp_announce", "forwarding")]
    assert output_lines(pods, "advanced", "cat", *settings) == ["1", "2", "1"]
    neighbours = output_lines(pods, "advanced", "ip", "neigh", "show", "dev", "fast0")
    addresses = {
        neighbour.partition(" lladdr")[0]
        for neighbour in neighbours
        if neighbour.endswith("PERMANENT")
    }
    assert {"10.21.1.1", "fd00:21::1"} <= addresses
    offloads = checked(driver.node, "sh", "-c", OFFLOADS)
    assert "tcp-segmentation-offload: off" in offloads
    assert "generic-receive-offload: on" in offloads


@pytest.fixture
def bridge(node: Node) -> Iterator[None]:
    """Join the far ends of all NICs, as one network."""
    inside = ("ip", "-n", SWITCH, "link")
    wires = [f"wire{number}" for number in range(NICS)]
    commands = [("add", "join", "type", "bridge"), ("set", "join", "up")]
    for command in (*commands, *(("set", wire, "master", "join") for wire in wires)):
        assert node.run(*inside, *command).exit_code == 0
    yield
    node.run(*inside, "del", "join")


def test_policy_rules_route_through_another_pod(driver: Driver, pods: Pods, bridge: None) -> None:
    apply(pods, "rules")
    for pod in ("rules-left", "rules-right", "rules-router"):
        pods.wait_running(pod)

    for pod, own, other in (("rules-left", 1, 2), ("rules-right", 2, 1)):
        rules = output_lines(pods, pod, "ip", "rule")
        assert f"1000: from 10.22.{own}.2 lookup 100" in rules
        routes = output_lines(pods, pod, "ip", "route", "show", "table", "100")
        assert sorted(routes) == sorted(
            [
                f"10.22.{own}.0/24 dev net1 scope link",
                f"10.22.{other}.0/24 via 10.22.{own}.1 dev net1",
            ]
        )
    links = links_of(pods, "rules-router")
    assert [links["net1"][0], links["net2"][0]] == ["10.22.1.1/24", "10.22.2.1/24"]
    ping = ("ping", "-c", "3", "-I", "10.22.1.2", "10.22.2.2")
    assert ", 0% packet loss" in pods.exec("rules-left", *ping)
    for pod in ("rules-left", "rules-right", "rules-router"):
        pods.delete(pod)
    driver.wait_restored()


def test_pods_of_a_deployment_have_nics_without_container_claims(
    driver: Driver, pods: Pods
) -> None:
    apply(pods, "template")

    def names() -> list[str]:
        items = pods.api.get(f"{NAMESPACES}/{pods.namespace}/pods")["items"]
        return [str(document["metadata"]["name"]) for document in items]

    wait_until("two pods", lambda: len(names()) == 2)
    first, second = names()
    for pod in (first, second):
        pods.wait_running(pod)
    assert sorted(
        link for pod in (first, second) for link in links_of(pods, pod) if "nic" in link
    ) == [
        "nic0",
        "nic1",
    ]
    pods.api.delete(f"/apis/apps/v1/namespaces/{pods.namespace}/deployments/template")
    wait_until("no pods", lambda: not names())
    driver.wait_restored()


def test_request_of_two_nics_keeps_their_host_configuration(driver: Driver, pods: Pods) -> None:
    apply(pods, "count")
    pods.wait_running("count")

    links = links_of(pods, "count")
    assert [links["nic0"][0], links["nic1"][0]] == ["10.100.0.5/24", "10.101.0.5/24"]
    pods.delete("count")
    driver.wait_restored()


def test_pod_with_two_claims_has_two_nics(driver: Driver, pods: Pods) -> None:
    apply(pods, "two-claims")
    pods.wait_running("two-claims")

    links = links_of(pods, "two-claims")
    assert [links["front0"][0], links["back0"][0]] == ["10.23.1.5/24", "10.23.2.5/24"]
    pods.delete("two-claims")
    driver.wait_restored()


# --------------------------------------------------------------------------- two drivers


@pytest.fixture
def gpus(driver: Driver, pods: Pods) -> Iterator[None]:
    """Run the mock GPU driver on the node; its GPUs are published when this begins."""
    with gpu_driver(driver.node, pods, EXAMPLE, "server"):
        yield


def test_claim_of_gpu_and_nic_has_devices_and_metadata_of_both_drivers(
    driver: Driver, pods: Pods, gpus: None
) -> None:
    apply(pods, "routes")  # makes the class
    pods.wait_running("routes")

    pods.apply(BOTH)
    pods.wait_running("train")

    assert "nic1" in links_of(pods, "train")
    assert "GPUS_GPU=gpu-0,gpu-1" in output_lines(pods, "train", "env")
    directory = f"{METADATA_ROOT}/resourceclaims/both"
    gpu = _first(pods.exec("train", "cat", f"{directory}/gpu/{EXAMPLE}-metadata.json"))
    nic = _first(pods.exec("train", "cat", f"{directory}/nic/dra.net-metadata.json"))
    assert [device["name"] for device in gpu["requests"][0]["devices"]] == ["gpu-0", "gpu-1"]
    assert nic["requests"][0]["devices"][0]["networkData"]["interfaceName"] == "nic1"
    aside = pods.exec("train", "env", container="aside")
    assert "DRA_NET_BOTH_NIC_IFNAMES=nic1" in aside
    assert "GPUS_GPU" not in aside
    pods.delete("train")
    pods.delete("routes")
    driver.wait_restored()


def _first(text: str) -> Any:
    """Return the first of the JSON objects in a text."""
    return json.JSONDecoder().raw_decode(text)[0]
