"""A session on the kernel in memory; see tests.fakes.kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dranet_nri.inventory import HostFacts
from dranet_nri.model import (
    Address,
    CharDevice,
    DetectedAddress,
    DeviceKey,
    EthtoolState,
    Link,
    NetnsId,
    Ns,
    Observed,
    ObservedRdma,
    RdmaLink,
    Sysctl,
    TcxProgram,
)
from dranet_nri.plan.child import ALIAS
from dranet_nri.plan.identity import DeviceIdentity, RdmaIdentity
from dranet_nri.plan.ops import MoveLink, MoveRdma, Op
from dranet_nri.plan.routes.comparison import RouteKey
from tests.fakes.dhcp import FakeDhcpServer
from tests.fakes.world import DEFAULTS, HOST_NETNS

if TYPE_CHECKING:
    from tests.fakes.kernel import FakeKernel


@dataclass(slots=True)
class FakeSession:
    """Implements the Session port on a FakeKernel."""

    kernel: FakeKernel
    netns: NetnsId | None
    closed: bool = False
    short: bool = False

    @contextmanager
    def shortened(self) -> Iterator[None]:
        """Note moves outside of the block."""
        assert not self.short, "shortened twice"
        self.short = True
        try:
            yield
        finally:
            self.short = False

    def apply(self, op: Op) -> None:
        """Do op."""
        self._open(str(op))
        if isinstance(op, MoveLink | MoveRdma) and not self.short:
            self.kernel.long_moves.append(op)
        self.kernel.do(op, self.netns)

    def observe(
        self,
        key: DeviceKey,
        pod_name: str,
        identity: DeviceIdentity | None = None,
        *,
        link_only: bool = False,
        sysctls: Collection[Sysctl] | None = None,
    ) -> Observed:
        """Look for the device."""
        self._open("observe")
        return self.kernel.look(key, pod_name, self.netns, identity, link_only=link_only)

    def pod_link(self, name: str) -> Link:
        """Return the pod's link of that name as it is now."""
        self._open("look for a link")
        return self.kernel.space(self.netns).named("look for a link", name).link

    def pod_addresses(self, name: str) -> tuple[DetectedAddress, ...]:
        """Return the IPv6 addresses of the pod's link, and what a router made of it."""
        self._open("dump addresses")
        entry = self.kernel.space(self.netns).named("dump addresses", name)
        plans = self.kernel.detected.get(name, [()])
        observed = plans.pop(0) if len(plans) > 1 else plans[0]
        there = {address.cidr for address in entry.addresses}
        entry.addresses += (
            Address(found.cidr, found.scope, valid_s=86400)
            for found in observed
            if found.cidr not in there and not (found.tentative or found.duplicate)
        )
        named = {found.cidr for found in observed}
        own = (a for a in entry.addresses if ":" in a.cidr and a.cidr not in named)
        return (*(DetectedAddress(a.cidr, a.scope) for a in own), *observed)

    def dhcp(self, name: str) -> FakeDhcpServer:
        """Return the server of the pod's link, one that is silent if there is none."""
        self._open("open a socket for DHCP")
        self.kernel.space(self.netns).named("open a socket for DHCP", name)
        server = self.kernel.dhcp.setdefault(name, FakeDhcpServer(silent=True))
        server.opened += 1
        return server

    def default_sysctls(self) -> Mapping[tuple[str, str], str]:
        """Return what a link gets that enters the host's namespace."""
        self._open("read default sysctls")
        return DEFAULTS

    def host_facts(self) -> HostFacts:
        """Return what the host's links are judged by."""
        self._open("read the host's links")
        self.kernel.judged += 1
        return self.kernel.space().facts()

    def pod_route_keys(self, except_links: Collection[int]) -> Mapping[RouteKey, str]:
        """Return the places that routes of the pod have."""
        self._open("dump routes of the pod")
        return self.kernel.space(self.netns).slots(except_links)

    def ethtool(self, ns: Ns, index: int, groups: Collection[str] = ()) -> EthtoolState | None:
        """Return features, private flags and driver settings of a link."""
        self._open("read ethtool features")
        space = self.kernel.space(None if ns is Ns.HOST else self.netns)
        found = space.at("read ethtool features", index).ethtool(groups)
        return found if self.kernel.reports_features else None

    def tcx(self, ns: Ns, index: int) -> tuple[TcxProgram, ...] | None:
        """Return what runs on a link by TCX."""
        self._open("query TCX programs")
        space = self.kernel.space(None if ns is Ns.HOST else self.netns)
        found = tuple(space.at("query TCX programs", index).tcx)
        return found if self.kernel.reports_programs else None

    def rdma(self, identity: RdmaIdentity) -> ObservedRdma:
        """Look for the RDMA devices."""
        self._open("observe RDMA devices")
        kernel, netns = self.kernel, self.netns
        there = netns if netns and kernel.alive(netns) else None
        return kernel.rdma.observe(identity, there, lambda ns: kernel.space(ns).plain())

    def char_devices(
        self, ns: Ns, device: RdmaLink, kinds: Sequence[str]
    ) -> tuple[CharDevice, ...]:
        """Return the character devices of an RDMA device."""
        self._open("resolve character devices")
        netns = HOST_NETNS if ns is Ns.HOST else self.netns
        assert netns is not None
        return self.kernel.rdma.chars(netns, device, kinds)

    def child(self, alias: str) -> Observed:
        """Look for a link that was made."""
        self._open("observe a child")
        return self.kernel.look_for_child(alias, self.netns)

    def children(self) -> tuple[tuple[str, int], ...]:
        """Look for links that were made."""
        self._open("look for children")
        links = self.kernel.space().plain()
        return tuple((e.alias, e.index) for e in links if e.alias.startswith(ALIAS))

    def pkeys(self, rdma_device: str, port: int) -> tuple[int, ...]:
        """Return the P_Key table."""
        self._open("read P_Keys")
        return self.kernel.rdma.pkeys.get((rdma_device, port), ())

    def close(self) -> None:
        """Close once."""
        if not self.closed:
            self.kernel.open_sessions -= 1
        self.closed = True

    def _open(self, what: str) -> None:
        if self.closed:
            raise AssertionError(f"{what}: the session is closed")
