"""From `kubectl apply` to a pod with NICs and back: scheduler, kubelet, shim, plugin, kernel."""

from __future__ import annotations

import re

import pytest

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster import documents
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.driver import NAMES, Driver, apply, links_of, why_waiting
from tests.system.cluster.pods import RECOVERY_S, Pods
from tests.system.cluster.witness import apply_witness, witnessed

TWO = documents.manifest(
    documents.template(
        "two",
        documents.request("nics", count=2),
        config=documents.parameters(interface={"mtu": 1300}),
    ),
    documents.pod("wide", "nics", source={"resourceClaimTemplateName": "two"}, aside=True),
)


@pytest.mark.every_kubernetes
def test_links_that_the_node_needs_are_not_published(driver: Driver) -> None:
    assert driver.published() == NAMES


@pytest.mark.every_kubernetes
def test_pod_has_its_nic_until_it_ends(driver: Driver, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    assert "10.100.0.5/24" in links_of(pods, "train")["nic0"]
    assert not driver.is_on_node("nic0")
    assert driver.published() == NAMES
    pods.delete("train")
    driver.wait_restored()


@pytest.mark.every_kubernetes
def test_pod_of_a_template_has_two_configured_nics(driver: Driver, pods: Pods) -> None:
    apply(pods, "train", "nic0")  # makes the class
    pods.wait_running("train")

    pods.apply(TWO)
    pods.wait_running("wide")

    links = pods.exec("wide", "ip", "-o", "link").splitlines()
    assert [line.split()[1].partition("@")[0] for line in links if "mtu 1300" in line] == [
        "nic1",
        "nic2",
    ]
    pods.delete("wide")
    pods.delete("train")
    driver.wait_restored()


def test_no_container_starts_without_its_nic_while_the_plugin_is_stopped(
    driver: Driver, pods: Pods
) -> None:
    driver.node.plugin.kill()

    apply(pods, "early", "nic0")
    wait_until(
        "the runtime's refusal",
        lambda: "unresolvable CDI devices dra.net/nic=" in why_waiting(pods, "early"),
    )
    assert driver.is_on_node("nic0")
    driver.node.plugin.start()
    pods.wait_running("early")

    assert "nic0" in links_of(pods, "early")
    assert pods.restarts("early") == 0


def test_pod_waits_while_the_shim_is_stopped(driver: Driver, pods: Pods) -> None:
    registrations = driver.registrations()
    driver.node.shim.stop()

    apply(pods, "early", "nic0")
    wait_until(
        "the kubelet's refusal",
        lambda: "FailedPrepareDynamicResources" in pods.reasons("early"),
    )
    driver.node.shim.start()
    driver.wait_registered(registrations + 1)
    pods.wait_running("early")

    assert "nic0" in links_of(pods, "early")


def test_killed_shim_resumes_from_its_records(driver: Driver, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")
    registrations = driver.registrations()

    driver.node.shim.kill()
    driver.node.shim.start()
    driver.wait_registered(registrations + 1)

    assert "nic0" in links_of(pods, "train")
    apply(pods, "next", "nic1")
    pods.wait_running("next")
    pods.delete("train")
    pods.delete("next")
    driver.wait_restored()


@pytest.mark.every_kubernetes
def test_restarted_kubelet_registers_the_driver_again(driver: Driver, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")
    registrations = driver.registrations()

    driver.node.kubelet.restart()
    driver.wait_registered(registrations + 1)
    driver.wait_published()

    apply(pods, "next", "nic1")
    pods.wait_running("next")
    assert "nic0" in links_of(pods, "train")
    pods.delete("train")
    pods.delete("next")
    driver.wait_restored()


@pytest.mark.every_kubernetes
def test_recreated_record_has_the_cdi_id_of_the_kubelet(driver: Driver, pods: Pods) -> None:
    node = driver.node
    apply_witness(pods, "train", "nic0")
    pods.wait_running("train")
    found = pods.get("train")
    assert found is not None
    (before,) = cdi_ids(driver)

    node.kubelet.stop()
    checked(node, "python3", "-m", "tests.box.ended", found["metadata"]["uid"])
    wait_until("the NIC to be on the node", lambda: driver.is_on_node("nic0"))
    node.shim.stop()
    checked(node, "sh", "-c", "rm /var/lib/dranet-nri/allocations/*")
    node.shim.start()
    node.kubelet.start()

    # The kubelet prepares the claim again. Up to 1.34.4 it appends the ids to its checkpoint.
    wait_until("its container again", lambda: len(witnessed(node, "train")) == 2, RECOVERY_S)
    assert "nic0" in witnessed(node, "train")[1]
    assert {*cdi_ids(driver)} == {before}
    pods.delete("train")
    driver.wait_restored()


def test_nic_of_a_force_deleted_pod_is_restored(driver: Driver, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    pods.delete("train", grace_s=0)

    driver.wait_restored()
    apply(pods, "next", "nic0")
    pods.wait_running("next")


def test_pods_keep_working_during_an_api_outage(
    cluster: ControlPlane, driver: Driver, pods: Pods
) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    cluster.stop_api()
    driver.node.plugin.restart()
    driver.node.shim.restart()
    assert not driver.is_on_node("nic0")
    cluster.start_api()
    driver.wait_published()

    assert "nic0" in links_of(pods, "train")
    apply(pods, "next", "nic1")
    pods.wait_running("next", RECOVERY_S)
    pods.delete("train")
    pods.delete("next")
    driver.wait_restored()


def test_pod_status_has_the_health_of_its_nic(driver: Driver, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    wait_until("word of the NIC", lambda: "in a pod: " in str(pods.health("train")))
    (claim,) = pods.health("train")

    assert claim["name"] == "claim:nic"
    (resource,) = claim["resources"]
    assert resource["resourceID"].startswith(f"dra.net/nic={pods.namespace}_train_nic_")
    assert resource["health"] == "Unknown"
    assert resource["message"] == "in a pod: its link is not visible on the node"


def cdi_ids(driver: Driver) -> list[str]:
    """Return the CDI ids in the kubelet's checkpoint, one after the other."""
    checkpoint = checked(driver.node, "cat", "/var/lib/kubelet/dra_manager_state")
    return re.findall(r"dra\.net/nic=[\w.-]+", checkpoint)
