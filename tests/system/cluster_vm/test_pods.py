"""Pods on the machine get virtual functions and RDMA devices by claim, and give them back."""

from __future__ import annotations

import pytest

from tests.box import rdma
from tests.box.rdma import Endpoint
from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster.driver import links_of
from tests.system.cluster.pods import Pods
from tests.system.cluster_vm.claims import (
    TWO,
    Inside,
    apply_rdma,
    conditions,
    device_status,
    given,
    told_ready,
)
from tests.system.cluster_vm.machine import Machine

NUMA = "resource.kubernetes.io/numaNode"
CONF = "/proc/sys/net/ipv4/conf"


def test_pod_gets_two_vfs_of_one_numa_node(installed: Machine, pods: Pods) -> None:
    pods.apply(TWO)
    pods.wait_running("train")

    facts = [installed.functions[device] for device in given(pods, "train")]
    assert len(facts) == 2
    assert len({device[NUMA] for device in facts}) == 1
    links = links_of(pods, "train")
    on_node = checked(installed.node, "ip", "-o", "link")
    for fact in facts:
        name = str(fact["dra.net/ifName"])
        shown = pods.exec("train", "ip", "-o", "link", "show", name)
        assert "mtu 1300" in shown
        assert f"link/ether {fact['dra.net/mac']}" in shown
        assert str(fact["dra.net/ipv4"]) in links[name]
        numa = pods.exec("train", "cat", f"/sys/class/net/{name}/device/numa_node")
        assert int(numa) == fact[NUMA]
        assert f" {name}: " not in on_node
    pods.delete("train")
    installed.wait_restored()
    installed.wait_published()


def test_claim_status_has_the_devices_of_its_pod(installed: Machine, pods: Pods) -> None:
    pods.apply(TWO)
    pods.wait_running("train")
    devices = given(pods, "train")
    wait_until("word of both NICs", lambda: told_ready(pods, "train") == devices)

    for device, entry in device_status(pods, "train").items():
        facts = installed.functions[device]
        assert conditions(entry) == {"Ready": "True", "NetworkReady": "True"}
        data = entry["networkData"]
        assert data["interfaceName"] == facts["dra.net/ifName"]
        assert data["hardwareAddress"] == facts["dra.net/mac"]
        assert facts["dra.net/ipv4"] in data["ips"]


def test_rdma_device_is_only_in_its_pod(installed: Machine, pods: Pods) -> None:
    target = apply_rdma(pods, "near", "192.168.50.1")
    pods.wait_running("near")
    (device,) = given(pods, "near")
    facts = installed.functions[device]
    name = str(facts["dra.net/rdmaDevice"])

    assert checked(target, "ls", "/sys/class/infiniband").split() == [name]
    # The class shows the verbs of every device; only the file for its own is in the pod.
    own = f"grep -lx {name} /sys/class/infiniband_verbs/uverbs*/ibdev"
    verbs = checked(target, "sh", "-c", own).split("/")[-2]
    assert sorted(checked(target, "ls", "/dev/infiniband").split()) == ["rdma_cm", verbs]
    assert "unlimited" in checked(target, "sh", "-c", "ulimit -l")
    with pytest.raises(RuntimeError, match="/dev/infiniband"):
        pods.exec("near", "ls", "/dev/infiniband", container="aside")
    assert name not in rdma.links(installed.node)
    assert sysctls(pods, "near", str(facts["dra.net/ifName"])) == ["1", "2"]
    wait_until("word of it", lambda: told_ready(pods, "near") == [device])
    assert conditions(device_status(pods, "near")[device])["RDMALinkReady"] == "True"
    assert rdma.contexts(installed.node) == rdma.contexts(target) == [], (
        "plugin or shim has it open"
    )
    pods.delete("near")
    installed.wait_restored()


def test_unprivileged_user_uses_rdma_between_pods(installed: Machine, pods: Pods) -> None:
    near, far = (apply_rdma(pods, f"pod{host}", f"192.168.50.{host}") for host in (1, 2))
    for pod in ("pod1", "pod2"):
        pods.wait_running(pod)

    writes = rdma.ib_write_bw(
        server=end(installed, pods, near, "192.168.50.1"),
        client=end(installed, pods, far, "192.168.50.2"),
    )

    assert writes == 200


def end(installed: Machine, pods: Pods, target: Inside, address: str) -> Endpoint:
    """Return an end for traffic, once the address is a GID of the pod's RDMA device."""
    (device,) = given(pods, target.pod)
    name = str(installed.functions[device]["dra.net/rdmaDevice"])
    found = Endpoint(target, name, address)

    def has_gid() -> bool:
        try:
            rdma.gid_index(found)
        except LookupError:
            return False
        return True

    wait_until(f"a GID of {address}", has_gid)
    return found


def sysctls(pods: Pods, pod: str, name: str) -> list[str]:
    """Return arp_ignore and arp_announce of an interface in a pod."""
    return pods.exec(pod, "cat", f"{CONF}/{name}/arp_ignore", f"{CONF}/{name}/arp_announce").split()
