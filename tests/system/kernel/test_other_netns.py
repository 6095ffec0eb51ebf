"""Upper links in other namespaces, as the kernel reports them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.netlink.links import RTM_GETLINK, index_of
from dranet_nri.linux.netlink.other_netns import foreign_upper_kinds
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket, open_here
from dranet_nri.state.privileged_facts import UpperKinds
from tests.system.kernel.namespaces import add_veth, new_netns


class Node:
    """A host with a NIC, and two pods that have a veth of the host each."""

    def __init__(self) -> None:
        """Make it."""
        self._host, self._wire = new_netns(), new_netns()
        self._pods = (new_netns(), new_netns())
        add_veth(self._host, "nic1", self._wire)
        for number, pod in enumerate(self._pods):
            add_veth(pod, f"eth{number}", self._host)

    def ip(self, command: str, pod: int | None = None) -> None:
        """Run iproute2 on the host or in a pod; POD0 and POD1 are the pods."""
        nsfd = self._host if pod is None else self._pods[pod]
        for number, fd in enumerate(self._pods):
            command = command.replace(f"POD{number}", f"/proc/{os.getpid()}/fd/{fd}")
        arguments = ["ip", *command.split()]
        run_inside(nsfd, lambda: subprocess.run(arguments, check=True, capture_output=True))

    def above(self, netlink: RtnetlinkSocket | None = None) -> UpperKinds:
        """Return the reported upper links."""
        with closing(netlink or run_inside(self._host, open_here)) as sock:
            return foreign_upper_kinds(sock, self._host)

    def index(self, name: str) -> int:
        """Return a link's ifindex."""
        with closing(run_inside(self._host, open_here)) as netlink:
            return index_of(netlink, "look", name)

    def refusing(self) -> RtnetlinkSocket:
        """Return a socket on which other namespaces cannot be read."""
        return run_inside(self._host, _refusing)

    def close(self) -> None:
        """Delete everything."""
        for fd in (self._host, self._wire, *self._pods):
            os.close(fd)


def _refusing() -> RtnetlinkSocket:
    netlink = open_here()
    dump = netlink.dump

    def refuse(what: str, kind: int, body: bytes, max_bytes: int | None = None) -> list[bytes]:
        if kind == RTM_GETLINK:
            raise KernelError(what, 1)
        return dump(what, kind, body, max_bytes)

    netlink.dump = refuse  # type: ignore[method-assign]
    return netlink


@pytest.fixture
def node() -> Iterator[Node]:
    """Return a node."""
    with closing(Node()) as made:
        yield made


def test_veths_of_pods_have_no_upper_links(node: Node) -> None:
    assert node.above() == {}


def test_upper_link_moved_to_a_pod_is_reported_with_its_kind(node: Node) -> None:
    node.ip("link add mv0 link nic1 type macvlan mode bridge")
    assert node.above() == {}

    node.ip("link set mv0 netns POD0")

    assert node.above() == {node.index("nic1"): ("macvlan",)}
    assert node.above() == {node.index("nic1"): ("macvlan",)}, "now the host has an id as well"


def test_upper_links_created_in_pods_are_reported(node: Node) -> None:
    node.ip("link add link nic1 netns POD0 name net1 type macvlan mode bridge")
    node.ip("link add link nic1 netns POD1 name net1 type macvtap")
    node.ip("link add name vx1 type vxlan id 7 dev nic1 dstport 4789")
    node.ip("link set vx1 netns POD1")

    assert node.above() == {node.index("nic1"): ("macvlan", "macvtap", "vxlan")}


def test_link_above_a_link_of_another_pod_is_not_reported(node: Node) -> None:
    node.ip("link add mv0 link eth1 type macvlan mode bridge", pod=1)
    node.ip("link set mv0 netns POD0", pod=1)

    assert node.above() == {}


def test_unreadable_namespaces_report_no_upper_links(node: Node) -> None:
    node.ip("link add mv0 link nic1 type macvlan mode bridge")
    node.ip("link set mv0 netns POD0")

    assert node.above(node.refusing()) == {}
