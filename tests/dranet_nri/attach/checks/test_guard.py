"""Boundary between the shim and the plugin: device states that no test kernel can create.

The rest is in tests/system/kernel/test_boundary.py.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from dranet_nri.model import Address, AllocatedDevice, Link, Route
from tests.dranet_nri.attach.execution.node import (
    CHILD_CLAIMS,
    DATA,
    IB,
    VIRTUAL,
    ChildNode,
    Node,
    claim,
    given,
    pci,
    refusal,
)

pytestmark = pytest.mark.process


DEFAULT = Route("0.0.0.0/0", "10.0.2.1", metric=100)
FUNCTION = replace(pci(2), key=replace(pci(2).key, name=""))  # a device without a net device


def route_through(name: str) -> Callable[[Node], None]:
    """Return a function that makes a link the uplink."""
    return lambda node: node.kernel.space().add_route("arrange", name, DEFAULT)


def enslave(kind: str) -> Callable[[Node], None]:
    """Return a function that makes eth2 a port of the uplink."""

    def arrange(node: Node) -> None:
        made = node.kernel.add_link("upper0", kind=kind, addresses=(Address("10.0.2.7/24"),))
        entry = node.kernel.space().named("arrange", "eth2")
        entry.link = replace(entry.link, master=made.index)
        node.kernel.space().add_route("arrange", "upper0", DEFAULT)

    return arrange


def change_kind(kind: str) -> Callable[[Node], None]:
    """Return a function that makes eth2 a link of that kind."""

    def arrange(node: Node) -> None:
        entry = node.kernel.space().named("arrange", "eth2")
        entry.link = replace(entry.link, kind=kind)

    return arrange


def stack(kind: str) -> Callable[[Node], None]:
    """Return a function that stacks the uplink on eth2."""

    def arrange(node: Node) -> None:
        below = node.kernel.space().named("arrange", "eth2").link.index
        above = Link(0, "upper0", kind=kind, lower=below, up=True)
        node.kernel.add_link("upper0", link=above, addresses=(Address("10.0.2.7/24"),))
        node.kernel.space().add_route("arrange", "upper0", DEFAULT)

    return arrange


@pytest.mark.parametrize(
    ("arrange", "device"),
    [
        pytest.param(enslave("bond"), given(pci(2)), id="a bond's port"),
        pytest.param(enslave("team"), given(pci(2)), id="a team's port"),
        pytest.param(stack("vlan"), given(pci(2)), id="what carries a VLAN uplink"),
        pytest.param(stack("ipvlan"), given(pci(2)), id="what carries an IPvlan uplink"),
        pytest.param(change_kind("wireguard"), given(pci(2)), id="a tunnel of the node's"),
        pytest.param(route_through("eth2"), given(FUNCTION), id="an uplink's RDMA device alone"),
        pytest.param(
            route_through("eth2"),
            replace(given(pci(2)), share_id="share"),
            id="a share of an uplink's RDMA device",
        ),
        pytest.param(
            route_through("eth2"),
            given(replace(pci(2), key=replace(pci(2).key, name="eth1"))),
            id="an uplink under another name",
        ),
    ],
)
def test_compromised_shim_cannot_attach_an_unpublished_device(
    arrange: Callable[[Node], None], device: AllocatedDevice
) -> None:
    node = Node()
    arrange(node)
    node.start = node.host()

    message = refusal(node, device)

    assert "device nic-2: eth2: " in message
    assert "it stays on the host" in message
    node.assert_restored()


def test_children_of_an_uplink_are_refused() -> None:
    node = ChildNode()
    node.kernel.space().named("arrange", "ib0").addresses.append(Address("10.0.2.7/24"))
    node.kernel.space().add_route("arrange", "ib0", DEFAULT)
    node.start = node.host()

    message = refusal(node, *CHILD_CLAIMS[0].devices)

    assert f"device {IB.name}: ib0: the node's default route goes through it" in message
    node.assert_restored()


def test_detach_skips_the_check_of_host_interfaces() -> None:
    node = Node()
    node.attach((claim(DATA, given(pci(2))),))
    checks = node.kernel.judged
    node.kernel.space().add_route("arrange", "eth1", replace(DEFAULT, gateway="10.0.1.1"))

    node.detach()

    assert node.kernel.judged == checks == 1


def test_device_whose_name_was_taken_is_attached_to_the_next_sandbox() -> None:
    node = Node()
    dummy = claim(DATA, given(VIRTUAL))
    node.attach((dummy,))
    node.kernel.add_link("dummy0", kind="dummy")
    node.detach()
    assert node.kernel.state("dummy0", node.netns) is None
    node.kernel.remove_link("dummy0")  # the name is free again, and the next sandbox starts first

    node.attach((dummy,))

    assert node.kernel.state("dummy0", node.netns) is not None
