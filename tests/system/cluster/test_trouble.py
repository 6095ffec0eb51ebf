"""Disruptions of a node whose pods have NICs: each pod keeps its own."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster import documents
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.driver import NAMES, Driver, apply, links_of
from tests.system.cluster.pods import RECOVERY_S, Pods
from tests.system.cluster.witness import apply_witness, witnessed

OUTAGE_S: Final = 70.0  # what was cached for a minute is old then


# --------------------------------------------------------------------------- no API server


def outlive(driver: Driver, containers: Sequence[str], moved: str) -> None:
    """Restart the driver, kill containers of train and job, end moved; the kubelet stays stopped.

    Args:
        containers: their ids.
        moved: the UID of a pod that the runtime ends.
    """
    node = driver.node
    node.plugin.restart()
    node.shim.restart()
    for container in containers:
        checked(node, "ctr", "--namespace=k8s.io", "tasks", "kill", "--signal=KILL", container)
    wait_until("the container of train again", lambda: len(witnessed(node, "train")) == 2)
    assert "nic0" in witnessed(node, "train")[1]
    wait_until("the NIC of a job that ended", lambda: driver.is_on_node("nic1"))
    wait_until("its record to be dropped", lambda: len(records(driver)) == 2)
    node.kubelet.stop()
    checked(node, "python3", "-m", "tests.box.ended", moved)
    wait_until("the NIC of a pod that the runtime ended", lambda: driver.is_on_node("nic2"))


def test_driver_survives_an_api_outage_of_over_a_minute(
    cluster: ControlPlane, driver: Driver, pods: Pods
) -> None:
    node = driver.node
    apply_witness(pods, "train", "nic0")
    apply_witness(pods, "job", "nic1", restarts=False)
    apply_witness(pods, "moved", "nic2")
    for pod in ("train", "job", "moved"):
        pods.wait_running(pod)
        wait_ready(pods, pod)
    (before,) = driver.slices()
    claim = version_of(pods, "train")
    containers = [pods.container(pod) for pod in ("train", "job")]
    moved = uid_of(pods, "moved")

    with outage(cluster) as left_s:
        outlive(driver, containers, moved)
        time.sleep(left_s())
        node.kubelet.start()

    wait_until(  # a kubelet that starts deletes those of its node
        "new slices",
        lambda: driver.published() == NAMES and uid(driver.slices()[0]) != uid(before),
        RECOVERY_S,
    )
    wait_until("moved to have its NIC again", lambda: len(witnessed(node, "moved")) == 2)
    assert "nic2" in witnessed(node, "moved")[1]
    apply(pods, "next", "nic1")  # which is free again for the scheduler as well
    pods.wait_running("next", RECOVERY_S)
    wait_ready(pods, "moved")
    wait_ready(pods, "next")
    assert "nic0" in links_of(pods, "train")
    assert witnessed(node, "train")[2:] == []
    assert version_of(pods, "train") == claim
    (after,) = driver.slices()
    assert after["spec"]["devices"] == before["spec"]["devices"]
    assert is_written_once(after)
    for pod in ("train", "job", "moved", "next"):
        pods.delete(pod)
    driver.wait_restored()


# --------------------------------------------------------------------------- slices


def test_deleted_slice_is_created_again(cluster: ControlPlane, driver: Driver, pods: Pods) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")
    links = links_of(pods, "train")
    (before,) = driver.slices()

    cluster.kubectl("delete", "resourceslice", before["metadata"]["name"])
    wait_until("another slice", lambda: [*map(uid, driver.slices())] not in ([], [uid(before)]))

    (after,) = driver.slices()
    assert after["spec"]["devices"] == before["spec"]["devices"]
    assert is_written_once(after)
    assert links_of(pods, "train") == links
    apply(pods, "next", "nic1")
    pods.wait_running("next")
    pods.delete("train")
    pods.delete("next")
    driver.wait_restored()


# --------------------------------------------------------------------------- who only looks


def test_admin_access_pod_takes_no_nic_from_its_owner(driver: Driver, pods: Pods) -> None:
    allow_monitors(pods)
    apply(pods, "train", "nic0")
    pods.wait_running("train")
    links = links_of(pods, "train")

    monitor(pods, host_network=False)

    assert "nic0" not in links_of(pods, "monitor")
    assert links_of(pods, "train") == links
    pods.delete("monitor")
    assert links_of(pods, "train") == links
    assert reason(pods, "train") == READY
    pods.delete("train")
    driver.wait_restored()


def test_admin_access_pod_can_outlive_the_owner_of_the_nic(driver: Driver, pods: Pods) -> None:
    allow_monitors(pods)
    apply(pods, "train", "nic0")
    pods.wait_running("train")

    monitor(pods, host_network=True)
    assert "nic0" not in links_of(pods, "monitor")
    assert "nic1" in links_of(pods, "monitor")
    pods.delete("train")

    driver.wait_restored()
    assert "nic0" in links_of(pods, "monitor")
    apply(pods, "next", "nic0")
    pods.wait_running("next")
    assert "10.100.0.5/24" in links_of(pods, "next")["nic0"]
    pods.delete("monitor")
    assert "10.100.0.5/24" in links_of(pods, "next")["nic0"]
    pods.delete("next")
    driver.wait_restored()


# --------------------------------------------------------------------------- force


def test_nic_is_free_after_claim_and_pod_are_force_deleted(
    cluster: ControlPlane, driver: Driver, pods: Pods
) -> None:
    apply(pods, "train", "nic0")
    pods.wait_running("train")
    links = links_of(pods, "train")

    delete_claim(cluster, pods, "train")
    apply(pods, "next", "nic0")  # which is free, says the scheduler
    wait_until(
        "next to wait",
        lambda: re.search("prepare waits.*/next .*nic0: in use", driver.node.log("dra-shim")),
        60,
    )
    assert links_of(pods, "train") == links
    pods.delete("train", grace_s=0)

    pods.wait_running("next")
    assert "10.100.0.5/24" in links_of(pods, "next")["nic0"]
    pods.delete("next")
    driver.wait_restored()
    wait_until("the records to be dropped", lambda: not records(driver))
    apply(pods, "train", "nic0")  # names of before, other UIDs
    pods.wait_running("train")
    pods.delete("train")
    driver.wait_restored()


# --------------------------------------------------------------------------- parts

READY: Final = ["NetworkDeviceReady"]


@contextmanager
def outage(cluster: ControlPlane) -> Iterator[Callable[[], float]]:
    """Have no API server; yield a function that returns how many of OUTAGE_S are left."""
    cluster.stop_api()
    end = time.monotonic() + OUTAGE_S
    try:
        yield lambda: max(0.0, end - time.monotonic())
    finally:
        cluster.start_api()


def uid(document: Object) -> str:
    """Return an object's UID."""
    text: str = document["metadata"]["uid"]
    return text


def uid_of(pods: Pods, pod: str) -> str:
    """Return a pod's UID."""
    found = pods.get(pod)
    assert found is not None
    return uid(found)


def version_of(pods: Pods, claim: str) -> str:
    """Return what changes whenever somebody writes the claim."""
    found = pods.claim(claim)
    assert found is not None
    text: str = found["metadata"]["resourceVersion"]
    return text


def reason(pods: Pods, claim: str) -> list[str]:
    """Return why the devices of a claim are ready, or why not."""
    found = pods.claim(claim)
    assert found is not None
    return [
        condition["reason"]
        for device in found.get("status", {}).get("devices", [])
        for condition in device["conditions"]
        if condition["type"] == "Ready"
    ]


def wait_ready(pods: Pods, claim: str) -> None:
    """Return once the status of a claim says that its device is in its pod."""
    wait_until(f"the status of claim {claim}", lambda: reason(pods, claim) == READY)


def is_written_once(document: Object) -> bool:
    """Tell whether a slice is as it was created, of a pool that has no other."""
    (manager,) = document["metadata"]["managedFields"]
    pool = document["spec"]["pool"]
    whole = (document["metadata"]["generation"], pool["generation"], pool["resourceSliceCount"])
    return whole == (1, 1, 1) and manager["operation"] == "Update"


def allow_monitors(pods: Pods) -> None:
    """Let claims of the namespace ask for adminAccess."""
    label = {"resource.kubernetes.io/admin-access": "true"}
    document = {"apiVersion": "v1", "kind": "Namespace"}
    metadata = {"name": pods.namespace, "labels": label}
    pods.apply(json.dumps(document | {"metadata": metadata}))


def monitor(pods: Pods, *, host_network: bool) -> None:
    """Have a pod look at nic0; return once it runs and its claim says so."""
    claim = documents.nic_claim("monitor", "nic0", adminAccess=True)
    pod = documents.pod("monitor", "nic", hostNetwork=host_network)
    pods.apply(documents.manifest(documents.device_class(), claim, pod))
    pods.wait_running("monitor")
    wait_until("word of the monitor", lambda: reason(pods, "monitor") == ["AdminAccess"])


def delete_claim(cluster: ControlPlane, pods: Pods, claim: str) -> None:
    """Delete a claim that is in use, whatever stands against it."""
    what = (f"--namespace={pods.namespace}", "resourceclaim", claim)
    cluster.kubectl("delete", *what, "--force", "--grace-period=0", "--wait=false")
    cluster.kubectl("patch", *what, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    wait_until("the claim to be gone", lambda: pods.claim(claim) is None)


def records(driver: Driver) -> list[str]:
    """Return the shim's records, by the UIDs of their claims."""
    return checked(driver.node, "ls", "/var/lib/dranet-nri/allocations").split()
