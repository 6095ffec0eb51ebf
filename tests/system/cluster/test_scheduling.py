"""Allocation by the real scheduler: the devices of a slice, each at most once."""

import pytest

from tests.box.waiting import wait_until
from tests.system.cluster import documents
from tests.system.cluster.api import Object
from tests.system.cluster.workload import Workload


@pytest.mark.every_kubernetes
def test_claim_gets_the_device_of_its_selector(workload: Workload) -> None:
    _apply(workload, "train")

    wait_until("the pod to have a node", lambda: "nodeName" in workload.pod("train")["spec"])
    status = workload.claim("train")["status"]
    (result,) = status["allocation"]["devices"]["results"]
    expected = {"request": "nic", "driver": "dra.net", "pool": workload.name, "device": "nic1"}
    assert expected.items() <= result.items()
    assert workload.pod("train")["spec"]["nodeName"] == workload.name
    (user,) = status["reservedFor"]
    assert (user["resource"], user["name"]) == ("pods", "train")
    assert workload.claim("train", "v1beta1")["status"] == status


@pytest.mark.every_kubernetes
def test_device_is_not_allocated_twice(workload: Workload) -> None:
    _apply(workload, "first")
    wait_until("the pod to have a node", lambda: "nodeName" in workload.pod("first")["spec"])

    _apply(workload, "second")

    wait_until("a verdict on the second pod", lambda: _scheduled(workload.pod("second")))
    verdict = _scheduled(workload.pod("second"))
    assert (verdict["status"], verdict["reason"]) == ("False", "Unschedulable")
    assert "cannot allocate all claims" in verdict["message"]
    assert "allocation" not in workload.claim("second").get("status", {})


def _apply(workload: Workload, name: str) -> None:
    claim = documents.nic_claim(name, "eth1")
    pod = documents.pod(name, "nic", node=workload.name, main={"image": "localhost/none"})
    workload.apply(documents.manifest(documents.device_class(), claim, pod))


def _scheduled(pod: Object) -> Object:
    conditions: list[Object] = pod["status"].get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == "PodScheduled"), {})
