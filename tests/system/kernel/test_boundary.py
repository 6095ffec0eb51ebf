"""Boundary between the shim and the plugin: records of a compromised shim.

The plugin judges each device by the kernel of that moment. A record that names something which the
inventory does not publish is refused, whatever else it says.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from dranet_nri.attach.checks.guard import PublishGuard
from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.errors import RefusedError
from dranet_nri.facts.scan import read_host
from dranet_nri.inventory import inventory_from_facts, uplinks_of
from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    Device,
    DeviceKey,
    InterfaceConfig,
    NetnsId,
    NetworkConfig,
    ObjectRef,
    Pod,
)
from tests.dranet_nri.attach.execution.journal import Clock, Journal
from tests.system.kernel.namespaces import add_veth, new_netns

NODE_ADDRESS: Final = "203.0.113.9"
POD: Final = Pod("sandbox-1", "uid-web", "default", "web", "/run/netns/1")
BRIDGED: Final = (
    "link add br0 type bridge",
    "link set nic1 master br0",
    "link set br0 up",
)
UNPUBLISHED: Final = {
    "the uplink": ("up0",),
    "a port of the uplink's bridge": (
        "nic1",
        *BRIDGED,
        "addr add 198.51.100.5/24 dev br0",
        "route replace default via 198.51.100.1",
    ),
    "the uplink's bridge": (
        "br0",
        *BRIDGED,
        "addr add 198.51.100.5/24 dev br0",
        "route replace default via 198.51.100.1",
    ),
    "what carries a macvlan uplink": (
        "nic1",
        "link add mv0 link nic1 type macvlan mode bridge",
        "addr add 198.51.100.5/24 dev mv0",
        "link set mv0 up",
        "route replace default via 198.51.100.1",
    ),
    "the link with the Node's address": ("nic1", f"addr add {NODE_ADDRESS}/24 dev nic1"),
    "a port of the bridge with the Node's address": (
        "nic1",
        *BRIDGED,
        f"addr add {NODE_ADDRESS}/24 dev br0",
    ),
    "a pod's wire on the CNI's bridge": ("nic1", *BRIDGED, "link set br0 name cni0"),
    "the CNI's bridge": ("cni0", *BRIDGED, "link set br0 name cni0"),
    "a pod's wire of Calico": ("cali01234567890", "link set nic1 name cali01234567890"),
    "kube-proxy's addresses": ("kube-ipvs0", "link set nic1 name kube-ipvs0"),
    "what carries a tunnel": ("nic1", "link add flannel.1 type vxlan id 1 dev nic1 dstport 4789"),
    "a tunnel": ("flannel.1", "link add flannel.1 type vxlan id 1 dev nic1 dstport 4789"),
    "what carries a macvlan of the host": (
        "nic1",
        "link add mv0 link nic1 type macvlan mode bridge",
    ),
    "what carries a macvtap of the host": ("nic1", "link add tap0 link nic1 type macvtap"),
    "what carries a pod's macvlan": (
        "nic1",
        "link add mv0 link nic1 type macvlan mode bridge",
        "link set mv0 netns POD",
    ),
    "what policy routing uses for pods": (
        "nic1",
        "addr add 10.5.0.7/24 dev nic1",
        "route add default via 10.5.0.1 dev nic1 table 2",
        "rule add from 10.5.0.77 lookup 2 prio 1536",
    ),
    "what IPsec sends through": (
        "nic1",
        "addr add 10.5.0.7/24 dev nic1",
        "xfrm policy add dir out src 10.5.0.0/24 dst 10.66.0.0/16"
        " tmpl src 10.5.0.7 dst 10.5.0.9 proto esp mode tunnel",
    ),
    "the source of a route over another link": (
        "nic1",
        "addr add 10.5.0.7/24 dev nic1",
        "route add 10.66.0.0/16 via 192.0.2.9 dev up0 src 10.5.0.7",
    ),
    "a NIC that waits for its name": ("dra7", "link set nic1 name dra7"),
    "what was the uplink while no link is one": ("up0", "route del default"),
}


class Node:
    """A host with an uplink and a NIC, a pod's namespace, and the plugin's executor.

    Attributes:
        journal: the records of the plugin.
    """

    def __init__(self, *, uplinks: tuple[str, ...] = (), include: tuple[str, ...] = ()) -> None:
        """Make it; give the plugin these flags."""
        self._host, self._pod, self._wire = new_netns(), new_netns(), new_netns()
        self._other = f"/proc/{os.getpid()}/fd/{self._pod}"
        for name in ("up0", "nic1", "nic2"):
            add_veth(self._host, name, self._wire)
            self.ip(f"link set {name} up")
        self.ip("addr add 192.0.2.5/24 dev up0")
        self.ip("route add default via 192.0.2.1")
        self._kernel = NetlinkKernel(host_path=f"/proc/self/fd/{self._host}")
        netns = self._kernel.identify(f"/proc/self/fd/{self._pod}")
        assert netns is not None
        self.netns: NetnsId = netns
        assert self._kernel.hold(netns)
        self.journal = Journal()
        self._guard = PublishGuard((NODE_ADDRESS,), uplinks, include)
        with closing(self._kernel.session(netns)) as session:
            self._guard.scan(session)

    def ip(self, command: str) -> str:
        """Run iproute2 on the host."""

        def run() -> str:
            arguments = ["ip", *command.replace("POD", self._other).split()]
            return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout

        return run_inside(self._host, run)

    def take(self, *names: str) -> None:
        """Attach the devices of an unchecked record."""
        devices = tuple(
            AllocatedDevice(
                f"req-{number}",
                "node",
                Device(f"dev-{number}", DeviceKey("", "", name)),
                NetworkConfig(InterfaceConfig(name=f"net{number}")),
            )
            for number, name in enumerate(names)
        )
        claim = ObjectRef("default", "forged", "claim-forged")
        forged = Allocation(claim, ObjectRef("default", "web", POD.uid), devices, "c0ffee", "8a1f")
        executor = PlanExecutor(self._kernel, self.journal, Clock(), RdmaOptions(), self._guard)
        executor.attach(POD, self.netns, (forged,), {})

    def published(self) -> set[str]:
        """Return the names of the links that the inventory publishes."""

        def look() -> set[str]:
            facts = read_host()  # asks for links of other namespaces, as root
            uplinks = uplinks_of(facts, (NODE_ADDRESS,))
            return {device.key.name for device in inventory_from_facts(facts, uplinks).devices}

        return run_inside(self._host, look)

    def host(self) -> str:
        """Return links, addresses and routes, without values that change by themselves."""
        return "\n".join(
            self.ip(f"-o {what}")
            for what in ("-4 addr", "-4 route show table all", "link show type bridge_slave")
        )

    def close(self) -> None:
        """Delete everything."""
        self._kernel.release(self.netns)
        for fd in (self._host, self._pod, self._wire):
            os.close(fd)


@pytest.fixture
def node() -> Iterator[Node]:
    """Return a node."""
    with closing(Node()) as made:
        yield made


@pytest.mark.parametrize("case", UNPUBLISHED)
def test_compromised_shim_cannot_attach_an_unpublished_device(node: Node, case: str) -> None:
    name, *commands = UNPUBLISHED[case]
    for command in commands:
        node.ip(command)
    before = node.host()

    with pytest.raises(RefusedError, match=f"device dev-0: {name}: .*; it stays on the host"):
        node.take(name)
    with pytest.raises(RefusedError, match=f"device dev-1: {name}: "):
        node.take("nic2", name)

    assert node.host() == before
    assert node.journal.records["claim-forged"].failure is not None
    if case != "what was the uplink while no link is one":  # a shim remembers it as well
        assert name not in node.published()


def test_published_devices_are_attached(node: Node) -> None:
    assert {"nic1", "nic2"} <= node.published()

    node.take("nic1", "nic2")

    assert "nic1" not in node.ip("-o link")


def test_include_permits_heuristic_exclusions_but_no_definite_ones() -> None:
    with closing(Node(include=("nic*", "cali*"))) as node:
        for command in UNPUBLISHED["what policy routing uses for pods"][1:]:
            node.ip(command)
        node.ip(f"addr add {NODE_ADDRESS}/24 dev nic2")
        node.ip("link set nic2 name cali7")

        with pytest.raises(RefusedError, match="it has the Node's address"):
            node.take("cali7")
        node.take("nic1")


def test_uplink_named_by_the_administrator_is_refused() -> None:
    with closing(Node(uplinks=("nic1",))) as node:
        with pytest.raises(RefusedError, match="--uplink-interfaces names it"):
            node.take("nic1")
        node.take("nic2")
