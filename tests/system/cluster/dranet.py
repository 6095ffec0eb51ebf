"""A node with dranet as its previous driver: changes to NICs, and the plugin at the kubelet."""

from __future__ import annotations

from typing import Final

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods
from tests.system.cluster.workload import RESOURCES

_SERVE: Final = "python3 -m tests.system.cluster.predecessor >>/io/predecessor.log 2>&1 & echo $!"
# As dranet leaves a NIC in a pod: inherited are its name, its MTU and its IPv4 address.
_MOVE: Final = """
for netns in $(ls /run/netns); do
    ip -n $netns -o addr 2>/dev/null | grep -qF " $0/" && break
done
ip link set $1 down
ip link set $1 netns $netns
[ -z "$3" ] || rdma dev set $3 netns $netns
ip -n $netns addr add $2 dev $1
ip -n $netns link set $1 up
"""


def start(node: Node) -> str:
    """Have the kubelet of a node know dranet; return the process id of who answers it."""
    pid = checked(node, "sh", "-c", _SERVE).strip()
    wait_until(
        "a driver before us", lambda: "RegistrationResult(reason='')" in node.log("predecessor"), 60
    )
    return pid


def stop(node: Node, pid: str) -> None:
    """End who answers the kubelet."""
    checked(node, "sh", "-c", 'kill "$0"', pid)


def move(node: Node, pods: Pods, pod: str, nic: str, address: str, rdma: str = "") -> None:
    """Move a NIC of the node with its address into a pod, and its RDMA device if it is named."""
    found = pods.get(pod)
    assert found is not None
    checked(node, "sh", "-ec", _MOVE, found["status"]["podIP"], nic, address, rdma)


def write_device_status(pods: Pods, claim: str, nic: str, address: str, mac: str) -> None:
    """Write into the status of a claim for one device what its interface in the pod is."""
    found = pods.claim(claim)
    assert found is not None
    (result,) = found["status"]["allocation"]["devices"]["results"]
    device_id = {key: result[key] for key in ("driver", "pool", "device")}
    network = {"interfaceName": nic, "ips": [address], "hardwareAddress": mac}
    found["status"]["devices"] = [{**device_id, "networkData": network}]
    path = f"{RESOURCES}/namespaces/{pods.namespace}/resourceclaims/{claim}/status"
    pods.api.replace(path, found)
