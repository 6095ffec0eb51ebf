"""Reset of the machine while pods have NICs: processes end at once, and only the disk is kept."""

from __future__ import annotations

from functools import partial

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster.driver import links_of
from tests.system.cluster.pods import Pods
from tests.system.cluster_vm.claims import TWO, apply_rdma, given
from tests.system.cluster_vm.machine import Machine


def test_pods_have_their_nics_after_a_node_reset(installed: Machine, pods: Pods) -> None:
    pods.apply(TWO)
    target = apply_rdma(pods, "near", "192.168.50.1")
    for pod in ("train", "near"):
        pods.wait_running(pod)
    before = {claim: given(pods, claim) for claim in ("train", "near")}

    installed.node.reset()
    installed.remember()  # functions have other MACs; no pod has one yet
    installed.node.start()
    for pod in ("train", "near"):
        wait_until(f"{pod} to be started again", partial(_is_again, pods, pod), 120)

    assert {claim: given(pods, claim) for claim in ("train", "near")} == before
    links = links_of(pods, "train")
    for device in before["train"]:
        facts = installed.functions[device]
        assert str(facts["dra.net/ipv4"]) in links[str(facts["dra.net/ifName"])]
    (device,) = before["near"]
    name = installed.functions[device]["dra.net/rdmaDevice"]
    assert checked(target, "ls", "/sys/class/infiniband").split() == [name]
    assert "192.168.50.1/24" in links_of(pods, "near")[installed.named(device)]
    assert sorted(installed.devices()) == sorted(installed.functions)
    for pod in ("train", "near"):
        pods.delete(pod)
    installed.wait_restored()
    installed.wait_published()


def _is_again(pods: Pods, pod: str) -> bool:
    """Tell whether each container of a pod runs for the second time."""
    found = pods.get(pod)
    assert found is not None
    statuses = found["status"]["containerStatuses"]
    return all("running" in status["state"] and status["restartCount"] >= 1 for status in statuses)
