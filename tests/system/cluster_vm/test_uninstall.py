"""The driver is removed while pods have hardware, they end without it, and it comes back."""

from __future__ import annotations

from functools import partial

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster.daemons import Daemons
from tests.system.cluster.driver import links_of
from tests.system.cluster.pods import Pods
from tests.system.cluster_vm.claims import TWO, apply_rdma, given
from tests.system.cluster_vm.machine import Machine

# The network interfaces of a PCI function, whatever they are called; fails where there is none.
INTERFACES = "ls /sys/bus/pci/devices/{address}/net | grep ."


def test_hardware_is_restored_after_pods_end_without_the_driver(
    daemons: Daemons, installed: Machine, pods: Pods
) -> None:
    pods.apply(TWO)
    target = apply_rdma(pods, "near", "192.168.50.1")
    names = ("train", "near")
    for pod in names:
        pods.wait_running(pod)
    devices = [device for claim in names for device in given(pods, claim)]
    links = {pod: links_of(pods, pod) for pod in names}
    rdma = checked(target, "ls", "/sys/class/infiniband")

    daemons.uninstall()
    assert {pod: links_of(pods, pod) for pod in names} == links
    assert checked(target, "ls", "/sys/class/infiniband") == rdma
    assert not any(_is_on_node(installed, device) for device in devices)
    for pod in names:
        pods.begin_deletion(pod)
    for device in devices:
        wait_until(f"{device} to be restored", partial(_is_on_node, installed, device))
    for pod in names:
        assert pods.get(pod) is not None  # the kubelet cannot give its claim back
    daemons.install()

    for pod in names:
        pods.wait_gone(pod)
    installed.wait_restored()
    installed.wait_published()


def _is_on_node(installed: Machine, device: str) -> bool:
    """Tell whether the node has the function of a device as an interface."""
    address = installed.functions[device]["dra.net/pciAddress"]
    return installed.node.run("sh", "-c", INTERFACES.format(address=address)).exit_code == 0
