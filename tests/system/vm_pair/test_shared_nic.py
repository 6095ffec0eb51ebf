"""Pods that share one NIC by children: addresses, GIDs and rates of their own, node to node."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.box import rdma
from tests.box.claims import allocate, release
from tests.box.cri import LOGS, ContainerSpec, Cri
from tests.box.nics import Nic
from tests.box.peer import Peer
from tests.box.rdma import Endpoint, listens
from tests.box.started import started
from tests.box.target import NODE, PROGRAMS, Container, ExecTarget, checked
from tests.box.waiting import wait_until
from tests.system.vm_pair.wire import NIC, RDMA, at_once

PORT = 7100
ALL = 32  # Mbit/s of all pods, which an emulated machine can send
STATE = "import json; from tests.box.nics import host_state; print(json.dumps(host_state()))"
# Sends for some seconds; the other side prints how many bits a second came by each connection, from
# its first byte on.
SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 30) as wire:
    end = time.monotonic() + int(sys.argv[3])
    while time.monotonic() < end:
        wire.sendall(bytes(16384))
"""
RECEIVE = f"""
import socket, sys, time
from concurrent.futures import ThreadPoolExecutor
def rate(wire):
    wire.recv(1)
    begin, count = time.monotonic(), 0
    while data := wire.recv(1 << 16):
        count += len(data)
    return 8 * count / (time.monotonic() - begin)
number = int(sys.argv[1])
pool = ThreadPoolExecutor(number)
with socket.create_server(("", {PORT}), backlog=number) as server:
    for served in [pool.submit(rate, server.accept()[0]) for _ in range(number)]:
        print(served.result())
"""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two nodes."""

    node: ExecTarget
    cri: Cri

    def state(self) -> tuple[object, dict[str, str]]:
        """Return all the network of the node, and its RDMA devices with their netdevs."""
        return json.loads(checked(self.node, "python3", "-c", STATE)), rdma.links(self.node)

    def start(self, name: str, address: str, bandwidth: str = "") -> Endpoint:
        """Run a pod that has a child of the NIC by a claim."""
        uid, interface = f"{name}-uid", {"type": "IPVLAN", "addresses": [f"{address}/24"]}
        claim = allocate(
            name,
            [Nic(NIC, address)],
            uid,
            config={"interface": interface},
            pod=name,
            shared="true",
            bandwidth=bandwidth,
            node=self.node,
        )
        checked(self.node, "mkdir", "-p", str(LOGS / uid))  # as the kubelet of that node does
        pod = self.cri.run_pod(name, uid=uid)
        spec = ContainerSpec(cdi_devices=claim.cdi_ids, mounts=PROGRAMS)
        container = Container(self.cri, self.cri.run_container(pod, spec=spec))
        return Endpoint(container, RDMA, address)

    def end(self, name: str) -> None:
        """Remove what is left of a pod, and its claim."""
        release(f"{name}-uid", self.node)


@pytest.fixture
def sides(peer: Peer, shared_roce: None) -> Iterator[tuple[Side, Side]]:
    """Return both nodes, with the plugin serving on each."""
    with ExitStack() as stack:
        nodes = started(NODE, "127.0.0.1:7001"), started(peer, f"{peer.uplink}:7001")
        here, there = at_once(stack.enter_context, nodes)
        yield Side(NODE, here), Side(peer, there)


def measured(server: Endpoint, clients: Sequence[Endpoint]) -> list[float]:
    """Return the rates of one TCP connection of each client, at the same time, Mbit/s.

    The smaller the share of each, the longer it takes: the first burst has no limit.
    """
    send = ("python3", "-c", SEND, server.address, str(PORT), str(len(clients)))
    with ThreadPoolExecutor(1 + len(clients)) as pool:
        receive = ("python3", "-c", RECEIVE, str(len(clients)))
        served = pool.submit(checked, server.target, *receive)
        wait_until("the server to listen", lambda: served.done() or listens(server.target, PORT))
        sent = [pool.submit(checked, client.target, *send) for client in clients]
        for one in sent:
            one.result()
        return [float(rate) / 10**6 for rate in served.result().split()]


@pytest.mark.timeout(900)
def test_pods_share_a_nic_with_their_own_address_gid_and_rate(
    sides: tuple[Side, Side], request: pytest.FixtureRequest
) -> None:
    here, there = sides
    pods = 8 if request.config.getoption("--prove") else 2
    rate = ALL // pods
    before = at_once(Side.state, sides)
    server = there.start("server", "10.9.0.30")

    names = [f"sharer-{number}" for number in range(pods)]
    clients = [
        here.start(name, f"10.9.0.{10 + number}", f"{rate}M") for number, name in enumerate(names)
    ]

    assert len({rdma.gid_index(client) for client in clients}) == pods
    for client in clients:
        rdma.rping(server=server, client=client)
        assert rdma.ib_write_bw(server=server, client=client, iterations=20) > 0

    def shares_are_sent() -> bool:
        rates = measured(server, clients)
        assert max(rates) < 1.1 * rate, rates
        return min(rates) > 0.9 * rate  # a busy machine may be too slow

    wait_until("every pod to send its share", shares_are_sent)
    for side, ended in ((here, names), (there, ["server"])):
        side.cri.remove_all()
        for name in ended:
            side.end(name)
    wait_until("all to be as before", lambda: at_once(Side.state, sides) == before)
