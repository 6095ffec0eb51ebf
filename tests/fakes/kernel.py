"""A kernel in memory, checked against the real kernel by tests/system/contract/test_kernel.py.

It does what plans depend on: what a move, a link going down and the death of a namespace lose;
which names clash; which routes, rules and addresses are equal. It knows no packets, no carrier
and no IPv6 link-local addresses.

    kernel = FakeKernel()
    kernel.add_link("eth1", parent="0000:8a:00.0", addresses=(Address("10.0.0.5/24"),))
    netns = kernel.add_netns("/run/netns/pod")
    kernel.fail_at(3)                                  # the third operation from now on fails
    kernel.hold(netns)
    with closing(kernel.session(netns)) as session: …
    assert kernel.state("eth1") is not None            # None: not on the host
    assert kernel.state("net1", netns).addresses == …
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from errno import EBUSY, EINTR, EINVAL, ENODEV, ESTALE
from itertools import count
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.find_link import find_link, links_lost_with
from dranet_nri.kernel.observe import own_names
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    Address,
    DetectedAddress,
    DeviceKey,
    IpoibConfig,
    IpoibMode,
    IpoibState,
    Link,
    LinkState,
    NetnsId,
    Ns,
    Observed,
    RdmaMode,
    Route,
    Rule,
)
from dranet_nri.plan.child import is_child
from dranet_nri.plan.identity import DeviceIdentity
from dranet_nri.plan.ops import AddChild, MoveLink, MoveRdma, Op, RenameRdma
from dranet_nri.plan.routes.vrf import AddVrf
from tests.fakes import operations
from tests.fakes.dhcp import FakeDhcpServer
from tests.fakes.faults import Fault
from tests.fakes.operations import IPOIB_FLAGS_RC, MAX_CONNECTED
from tests.fakes.rdma import FakeRdma, FakeRdmaCore
from tests.fakes.session import FakeSession
from tests.fakes.world import HOST_NETNS, NSFS_DEV, SET_BY_CLAIMS, FakeLink, Namespace

CHILD: Final = Link(0, "", mac="02:00:00:00:00:c1")
IFF_MULTICAST: Final = 0x1000  # linux/if.h
GID: Final = "fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:5a:1e"  # of a port whose links have no MAC


@dataclass(slots=True)
class FakeKernel:
    """Implements the Kernel port in memory.

    Attributes:
        log: ops that were asked for and succeeded, in order.
        held: namespaces held through hold().
        open_sessions: sessions that were opened and not closed.
        reports_parents: whether it is Linux 5.14 or newer.
        reports_features: whether it is Linux 5.7 or newer.
        reports_programs: whether it is Linux 6.6 or newer.
        judged: how often the host was looked at to judge its links.
        long_moves: moves whose grace periods were not shortened.
        whole_pods: how often all that a device has in a pod was asked for.
        dhcp: the servers, by link of a pod.
        detected: by link of a pod, what else it has each time its addresses are read; the last
            one stays.
        rdma: the RDMA devices of the machine.
    """

    log: list[Op] = field(default_factory=list)
    held: set[NetnsId] = field(default_factory=set)
    open_sessions: int = 0
    reports_parents: bool = True
    reports_features: bool = True
    reports_programs: bool = True
    judged: int = 0
    long_moves: list[Op] = field(default_factory=list)
    whole_pods: int = 0
    _namespaces: dict[NetnsId, Namespace] = field(default_factory=dict)
    _removed: set[NetnsId] = field(default_factory=set)
    _faults: list[Fault] = field(default_factory=list)
    _blind: int = 0
    dhcp: dict[str, FakeDhcpServer] = field(default_factory=dict)
    detected: dict[str, list[tuple[DetectedAddress, ...]]] = field(default_factory=dict)
    rdma: FakeRdmaCore = field(init=False)

    def __post_init__(self) -> None:
        """Start with the host's loopback."""
        self.rdma = FakeRdmaCore(HOST_NETNS, self._remake_ipoib)
        self._namespaces[HOST_NETNS] = Namespace([FakeLink(Link(1, "lo", loopback=True, up=True))])

    # ------------------------------------------------------------------ arranging the world

    def add_link(
        self,
        name: str,
        netns: NetnsId | None = None,
        *,
        kind: str = "",
        bus: str = "pci",
        parent: str = "",
        up: bool = True,
        master: str = "",
        addresses: Sequence[Address] = (),
        routes: Sequence[Route] = (),
        link: Link | None = None,
    ) -> Link:
        """Put a link on the host, or into netns; link overrides everything but name and index.

        When its namespace ends, a link with a parent returns, and one without is deleted.
        """
        space = self.space(netns)
        template = link or Link(0, name, kind=kind, mac="02:00:00:00:00:01", up=up)
        made = replace(
            template,
            index=1 + max(held.link.index for s in self._namespaces.values() for held in s.links),
            name=name,
            bus=template.bus or (bus if parent else ""),
            parent=template.parent or parent,
        )
        space.links.append(entry := FakeLink(made, list(addresses)))
        if master:
            entry.link = replace(made, master=space.named("arrange", master).link.index)
        for route in routes:
            space.add_route("arrange", name, route)
        return entry.link

    def add_rule(self, rule: Rule, netns: NetnsId | None = None) -> None:
        """Put a rule on the host, or into netns."""
        self.space(netns).add_rule("arrange", rule)

    def add_rdma(
        self,
        name: str,
        *,
        bus: str = "pci",
        parent: str = "",
        guid: str = "",
        movable: bool = True,
        nic: str = "",
    ) -> FakeRdma:
        """Put an RDMA device on the host; the machine is in exclusive mode unless told.

        Its port has the net device of the NIC with that parent, its own one's unless told.
        """
        self.rdma.mode = self.rdma.mode or RdmaMode.EXCLUSIVE
        return self.rdma.add(name, (bus, parent), guid, movable=movable, nic=nic or parent)

    def remove_link(self, name: str, netns: NetnsId | None = None) -> None:
        """Pull the device out of the machine."""
        space = self.space(netns)
        space.drop(space.named("arrange", name))

    def add_netns(self, path: str) -> NetnsId:
        """Make a namespace with a loopback that is down."""
        inode = HOST_NETNS.inode + 1 + len(self._namespaces) + len(self._removed)
        netns = NetnsId(path, NSFS_DEV, inode)
        self._namespaces[netns] = Namespace([FakeLink(Link(1, "lo", loopback=True))], SET_BY_CLAIMS)
        return netns

    def remove_netns(self, netns: NetnsId) -> None:
        """Unlink the namespace's path. It ends at once unless it is held, else on release."""
        self._removed.add(netns)
        self._destroy_unused(netns)

    def destroy_netns(self, netns: NetnsId) -> None:
        """End the namespace although it may be held, as a reboot or a crash would."""
        self.held.discard(netns)
        self.remove_netns(netns)

    # ------------------------------------------------------------------ injecting failures

    def fail_at(self, nth: int, error: BaseException | int = EBUSY, *, done: bool = False) -> None:
        """Let the nth operation from now on fail once; done: it happens nevertheless."""
        self._faults.append(Fault(None, nth, 1, error, done))

    def fail_on(
        self,
        kind: type[Op],
        error: BaseException | int = EBUSY,
        *,
        times: int | None = None,
        done: bool = False,
    ) -> None:
        """Let every operation of kind fail, or the first `times` ones from now on."""
        self._faults.append(Fault(kind, 1, times, error, done))

    def fail_observe(self, times: int = 1) -> None:
        """Let the next observations fail as an interrupted dump does."""
        self._blind = times

    def clear_faults(self) -> None:
        """Remove every injected failure."""
        self._faults.clear()
        self._blind = 0
        self.rdma.clear_faults()

    # ------------------------------------------------------------------ looking at the world

    def space(self, netns: NetnsId | None = None) -> Namespace:
        """Return a namespace, the host's if None."""
        return self._namespaces[netns or HOST_NETNS]

    def alive(self, netns: NetnsId) -> bool:
        """Whether the namespace still exists, named or held."""
        return netns in self._namespaces

    def state(self, name: str, netns: NetnsId | None = None) -> LinkState | None:
        """Return a link's whole state, None if there is none of that name."""
        space = self.space(netns)
        entry = space.find(name)
        return None if entry is None else space.state(entry)

    # ------------------------------------------------------------------ the port

    def identify(self, path: str) -> NetnsId | None:
        """Return the namespace at path."""
        named = (netns for netns in self._namespaces if netns not in self._removed)
        return next((netns for netns in named if netns.path == path), None)

    def is_host(self, netns: NetnsId) -> bool:
        """Whether it is the host's, by inode."""
        return (netns.dev, netns.inode) == (HOST_NETNS.dev, HOST_NETNS.inode)

    def hold(self, netns: NetnsId) -> bool:
        """Keep it alive."""
        if netns in self.held:
            return True
        if netns in self._removed or netns not in self._namespaces:
            return False
        self.held.add(netns)
        return True

    def release(self, netns: NetnsId) -> None:
        """Let it die if nothing else keeps it."""
        self.held.discard(netns)
        self._destroy_unused(netns)

    def session(self, netns: NetnsId | None) -> FakeSession:
        """Open a session."""
        if netns is not None and netns not in self.held:
            raise KernelError(f"enter {netns.path}", ESTALE, "the namespace is not referenced")
        self.open_sessions += 1
        return FakeSession(self, netns)

    # ------------------------------------------------------------------ inside

    def do(self, op: Op, netns: NetnsId | None) -> None:
        """Apply op between the host and netns, or fail as injected."""
        fault = next(iter([f for f in self._faults if f.hits(op)]), None)
        if fault is not None and not fault.done:
            raise fault.strike(op)
        spaces = {Ns.HOST: self.space()}
        if netns is not None and netns in self._namespaces:
            spaces[Ns.POD] = self.space(netns)
        match op:
            case MoveRdma() | RenameRdma():
                self._do_rdma(op, netns)
            case AddChild(link=IpoibConfig() as link):
                self._add_ipoib(op, link)
            case AddChild():
                self._add_child(op, netns)
            case AddVrf():
                if spaces[op.ns].find(op.name) is None:
                    self.add_link(op.name, netns, kind="vrf")
            case _:
                operations.apply(op, spaces)
        if isinstance(op, MoveLink):
            self.rdma.nic_moved(spaces[op.target].named(str(op), op.name).link.parent)
        if fault is not None:
            raise fault.strike(op)
        self.log.append(op)

    def look(
        self,
        key: DeviceKey,
        pod_name: str,
        netns: NetnsId | None,
        identity: DeviceIdentity | None,
        *,
        link_only: bool = False,
    ) -> Observed:
        """Observe the device on the host and in netns."""
        if self._blind:
            self._blind -= 1
            raise KernelError("dump links in host", EINTR, "injected")
        host = self.space()
        pod = Namespace([]) if netns not in self._namespaces else self.space(netns)
        links = host.plain()
        located = find_link(
            key, pod_name, links, self._in_pod(pod, key, pod_name, identity), identity
        )
        here, there = located.host, located.pod
        self.whole_pods += there is not None and not link_only
        state = None if there is None else pod.state(pod.at("observe", there.index))
        return Observed(
            host=None if here is None else host.state(host.at("observe", here.index)),
            pod=LinkState(state.link) if state and link_only else state,
            taken_host_names=host.taken(here),
            taken_pod_names=pod.taken(there),
            host_rules=tuple(host.rules),
            pod_rules=() if link_only else tuple(pod.rules),
            lost_with_rdma=links_lost_with(
                here, [e for e in links if e.arphrd == ARPHRD_INFINIBAND]
            ),
            ambiguous=located.ambiguous,
        )

    def _in_pod(
        self, pod: Namespace, key: DeviceKey, name: str, identity: DeviceIdentity | None
    ) -> list[Link]:
        """Return the pod's links as they are seen: nobody has a sysfs of the pod's."""
        links = [replace(link, dev_port=None) for link in pod.plain()]
        if self.reports_parents or not key.parent:
            return links
        own, above = own_names(links, name, identity), (key.bus, key.parent)
        parents = [above if link.name in own else ("", "") for link in links]
        return [replace(e, bus=b, parent=p) for e, (b, p) in zip(links, parents, strict=True)]

    def _do_rdma(self, op: MoveRdma | RenameRdma, netns: NetnsId | None) -> None:
        there = netns is not None and netns in self._namespaces
        namespaces = {Ns.HOST: HOST_NETNS} | ({Ns.POD: netns} if netns and there else {})
        touched = {op.source, op.target} if isinstance(op, MoveRdma) else {op.ns}
        if touched - namespaces.keys():
            raise KernelError(str(op), ESTALE, "the namespace is gone")
        match op:
            case MoveRdma():
                self.rdma.move(op, namespaces)
            case RenameRdma():
                self.rdma.rename(op, namespaces)

    def _add_child(self, op: AddChild, netns: NetnsId | None) -> None:
        parent = self.space().at(str(op), op.parent).link
        if netns is None or netns not in self._namespaces:
            raise KernelError(str(op), ESTALE, "the namespace is gone")
        space = self.space(netns)
        if space.find(op.name) is None:
            kind = op.link.kind.lower()
            self.add_link(op.name, netns, link=replace(CHILD, kind=kind, mtu=parent.mtu))
        entry = space.named(str(op), op.name)
        entry.link = replace(entry.link, alias=op.alias)

    def _add_ipoib(self, op: AddChild, requested: IpoibConfig) -> None:
        host = self.space()
        parent = host.at(str(op), op.parent).link
        if parent.arphrd != ARPHRD_INFINIBAND:  # ipoib_new_child_link
            raise KernelError(str(op), ENODEV, "the parent is no IPoIB link")
        if parent.lower:
            raise KernelError(str(op), EINVAL, "the parent is a child itself")
        if host.find(op.name) is None:
            connected = requested.mode is IpoibMode.CONNECTED
            mode, mtu = IpoibState(connected), MAX_CONNECTED if connected else 2044
            child = Link(0, op.name, kind="ipoib", arphrd=ARPHRD_INFINIBAND, lower=parent.index)
            made = self.add_link(op.name, link=replace(child, mtu=mtu, ipoib=mode))
            # Flags and queue pair are its own, the rest is its parent's (ipoib_ndo_init).
            mac = f"{IPOIB_FLAGS_RC:02x}:00:{made.index >> 8:02x}:{made.index & 255:02x}"
            host.named(str(op), op.name).link = replace(made, mac=f"{mac}:{parent.mac[12:] or GID}")
        entry = host.named(str(op), op.name)
        entry.link = replace(entry.link, alias=op.alias)

    def _remake_ipoib(self, parent: str, source: NetnsId, target: NetnsId) -> None:
        """Destroy the IPoIB links of a function whose RDMA device moved, and make its own anew."""
        for netns in (source, target):
            space = self._namespaces.get(netns)
            gone = [e for e in space.links if e.link.parent == parent] if space else []
            for entry in gone:
                if entry.link.arphrd != ARPHRD_INFINIBAND or space is None:
                    continue
                self._drop_children(entry.link)
                space.drop(entry)
                anew = replace(entry.link, up=False, altnames=(), mtu=2044, master=0)
                anew = replace(anew, ipoib=anew.ipoib and IpoibState(connected=False))
                anew = replace(anew, txqlen=256, alias="", flags=anew.flags and IFF_MULTICAST)
                there = None if target == HOST_NETNS else target
                self.add_link(self._free_ib(there), there, link=anew)

    def _free_ib(self, netns: NetnsId | None) -> str:
        """Return the name that the kernel gives an IPoIB link there (ipoib_intf_alloc)."""
        space = self.space(netns)
        return next(name for name in map("ib{}".format, count()) if space.find(name) is None)

    def _drop_children(self, parent: Link) -> None:
        for space in self._namespaces.values():
            for entry in [e for e in space.links if e.link.lower == parent.index]:
                space.drop(entry)

    def look_for_child(self, alias: str, netns: NetnsId | None) -> Observed:
        """Observe the link of that alias on the host and in netns."""
        host = self.space()
        pod = Namespace([]) if netns not in self._namespaces else self.space(netns)
        here = [e for e in host.links if is_child(e.link, alias)]
        there = [e for e in pod.links if is_child(e.link, alias)]
        return Observed(
            host=host.state(here[0]) if here else None,
            pod=pod.state(there[0]) if there else None,
            taken_pod_names=pod.taken(there[0].link if there else None),
            pod_rules=tuple(pod.rules),
            pod_rate=there[0].rate if there else 0,
        )

    def _destroy_unused(self, netns: NetnsId) -> None:
        """Destroy an unused namespace: hardware returns to the host, down and without settings."""
        if netns not in self._removed or netns in self.held or netns not in self._namespaces:
            return
        self.rdma.destroy_namespace(netns)
        destroyed, host = self._namespaces.pop(netns), self.space()
        hardware = (e for e in destroyed.links if e.link.parent or e.link.kind == "ipoib")
        for entry in list(hardware):
            free = host.find(entry.link.name) is None
            name = entry.link.name if free else f"dev{entry.link.index}"
            operations.carry(entry, destroyed, host, name)
