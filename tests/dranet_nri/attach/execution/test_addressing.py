"""Attach with delayed addresses: router advertisements and duplicate address detection."""

from dataclasses import replace

import pytest

from dranet_nri.attach.execution.addressing import POLL_S
from dranet_nri.errors import AttachError
from dranet_nri.model import (
    ATTACH_FAILED,
    NOT_READY,
    Addressing,
    AllocatedDevice,
    DetectedAddress,
    InterfaceConfig,
    MacvlanConfig,
    NetworkConfig,
    Ns,
    Phase,
    Route,
    RouteConfig,
    Sysctl,
)
from dranet_nri.plan.ops import AddRoute, SetSysctl
from dranet_nri.settings import SLAAC_S
from tests.dranet_nri.attach.execution.node import (
    DATA,
    POD,
    Node,
    attached,
    claim,
    failure_of,
    given,
    pci,
)

pytestmark = pytest.mark.process


MADE = DetectedAddress("2001:db8:5::99/64")
AUTOMATIC = NetworkConfig(
    InterfaceConfig(name="net1", addressing=Addressing.SLAAC),
    routes=(RouteConfig("2001:db8:99::/48", "2001:db8:5::1"),),
)
STATIC = InterfaceConfig(name="net1", addresses=("10.0.2.9/24", "2001:db8:2::9/64"))
CHILD = NetworkConfig(replace(STATIC, macvlan=MacvlanConfig()))


@pytest.fixture
def node() -> Node:
    """Return a fresh node."""
    return Node()


def of(config: NetworkConfig) -> AllocatedDevice:
    """Return a NIC without RDMA, allocated with the config."""
    return given(replace(pci(2), rdma_devices=()), config)


def refusal_of(node: Node, config: NetworkConfig) -> str:
    """Attach the NIC, which must fail and be undone; return why."""
    with pytest.raises(AttachError):
        node.attach((claim(DATA, of(config)),))
    assert node.journal.phases() == {DATA: Phase.FAILED}
    node.assert_restored()
    return failure_of(node).message


def test_attach_waits_for_an_advertised_address_and_then_adds_the_routes(node: Node) -> None:
    tentative, link_local = replace(MADE, tentative=True), DetectedAddress("fe80::1/64", 253)
    temporary = DetectedAddress("2001:db8:5::77/64", temporary=True)
    node.kernel.detected["net1"] = [(), (link_local,), (tentative,), (MADE, temporary)]
    slept: list[float] = []
    node.clock.on_sleep = slept.append

    record = attached(node, of(AUTOMATIC))

    assert record.addresses == ("10.0.2.5/24", MADE.cidr)
    (route,) = (op for op in node.kernel.log if isinstance(op, AddRoute) and ":" in str(op))
    assert route.route == Route("2001:db8:99::/48", "2001:db8:5::1", protocol=4)
    assert slept == [POLL_S] * 3


def test_attach_sets_the_sysctls_that_accept_advertisements(node: Node) -> None:
    node.kernel.detected["net1"] = [(MADE,)]

    attached(node, of(NetworkConfig(AUTOMATIC.interface)))

    written = {op.sysctl for op in node.kernel.log if isinstance(op, SetSysctl) and op.ns is Ns.POD}
    assert {
        Sysctl("ipv6", "accept_ra", "2"),
        Sysctl("ipv6", "router_solicitation_interval", "1"),
        Sysctl("ipv6", "dad_transmits", "0"),
        Sysctl("ipv6", "ra_defrtr_metric", "2048"),
    } <= written


def test_attach_without_a_router_fails_and_is_undone(node: Node) -> None:
    slept: list[float] = []
    node.clock.on_sleep = slept.append

    refusal = refusal_of(node, NetworkConfig(AUTOMATIC.interface))

    assert "no router advertised a prefix to net1 within 8 s" in refusal
    assert "raise --slaac-ready-timeout" in refusal
    assert failure_of(node).reason == NOT_READY
    assert sum(slept) == pytest.approx(SLAAC_S)


def test_duplicate_address_is_reported_and_the_attach_is_undone(node: Node) -> None:
    node.kernel.detected["net1"] = [(replace(MADE, cidr="2001:db8:2::9/64", duplicate=True),)]

    assert "address 2001:db8:2::9/64 of net1 is in use by another host" in refusal_of(node, CHILD)
    assert failure_of(node).reason == ATTACH_FAILED


def test_child_attach_waits_for_duplicate_address_detection(node: Node) -> None:
    checked = DetectedAddress("2001:db8:2::9/64", tentative=True)
    node.kernel.detected["net1"] = [(checked,), (checked,), ()]
    slept: list[float] = []
    node.clock.on_sleep = slept.append

    record = attached(node, of(CHILD))

    assert record.addresses == STATIC.addresses
    assert (len(slept), record.warnings) == (2, ())


def test_unfinished_duplicate_address_detection_is_reported_as_a_warning(node: Node) -> None:
    node.kernel.detected["net1"] = [(DetectedAddress("2001:db8:2::9/64", tentative=True),)]

    (warning,) = attached(node, of(CHILD)).warnings

    assert "2001:db8:2::9/64 is not usable yet" in warning


def test_attach_of_a_whole_nic_does_not_wait_for_duplicate_address_detection(node: Node) -> None:
    node.kernel.detected["net1"] = [(DetectedAddress("2001:db8:2::9/64", tentative=True),)]

    slept: list[float] = []
    node.clock.on_sleep = slept.append

    attached(node, of(NetworkConfig(STATIC)))

    assert slept == []


def test_wait_for_addresses_ends_with_the_sandbox(node: Node) -> None:
    config = NetworkConfig(AUTOMATIC.interface)

    with pytest.raises(AttachError, match="the sandbox was stopped"):
        node.executor.attach(POD, node.netns, (claim(DATA, of(config)),), {}, lambda: False)

    node.assert_restored()
