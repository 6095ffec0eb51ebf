"""Our driver comes to a machine on which a pod of dranet has hardware."""

from __future__ import annotations

from contextlib import suppress

from tests.box import rdma
from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster import dranet
from tests.system.cluster.api import ApiError, Object
from tests.system.cluster.daemons import Daemons
from tests.system.cluster.driver import apply, links_of
from tests.system.cluster.pods import Pods
from tests.system.cluster.workload import SLICES, slice_of
from tests.system.cluster_vm.hardware import Facts
from tests.system.cluster_vm.machine import Machine


def test_vf_and_rdma_device_moved_by_dranet_are_restored(
    daemons: Daemons, installed: Machine, pods: Pods
) -> None:
    node = installed.node
    device, facts = next(
        (name, facts)
        for name, facts in installed.functions.items()
        if facts["dra.net/isSriovVf"] and facts["dra.net/rdmaDevice"]
    )
    nic, hca = str(facts["dra.net/ifName"]), str(facts["dra.net/rdmaDevice"])
    address = str(facts["dra.net/ipv4"])
    links = rdma.links(node)
    daemons.uninstall()
    daemons.forget()
    pid = dranet.start(node)
    delete_slices(daemons, pods)  # a driver takes those of its name for its own
    pods.api.create(SLICES, slice_of_dranet(node.name, installed.functions))
    apply(pods, "train", nic)
    pods.wait_running("train")
    dranet.move(node, pods, "train", nic, address, hca)
    dranet.write_device_status(pods, "train", nic, address, str(facts["dra.net/mac"]))
    wait_until("its link-local address", lambda: "fe80:" in str(links_of(pods, "train")[nic]))
    given = links_of(pods, "train")
    assert address in given[nic]

    dranet.stop(node, pid)
    delete_slices(daemons, pods)  # as the kubelet does, half a minute later
    daemons.install()

    wait_until("the function to be attached", lambda: "attached" in row(daemons, device), 120)
    assert links_of(pods, "train") == given
    assert hca not in rdma.links(node)
    pods.delete("train")
    wait_until("the RDMA device to be restored", lambda: rdma.links(node) == links)
    wait_until("its address", lambda: address in checked(node, "ip", "addr"))
    wait_until("its record to be dropped", lambda: not row(daemons, device))
    installed.settle()


def slice_of_dranet(node: str, functions: dict[str, Facts]) -> Object:
    """Return a slice of the functions with RDMA as dranet writes it."""
    devices = [
        {
            "name": name,
            "attributes": {
                "dra.net/ifName": {"string": facts["dra.net/ifName"]},
                "dra.net/mac": {"string": facts["dra.net/mac"]},
                "dra.net/pciAddress": {"string": facts["dra.net/pciAddress"]},
                "dra.net/rdma": {"bool": facts["dra.net/rdma"]},
                "dra.net/rdmaDevice": {"string": facts["dra.net/rdmaDevice"]},
                "dra.net/virtual": {"bool": False},
            },
        }
        for name, facts in functions.items()
        if facts["dra.net/rdma"]
    ]
    document = slice_of(node, {"devices": devices})
    return document | {"metadata": {"name": f"00000000-dra.net-{node}-x7k2p"}}


def delete_slices(daemons: Daemons, pods: Pods) -> None:
    """Delete the node's slices."""
    for resource_slice in daemons.slices():
        with suppress(ApiError):  # the kubelet was first
            pods.api.delete(f"{SLICES}/{resource_slice['metadata']['name']}")


def row(daemons: Daemons, device: str) -> str:
    """Return what the plugin's status has of a device, "" if it has none."""
    return next((line for line in daemons.status().splitlines() if device in line), "")
