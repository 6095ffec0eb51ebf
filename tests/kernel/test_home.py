"""What the kernel makes of a plan home beyond what plans see: the connected routes."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from dranet_nri.kernel.netlink import NetlinkKernel
from dranet_nri.kernel.netns import run_inside
from dranet_nri.model import DeviceKey, NetnsId, NetworkConfig
from dranet_nri.plan.home import AtHome
from dranet_nri.plan.network import pod_network
from dranet_nri.plan.planner import InPod, Wanted, is_home, plan
from dranet_nri.plan.port import Session
from tests.kernel.namespaces import add_veth, new_netns

KEY = DeviceKey("", "", "eth1")
ADDRESSES = (
    ("10.0.0.5/24",),
    ("2001:db8:1::5/64", "nodad"),
    ("2001:db8:2::5/64", "nodad", "valid_lft", "5000", "preferred_lft", "4000"),
    ("10.0.1.5/24", "valid_lft", "5000", "preferred_lft", "4000"),
)


class Host:
    """A host with a NIC that is up and has addresses with and without an end."""

    def __init__(self) -> None:
        """Make it, and a pod's namespace."""
        self._host, self._pod, self._wire = new_netns(), new_netns(), new_netns()
        add_veth(self._host, "eth1", self._wire)
        self.ip("link", "set", "eth1", "up")
        for words in ADDRESSES:
            self.ip("addr", "add", *words, "dev", "eth1")
        self.kernel = NetlinkKernel(host_path=f"/proc/self/fd/{self._host}")
        netns = self.kernel.identify(f"/proc/self/fd/{self._pod}")
        assert netns is not None
        self.netns: NetnsId = netns
        assert self.kernel.hold(netns)

    def ip(self, *arguments: str) -> str:
        """Run iproute2 on the host."""
        command = ["ip", *arguments]

        def run() -> str:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            return done.stdout

        return run_inside(self._host, run)

    def connected(self) -> set[str]:
        """Return the networks that the kernel reaches through the NIC, of both families."""
        shown = (self.ip(family, "route", "show", "dev", "eth1") for family in ("-4", "-6"))
        return {line.split()[0] for table in shown for line in table.splitlines()}

    def close(self) -> None:
        """Let everything vanish."""
        self.kernel.release(self.netns)
        for fd in (self._host, self._pod, self._wire):
            os.close(fd)


@pytest.fixture
def host() -> Iterator[Host]:
    """Return the host."""
    with closing(Host()) as made:
        yield made


def run(session: Session, wanted: Wanted) -> None:
    for op in plan(wanted, session.observe(KEY, "eth1")):
        session.apply(op)


def test_every_address_comes_home_with_its_connected_route(host: Host) -> None:
    before = host.connected()
    assert {"10.0.0.0/24", "10.0.1.0/24", "2001:db8:1::/64", "2001:db8:2::/64"} <= before
    with closing(host.kernel.session(host.netns)) as session:
        snapshot = session.observe(KEY, "eth1").host
        assert snapshot is not None
        run(session, InPod(pod_network(NetworkConfig(), snapshot), snapshot))
        assert session.observe(KEY, "eth1").host is None

        run(session, AtHome(snapshot))

        assert is_home(AtHome(snapshot), session.observe(KEY, "eth1"))
    assert host.connected() == before
