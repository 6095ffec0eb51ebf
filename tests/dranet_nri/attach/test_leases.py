"""Attach and detach with leases of a DHCP server."""

from dataclasses import replace
from errno import EPERM

import pytest

from dranet_nri.dhcp import DhcpMessageType
from dranet_nri.errors import AttachError, KernelError
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    Addressing,
    InterfaceConfig,
    Lease,
    NetworkConfig,
    Phase,
    Route,
    RouteConfig,
)
from dranet_nri.plan.ops import AddRoute
from dranet_nri.settings import DHCP_S
from tests.dranet_nri.attach.execution.node import (
    DATA,
    POD,
    Node,
    attached,
    claim,
    failure_of,
    pci,
)
from tests.dranet_nri.attach.execution.test_addressing import of
from tests.fakes.dhcp import SERVER_MAC, FakeDhcpServer

pytestmark = pytest.mark.process

LEASED = NetworkConfig(InterfaceConfig(name="net1", addressing=Addressing.DHCP))
ALL = [DhcpMessageType.DISCOVER, DhcpMessageType.REQUEST]
OTHER = replace(pci(3), rdma_devices=())


@pytest.fixture
def node() -> Node:
    """Return a node whose link net1 reaches a server."""
    made = Node()
    made.kernel.dhcp["net1"] = FakeDhcpServer()
    return made


@pytest.fixture
def server(node: Node) -> FakeDhcpServer:
    """Return the server."""
    return node.kernel.dhcp["net1"]


def assert_released(server: FakeDhcpServer) -> None:
    """Check that the lease was released by one frame to the server."""
    message, target, mac = server.got[-1]
    assert message.kind is DhcpMessageType.RELEASE
    assert (message.client, target, mac) == ("10.77.0.50", "10.77.0.1", SERVER_MAC)
    assert server.opened == 0


def test_lease_sets_address_routes_and_mtu_and_is_recorded(
    node: Node, server: FakeDhcpServer
) -> None:
    server.gives = replace(server.gives, mtu=1400, routers=("10.77.0.254",))
    config = replace(LEASED, routes=(RouteConfig("10.90.0.0/16", "10.77.0.2"),))

    record = attached(node, of(config))

    lease = Lease("10.77.0.50/24", "10.77.0.1", SERVER_MAC, node.clock.now, 3600, 1800, 3150)
    assert (record.lease, record.addresses, record.mtu) == (lease, ("10.77.0.50/24",), 1400)
    state = node.in_pod("net1")
    (address,) = state.addresses
    assert (address.cidr, address.valid_s) == ("10.77.0.50/24", 3600)
    assert {(route.destination, route.metric) for route in state.routes} >= {
        ("0.0.0.0/0", 2048),
        ("10.90.0.0/16", 0),
    }
    assert (server.kinds, server.opened) == (ALL, 0)
    node.detach()
    assert_released(server)
    node.assert_restored()


def test_lease_route_of_another_device_is_omitted_with_a_warning(
    node: Node, server: FakeDhcpServer
) -> None:
    server.gives = replace(server.gives, routers=("10.77.0.254",))
    node.kernel.space(node.netns).named("arrange", "eth0").link = replace(
        node.kernel.space(node.netns).named("arrange", "eth0").link, up=True
    )
    node.kernel.space(node.netns).add_route(
        "arrange", "eth0", Route("0.0.0.0/0", gateway="", scope=253, metric=2048)
    )

    (warning,) = attached(node, of(LEASED)).warnings

    assert "left out" in warning
    assert "0.0.0.0/0" in warning
    assert not [op for op in node.kernel.log if isinstance(op, AddRoute)]


def test_attach_without_a_dhcp_server_fails_and_is_undone(
    node: Node, server: FakeDhcpServer
) -> None:
    server.silent = True
    slept: list[float] = []
    node.clock.on_sleep = slept.append

    with pytest.raises(AttachError, match="no DHCP server granted net1 an address within 10 s"):
        node.attach((claim(DATA, of(LEASED)),))

    assert sum(slept) == pytest.approx(DHCP_S)
    assert "raise --dhcp-ready-timeout" in failure_of(node).message
    assert server.kinds == [DhcpMessageType.DISCOVER] * 5
    assert server.opened == 0
    node.assert_restored()


def test_lease_is_released_when_another_device_gets_none(
    node: Node, server: FakeDhcpServer
) -> None:
    second = replace(LEASED, interface=replace(LEASED.interface, name="net2"))

    with pytest.raises(AttachError, match="device nic-3: no DHCP server"):
        node.attach((claim(DATA, of(LEASED), replace(of(second), device=OTHER)),))

    assert_released(server)
    assert node.kernel.dhcp["net2"].opened == 0
    node.assert_restored()


def test_lease_is_released_when_a_later_step_fails(node: Node, server: FakeDhcpServer) -> None:
    config = replace(LEASED, routes=(RouteConfig("10.90.0.0/16", "10.99.0.2"),))

    with pytest.raises(AttachError, match=r"add route 10\.90\.0\.0/16"):
        node.attach((claim(DATA, of(config)),))

    assert_released(server)
    node.assert_restored()


def test_wait_for_a_lease_ends_with_the_sandbox(node: Node, server: FakeDhcpServer) -> None:
    server.silent = True

    with pytest.raises(
        AttachError, match="the sandbox was stopped during the wait for a DHCP server"
    ):
        node.executor.attach(POD, node.netns, (claim(DATA, of(LEASED)),), {}, lambda: False)

    assert server.opened == 0
    node.assert_restored()


def test_dhcp_on_a_link_that_is_not_ethernet_is_refused(node: Node, server: FakeDhcpServer) -> None:
    entry = node.kernel.space().named("arrange", "eth2")
    entry.link = replace(entry.link, arphrd=ARPHRD_INFINIBAND + 1)

    with pytest.raises(AttachError, match="addressing DHCP requires an Ethernet link, and net1 is"):
        node.attach((claim(DATA, of(LEASED)),))

    assert server.got == []


def test_failed_release_does_not_prevent_the_detach(node: Node, server: FakeDhcpServer) -> None:
    attached(node, of(LEASED))
    server.fails = KernelError("send", EPERM)

    node.detach()

    assert node.journal.phases() == {DATA: Phase.RESTORED}
    assert server.opened == 0
    node.assert_restored()


def test_lease_of_a_removed_namespace_is_not_released(node: Node, server: FakeDhcpServer) -> None:
    attached(node, of(LEASED))
    node.kernel.remove_netns(node.netns)

    node.detach(netns_exists=False)

    assert server.kinds == ALL
    assert server.opened == 0


def test_next_attach_acquires_a_new_lease(node: Node, server: FakeDhcpServer) -> None:
    record = attached(node, of(LEASED))
    node.detach()
    server.gives = replace(server.gives, offered="10.77.0.51")

    again = attached(node, of(LEASED))

    assert record.lease
    assert again.lease
    assert again.lease.address == "10.77.0.51/24"
    assert node.in_pod("net1").link.up
