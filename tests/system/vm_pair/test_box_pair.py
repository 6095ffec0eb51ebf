"""Two machines share a wire, and soft-RoCE works across it."""

from tests.box import rdma
from tests.box.peer import Peer
from tests.box.rdma import Endpoint
from tests.box.target import NODE, checked
from tests.system.vm_pair.wire import HERE, NIC, RDMA, THERE


def test_command_on_the_peer_returns_its_exit_code_and_output(peer: Peer) -> None:
    result = peer.run("sh", "-c", "echo out; echo err >&2; exit 7")

    assert (result.exit_code, result.stdout, result.stderr) == (7, "out\n", "err\n")


def test_machines_reach_each_other(peer: Peer, wire: None) -> None:
    checked(NODE, "ping", "-c", "1", "-W", "30", "-I", NIC, THERE)
    checked(peer, "ping", "-c", "1", "-W", "30", "-I", NIC, HERE)


def test_rdma_traffic_crosses_the_wire(peer: Peer, roce: None) -> None:
    here, there = Endpoint(NODE, RDMA, HERE), Endpoint(peer, RDMA, THERE)

    assert rdma.ib_write_bw(server=there, client=here) > 0
    rdma.rping(server=here, client=there)
