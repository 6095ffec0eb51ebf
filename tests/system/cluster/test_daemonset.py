"""The DaemonSet of manifests/, run by a real kubelet from our image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster import documents
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.daemons import MUST, Daemons
from tests.system.cluster.driver import NAMES, apply, links_of
from tests.system.cluster.node import Node
from tests.system.cluster.pods import POD_TIMEOUT_S, Pods

# Nothing in the pod leads to the gateway.
NOT_REACHABLE: Final = {"destination": "172.31.0.0/16", "gateway": "198.51.100.1"}
FAILED: Final = "NetworkDeviceAttachFailed"


@pytest.fixture(scope="module")
def daemons(
    cluster: ControlPlane, node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemons]:
    """Return the driver, installed."""
    daemons = Daemons(cluster, node, tmp_path_factory.mktemp("installed"))
    daemons.install()
    daemons.settle()
    yield daemons
    daemons.remove()


def test_process_has_only_the_required_privileges(daemons: Daemons) -> None:
    assert daemons.rights() == MUST


def test_pod_has_its_nic_until_it_ends(daemons: Daemons, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    assert daemons.published() == NAMES
    assert "10.100.0.5/24" in links_of(pods, "train")["nic0"]
    pods.delete("train")
    daemons.wait_restored()


def test_impossible_route_is_reported_and_the_nic_is_restored(daemons: Daemons, pods: Pods) -> None:
    claim = documents.nic_claim("lost", "nic1")
    claim["spec"]["devices"]["config"] = documents.parameters(routes=[NOT_REACHABLE])
    made = (documents.device_class(), claim, documents.pod("lost", "nic"))

    pods.apply(documents.manifest(*made))
    wait_until("an Event", lambda: FAILED in pods.reasons("lost"), POD_TIMEOUT_S)
    wait_until(
        "word in the claim", lambda: ready(pods, "lost").get("reason") == FAILED, POD_TIMEOUT_S
    )

    assert NOT_REACHABLE["destination"] in pods.messages("lost")
    status = ready(pods, "lost")
    assert status["status"] == "False"
    assert NOT_REACHABLE["destination"] in status["message"]
    pods.delete("lost")
    daemons.wait_restored()


def test_slice_has_the_tcx_programs_of_a_nic(daemons: Daemons) -> None:
    assert attributes(daemons, "nic7").get("dra.net/ebpf") == {"bool": False}

    checked(daemons.node, "python3", "-m", "tests.system.kernel.bpf", "nic7", "count_packets")
    wait_until("the plugin to see it", lambda: "count_packets" in facts(daemons.node))
    checked(daemons.node, "ip", "link", "set", "nic7", "alias", "a look is worth it")
    wait_until("a look", lambda: "dra.net/tcxProgramNames" in attributes(daemons, "nic7"))

    status = attributes(daemons, "nic7")
    assert status["dra.net/tcxProgramNames"] == {"string": "count_packets"}
    assert status["dra.net/ebpf"] == {"bool": True}
    assert attributes(daemons, "nic6")["dra.net/ebpf"] == {"bool": False}


def attributes(daemons: Daemons, nic: str) -> Object:
    """Return what a slice says of a NIC."""
    (found,) = [
        device["attributes"]
        for resource_slice in daemons.slices()
        for device in resource_slice["spec"]["devices"]
        if device["attributes"]["dra.net/ifName"]["string"] == nic
    ]
    assert isinstance(found, dict)
    return found


def ready(pods: Pods, claim: str) -> Object:
    """Return what the status of a claim says of whether its device is ready, {} if nothing."""
    found = pods.claim(claim)
    assert found is not None
    return {
        name: value
        for device in found.get("status", {}).get("devices", [])
        for condition in device["conditions"]
        if condition["type"] == "Ready"
        for name, value in condition.items()
    }


def facts(node: Node) -> str:
    """Return what the plugin wrote of the host."""
    return node.run("cat", "/run/dranet-nri/facts.json").stdout
