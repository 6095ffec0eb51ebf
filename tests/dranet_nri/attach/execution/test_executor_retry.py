"""Limit of restore tries: rejected settings are given up, neither never nor too early."""

from dataclasses import replace
from errno import EBUSY, EINVAL, ENETUNREACH

import pytest

from dranet_nri.errors import AttachError
from dranet_nri.model import (
    DETACH_FAILED,
    RESTORE_FAILED,
    InterfaceConfig,
    NetworkConfig,
    Phase,
    RouteConfig,
)
from dranet_nri.plan.ops import AddRoute, MoveLink, SetSysctl
from dranet_nri.plan.retry import MAX_RESTORE_TRIES
from tests.dranet_nri.attach.execution.node import DATA, Node, claim, failure_of, given, pci

pytestmark = pytest.mark.process


@pytest.fixture
def node() -> Node:
    """Return a fresh node."""
    return Node()


def test_nic_is_returned_without_a_rejected_route_after_ten_tries(
    node: Node,
) -> None:
    node.attach()
    node.kernel.fail_on(AddRoute, ENETUNREACH)

    for _ in range(MAX_RESTORE_TRIES):
        node.retry()
        assert node.journal.records[DATA].phase is Phase.DETACHING
    node.retry()

    record = node.journal.records[DATA]
    assert record.phase is Phase.RESTORED
    assert record.failure is not None
    assert "ENETUNREACH" in record.failure.message
    assert "restored without it" in record.failure.message


def assert_given_back_after_all_tries(node: Node) -> None:
    """Assert that the full number of tries is counted before the NIC is returned."""
    for number in range(1, MAX_RESTORE_TRIES + 1):
        node.retry()
        assert node.journal.records[DATA].phase is Phase.DETACHING
        failure = failure_of(node)
        assert (failure.reason, failure.count) == (RESTORE_FAILED, number)
    node.retry()
    assert node.journal.records[DATA].phase is Phase.RESTORED


def test_failed_attaches_do_not_count_as_restore_tries(node: Node) -> None:
    config = NetworkConfig(routes=(RouteConfig("10.99.0.0/16", gateway="10.0.2.1"),))
    node.kernel.fail_on(AddRoute, ENETUNREACH)
    for _ in range(MAX_RESTORE_TRIES + 2):
        with pytest.raises(AttachError):
            node.attach((claim(DATA, given(pci(2), config)),))
    assert failure_of(node).count == MAX_RESTORE_TRIES + 2

    assert_given_back_after_all_tries(node)


def test_failed_moves_to_the_host_do_not_count_as_restore_tries(node: Node) -> None:
    node.attach()
    node.kernel.fail_on(MoveLink, EBUSY)
    for number in range(1, MAX_RESTORE_TRIES + 3):
        node.retry()
        assert (failure_of(node).reason, failure_of(node).count) == (DETACH_FAILED, number)
    node.kernel.clear_faults()
    node.kernel.fail_on(AddRoute, ENETUNREACH)

    assert_given_back_after_all_tries(node)


def test_nic_is_returned_without_a_sysctl_that_the_kernel_rejects(node: Node) -> None:
    node.attach()
    node.kernel.fail_on(SetSysctl, EINVAL)

    node.detach()

    record = node.journal.records[DATA]
    assert record.phase is Phase.RESTORED
    assert record.failure is not None
    assert "EINVAL" in record.failure.message
    assert record.failure.message.endswith("restored without it")


def test_refused_mtu_does_not_keep_the_nic_in_the_pod(node: Node) -> None:
    node.attach((claim(DATA, given(pci(2), NetworkConfig(InterfaceConfig(mtu=1400)))),))
    inside = node.kernel.space(node.netns).named("arrange", "eth2")
    inside.link = replace(inside.link, max_mtu=1450)  # that of the host was 1500

    assert_given_back_after_all_tries(node)

    state = node.kernel.state("eth2")
    assert state is not None
    assert (state.link.up, state.link.mtu, len(state.routes)) == (True, 1400, 2)
    message = failure_of(node).message
    assert "set mtu 1500 on eth2 in host: EINVAL" in message
    assert "restored without it" in message


def test_nic_in_the_pod_is_never_given_up_by_the_restore_limit(
    node: Node,
) -> None:
    node.attach()
    node.kernel.fail_on(MoveLink, EBUSY)

    for _ in range(MAX_RESTORE_TRIES + 2):
        node.retry()

    assert node.journal.records[DATA].phase is Phase.DETACHING
