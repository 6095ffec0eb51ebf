"""RDMA between pods of two nodes by claims: no privileges, and all devices are restored."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.box import rdma
from tests.box.claims import allocate, release
from tests.box.cri import LOGS, ContainerSpec, Cri, Pod
from tests.box.nics import Nic
from tests.box.peer import Peer
from tests.box.rdma import Endpoint
from tests.box.started import started
from tests.box.target import NODE, PROGRAMS, Container, ExecTarget, checked
from tests.box.waiting import wait_until
from tests.system.vm_pair.wire import HERE, NIC, RDMA, THERE, at_once

UID = "wired-uid"
USER = 1000
STATE = "import json; from tests.box.nics import host_state; print(json.dumps(host_state()))"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two nodes, with the address of its NIC."""

    node: ExecTarget
    cri: Cri
    address: str

    def settled(self) -> bool:
        """Whether the kernel has probed all addresses."""
        return not checked(self.node, "ip", "-6", "addr", "show", "tentative")

    def state(self) -> tuple[object, dict[str, str]]:
        """Return all the network of the node, and its RDMA devices with their netdevs."""
        return json.loads(checked(self.node, "python3", "-c", STATE)), rdma.links(self.node)

    def start(self) -> tuple[Pod, Container]:
        """Run a pod that has the NIC by a claim."""
        claim = allocate("wired", [Nic(NIC, self.address)], UID, node=self.node)
        checked(self.node, "mkdir", "-p", str(LOGS / UID))  # as the kubelet of that node does
        pod = self.cri.run_pod("wired", uid=UID)
        spec = ContainerSpec(cdi_devices=claim.cdi_ids, mounts=PROGRAMS, user=USER)
        return pod, Container(self.cri, self.cri.run_container(pod, spec=spec))

    def end(self, pod: Pod) -> None:
        """End the pod and its claim."""
        self.cri.stop_pod(pod.sandbox_id)
        self.cri.remove_pod(pod.sandbox_id)
        release(pod.uid, self.node)


@pytest.fixture
def sides(peer: Peer, roce: None) -> Iterator[tuple[Side, Side]]:
    """Return both nodes, with the plugin serving on each."""
    with ExitStack() as stack:
        nodes = started(NODE, "127.0.0.1:7001"), started(peer, f"{peer.uplink}:7001")
        here, there = at_once(stack.enter_context, nodes)
        yield Side(NODE, here, HERE), Side(peer, there, THERE)


def assert_ordinary(container: Container) -> None:
    """Assert that it has one RDMA device with its files, and only the rights of a user."""
    status = checked(container, "cat", "/proc/self/status").splitlines()
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in status)}
    assert fields["Uid"] == [str(USER)] * 4
    assert {int(fields[name][0], 16) for name in ("CapPrm", "CapEff", "CapAmb")} == {0}
    assert checked(container, "ls", "/dev/infiniband").split() == ["rdma_cm", "uverbs0"]
    assert rdma.links(container) == {RDMA: NIC}


@pytest.mark.timeout(600)
def test_pods_of_two_nodes_reach_each_other_by_rdma(sides: tuple[Side, Side]) -> None:
    wait_until("addresses to settle", lambda: all(side.settled() for side in sides))
    before = at_once(Side.state, sides)
    (one, inside), (other, far_inside) = at_once(Side.start, sides)
    here, there = Endpoint(inside, RDMA, HERE), Endpoint(far_inside, RDMA, THERE)

    at_once(assert_ordinary, (inside, far_inside))
    assert [rdma.links(side.node) for side in sides] == [{}, {}]
    assert rdma.ib_write_bw(server=there, client=here) > 0
    rdma.rping(server=there, client=here)

    sides[0].end(one)
    sides[1].end(other)
    assert [links for _, links in before] == [{RDMA: NIC}] * 2
    wait_until("all to be as before", lambda: at_once(Side.state, sides) == before)
