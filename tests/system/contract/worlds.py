"""The two kernels of the contract, and the set-up of namespaces and links in each."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.model import Link, NetnsId, TcxProgram, TcxSide, XdpMode, XdpProgram
from dranet_nri.plan.kernel import Kernel
from tests.capability import lacking
from tests.fakes.kernel import FakeKernel
from tests.system.kernel import bpf, namespaces, xdp

IFF_MULTICAST: Final = 0x1000  # linux/if.h


class World(Protocol):
    """What a test needs besides the port."""

    kernel: Kernel

    def add_link(self, name: str, netns: NetnsId | None = None) -> None:
        """Put a virtual link that is down on the host or into netns."""

    def add_bridge(self, name: str) -> None:
        """Put a link on the host that can be a master."""

    def add_vxlan(self, name: str, lower: str) -> None:
        """Put a tunnel on the host whose packets go through another link there."""

    def attach_xdp(self, name: str, mode: XdpMode) -> None:
        """Attach an XDP program to a link of the host."""

    def attach_tcx(self, name: str) -> None:
        """Let a program see what a link of the host receives, by TCX."""

    def add_netns(self) -> NetnsId:
        """Make a namespace with a path of its own."""

    def unlink(self, netns: NetnsId) -> None:
        """Remove the namespace's path, and every reference that isn't the kernel port's."""

    def replace(self, netns: NetnsId) -> None:
        """Let the namespace's path lead to a new namespace."""

    def host_path(self) -> str:
        """Return a path to the host's namespace."""

    def close(self) -> None:
        """Take everything down."""


class FakeWorld:
    """The kernel in memory."""

    def __init__(self) -> None:
        """Start empty."""
        self._kernel = FakeKernel()
        self.kernel: Kernel = self._kernel
        self._count = 0

    def add_link(self, name: str, netns: NetnsId | None = None) -> None:
        """Add a veth."""
        mac = "02:00:00:00:00:01"
        link = Link(0, name, kind="veth", mac=mac, min_mtu=68, max_mtu=65535)
        as_born = replace(link, flags=IFF_MULTICAST, group=0, xdp=())
        self._kernel.add_link(name, netns, link=as_born)

    def add_bridge(self, name: str) -> None:
        """Add a bridge."""
        self._kernel.add_link(name, kind="bridge", up=False)

    def add_vxlan(self, name: str, lower: str) -> None:
        """Add a tunnel."""
        index = self._kernel.space().named("arrange", lower).link.index
        self._kernel.add_link(name, link=Link(0, name, kind="vxlan", lower=index))

    def attach_xdp(self, name: str, mode: XdpMode) -> None:
        """Say that there is one."""
        entry = self._kernel.space().named("arrange", name)
        entry.link = replace(entry.link, xdp=(*(entry.link.xdp or ()), XdpProgram(mode, 7)))

    def attach_tcx(self, name: str) -> None:
        """Say that there is one more."""
        programs = self._kernel.space().named("arrange", name).tcx
        programs.append(TcxProgram(TcxSide.INGRESS, 1 + len(programs)))

    def add_netns(self) -> NetnsId:
        """Add a namespace."""
        self._count += 1
        return self._kernel.add_netns(f"/run/netns/{self._count}")

    def unlink(self, netns: NetnsId) -> None:
        """Remove it."""
        self._kernel.remove_netns(netns)

    def replace(self, netns: NetnsId) -> None:
        """Remove it and add another one."""
        self._kernel.remove_netns(netns)
        self._kernel.add_netns(netns.path)

    def host_path(self) -> str:
        """Return the path of PID 1's namespace."""
        return "/proc/1/ns/net"

    def close(self) -> None:
        """Check that the port let go of everything."""
        assert self._kernel.open_sessions == 0


class RealWorld:
    """The kernel we run on, in namespaces of our own; links are veths, their peers elsewhere."""

    def __init__(self, directory: Path) -> None:
        """Make the host's namespace, and one for the other ends of the wires."""
        self._directory = directory
        self._open: dict[NetnsId | None, int] = {}
        try:
            self._host = self._new()
        except PermissionError:
            lacking("a network namespace", "run as root or under `unshare -Urn`")
        self._wire = self._new()
        self._count = 0
        self.kernel: Kernel = NetlinkKernel(host_path=self.host_path())

    def _new(self) -> int:
        """Make a namespace without IPv6 link-local addresses and duplicate detection."""
        fd = namespaces.new_netns()
        default = Path("/proc/sys/net/ipv6/conf/default")

        def quieten() -> None:
            (default / "addr_gen_mode").write_text("1")
            (default / "accept_dad").write_text("0")

        run_inside(fd, quieten)
        return fd

    def add_link(self, name: str, netns: NetnsId | None = None) -> None:
        """Add a veth."""
        namespaces.add_veth(self._open.get(netns, self._host), name, self._wire)

    def add_bridge(self, name: str) -> None:
        """Add a bridge."""
        namespaces.add_bridge(self._host, name)

    def add_vxlan(self, name: str, lower: str) -> None:
        """Add a tunnel as flannel makes it."""
        namespaces.add_vxlan(self._host, name, lower)

    def attach_xdp(self, name: str, mode: XdpMode) -> None:
        """Attach one that lets everything pass."""
        xdp.attach(self._host, name, mode)

    def attach_tcx(self, name: str) -> None:
        """Attach one that lets others decide."""
        run_inside(self._host, lambda: bpf.attach_tcx(name))

    def add_netns(self) -> NetnsId:
        """Add a namespace whose path is a link to a descriptor of this process."""
        self._count += 1
        fd = self._new()
        path = self._directory / f"netns{self._count}"
        path.symlink_to(f"/proc/self/fd/{fd}")
        netns = self.kernel.identify(str(path))
        assert netns is not None
        self._open[netns] = fd
        return netns

    def unlink(self, netns: NetnsId) -> None:
        """Remove the path and close our descriptor."""
        Path(netns.path).unlink()
        os.close(self._open.pop(netns))

    def replace(self, netns: NetnsId) -> None:
        """Point the path at a new namespace; the old one stays, or its inode could come back."""
        fd = self._new()
        Path(netns.path).unlink()
        Path(netns.path).symlink_to(f"/proc/self/fd/{fd}")
        self._open[None] = fd

    def host_path(self) -> str:
        """Return a path to the descriptor."""
        return f"/proc/self/fd/{self._host}"

    def close(self) -> None:
        """Close every namespace; the kernel removes what was in them."""
        for fd in (*self._open.values(), self._host, self._wire):
            os.close(fd)
