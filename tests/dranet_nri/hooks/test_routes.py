"""A route shared by several claims of a pod that are attached in separate attempts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.model import Address, Allocation, Attachment, NetworkConfig, Phase, Pod, RouteConfig
from tests.fakes.node import Node

pytestmark = pytest.mark.process


DESTINATION = "10.9.0.0/16"
CONFIG = NetworkConfig(routes=(RouteConfig(DESTINATION, scope=253),))


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path, nics=3)
    yield node
    node.close()


def allocate(node: Node, pod: Pod, number: int) -> Allocation:
    """Give the pod a claim of one NIC; claims are in the order of these numbers."""
    return node.allocate(pod, number, claim=f"number-{number}", config=CONFIG)


def metrics(node: Node, pod: Pod, number: int) -> list[int]:
    """Return the metrics of the routes to the destination through the NIC in the pod."""
    state = node.kernel.state(f"eth{number}", node.netns(pod))
    assert state is not None
    return [route.metric for route in state.routes if route.destination == DESTINATION]


def make_anew(node: Node, pod: Pod, number: int) -> None:
    """Remove the NIC from the pod and recreate it on the host, as a driver does."""
    node.kernel.remove_link(f"eth{number}", node.netns(pod))
    parent, address = f"0000:{number:02x}:00.0", Address(f"10.0.{number}.5/24")
    node.kernel.add_link(f"eth{number}", parent=parent, addresses=(address,))


def lose(node: Node, claim: Allocation) -> None:
    """Record the loss of an RDMA device: the claim is to be attached again."""
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    node.attachments.put(replace(record, phase=Phase.INTENT))


def assert_attached(node: Node, pod: Pod, *claims: Allocation) -> None:
    """Require that the claims are whole and nothing is left to be done."""
    node.synchronize(pod, rounds=2)
    assert [node.phase(claim) for claim in claims] == [Phase.ATTACHED] * len(claims)
    assert all(node.gate_open(claim) for claim in claims)
    assert not node.reconcile()


@pytest.mark.parametrize("number", [1, 2])
def test_recreated_nic_gets_its_earlier_route_metric(node: Node, number: int) -> None:
    pod = node.pod("web")
    claims = [allocate(node, pod, number) for number in (1, 2)]
    node.run_pod(pod)
    make_anew(node, pod, number)

    assert_attached(node, pod, *claims)

    assert (metrics(node, pod, 1), metrics(node, pod, 2)) == ([0], [1])


@pytest.mark.parametrize("written", [1, 2])
def test_crash_between_two_results_keeps_the_routes(
    node: Node, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    pod = node.pod("web")
    claims = [allocate(node, pod, number) for number in (1, 2, 3)]
    put, results = node.attachments.put, 0

    def put_and_die(record: Attachment) -> None:
        nonlocal results
        results += record.phase is Phase.ATTACHED
        if results > written:
            raise Killed
        put(record)

    monkeypatch.setattr(node.attachments, "put", put_and_die)
    with pytest.raises(Killed):
        node.run_pod(pod)
    assert [node.phase(claim) for claim in claims].count(Phase.INTENT) == 3 - written
    node.restart()

    assert_attached(node, pod, *claims)

    assert [metrics(node, pod, number) for number in (1, 2, 3)] == [[0], [1], [2]]


def test_released_claim_keeps_its_route(node: Node) -> None:
    pod = node.pod("web")
    first, second = (allocate(node, pod, number) for number in (1, 2))
    node.run_pod(pod)
    node.allocations.remove(first.claim.uid)
    make_anew(node, pod, 2)

    assert_attached(node, pod, second)

    assert (metrics(node, pod, 1), metrics(node, pod, 2)) == ([0], [1])


def test_late_claim_gets_the_next_metric_although_it_sorts_first(node: Node) -> None:
    pod = node.pod("web")
    second = allocate(node, pod, 2)
    node.run_pod(pod)
    first = allocate(node, pod, 1)

    assert_attached(node, pod, first, second)

    assert (metrics(node, pod, 1), metrics(node, pod, 2)) == ([1], [0])


def test_reattached_nics_keep_their_swapped_metrics(node: Node) -> None:
    pod = node.pod("web")
    second = allocate(node, pod, 2)
    node.run_pod(pod)
    first = allocate(node, pod, 1)
    assert_attached(node, pod, first, second)
    lose(node, first)
    lose(node, second)

    assert_attached(node, pod, first, second)

    assert (metrics(node, pod, 1), metrics(node, pod, 2)) == ([1], [0])


def test_route_deleted_by_the_pod_frees_its_metric(node: Node) -> None:
    pod = node.pod("web")
    first, second = (allocate(node, pod, number) for number in (1, 2))
    node.run_pod(pod)
    node.kernel.space(node.netns(pod)).routes.clear()
    make_anew(node, pod, 2)

    assert_attached(node, pod, first, second)

    assert (metrics(node, pod, 1), metrics(node, pod, 2)) == ([], [0])
