"""A kernel in memory, held to the real one by tests/contract/test_kernel.py.

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
from errno import EBUSY, EINTR, ENOENT, ESTALE

from dranet_nri.errors import KernelError
from dranet_nri.kernel.locate import locate
from dranet_nri.model import (
    Address,
    DeviceKey,
    Link,
    LinkState,
    NetnsId,
    Ns,
    Observed,
    Route,
    Rule,
    Sysctl,
)
from dranet_nri.plan.ops import Op
from tests.fakes import operations
from tests.fakes.world import SET_BY_CLAIMS, FakeLink, Namespace

NSFS_DEV = 4
HOST_NETNS = NetnsId("/proc/1/ns/net", NSFS_DEV, 4026531840)


@dataclass(slots=True)
class _Fault:
    """What to raise, and when.

    Attributes:
        kind: the class of op that fails; any op if None.
        nth: how many matching ops still get through before it, plus one.
        times: how often it fails, None for ever.
        done: the op happens before the error is raised, as in a real half-failure.
    """

    kind: type[Op] | None
    nth: int
    times: int | None
    error: BaseException | int
    done: bool

    def hits(self, op: Op) -> bool:
        """Count op and tell whether it is the one that fails."""
        if (self.kind is not None and not isinstance(op, self.kind)) or self.times == 0:
            return False
        self.nth -= 1
        if self.nth > 0:
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def strike(self, op: Op) -> BaseException:
        """Return the error to raise for op."""
        if isinstance(self.error, BaseException):
            return self.error
        return KernelError(str(op), self.error, "injected")


@dataclass(slots=True)
class FakeKernel:
    """Implements the Kernel port in memory.

    Attributes:
        log: ops that were asked for and succeeded, in order.
        held: namespaces held through hold().
        open_sessions: sessions that were opened and not closed.
    """

    log: list[Op] = field(default_factory=list)
    held: set[NetnsId] = field(default_factory=set)
    open_sessions: int = 0
    _namespaces: dict[NetnsId, Namespace] = field(default_factory=dict)
    _removed: set[NetnsId] = field(default_factory=set)
    _faults: list[_Fault] = field(default_factory=list)
    _blind: int = 0

    def __post_init__(self) -> None:
        """Start with the host's namespace and its loopback."""
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

        A link with a parent comes home when its namespace dies, one without vanishes.
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
        entry = FakeLink(made, list(addresses))
        space.links.append(entry)
        if master:
            entry.link = replace(made, master=space.named("arrange", master).link.index)
        for route in routes:
            space.add_route("arrange", name, route)
        return entry.link

    def add_rule(self, rule: Rule, netns: NetnsId | None = None) -> None:
        """Put a policy rule on the host, or into netns."""
        self.space(netns).add_rule("arrange", rule)

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
        """Unlink the namespace's path. It dies at once unless it is held, else on release."""
        self._removed.add(netns)
        self._bury(netns)

    def destroy_netns(self, netns: NetnsId) -> None:
        """Let the namespace die although it may be held, as a reboot or a crash would."""
        self.held.discard(netns)
        self.remove_netns(netns)

    # ------------------------------------------------------------------ injecting failures

    def fail_at(self, nth: int, error: BaseException | int = EBUSY, *, done: bool = False) -> None:
        """Let the nth operation from now on fail once; done: it happens nevertheless."""
        self._faults.append(_Fault(None, nth, 1, error, done))

    def fail_on(
        self,
        kind: type[Op],
        error: BaseException | int = EBUSY,
        *,
        times: int | None = None,
        done: bool = False,
    ) -> None:
        """Let every operation of kind fail, or the first `times` ones from now on."""
        self._faults.append(_Fault(kind, 1, times, error, done))

    def fail_observe(self, times: int = 1) -> None:
        """Let the next observations fail as an interrupted dump does."""
        self._blind = times

    def heal(self) -> None:
        """Forget every injected failure."""
        self._faults.clear()
        self._blind = 0

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
        self._bury(netns)

    def session(self, netns: NetnsId | None) -> "FakeSession":
        """Open a session."""
        if netns is not None and netns not in self.held:
            raise KernelError(f"enter {netns.path}", ESTALE, "the namespace is not held")
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
        operations.apply(op, spaces)
        if fault is not None:
            raise fault.strike(op)
        self.log.append(op)

    def look(self, key: DeviceKey, pod_name: str, netns: NetnsId | None) -> Observed:
        """Observe the device on the host and in netns."""
        if self._blind:
            self._blind -= 1
            raise KernelError("dump links in host", EINTR, "injected")
        host = self.space()
        pod = Namespace([]) if netns not in self._namespaces else self.space(netns)
        here, there = locate(key, pod_name, host.plain(), pod.plain())
        return Observed(
            host=None if here is None else host.state(host.at("observe", here.index)),
            pod=None if there is None else pod.state(pod.at("observe", there.index)),
            taken_host_names=host.taken(here),
            taken_pod_names=pod.taken(there),
            host_rules=tuple(host.rules),
            pod_rules=tuple(pod.rules),
        )

    def _bury(self, netns: NetnsId) -> None:
        """Let a namespace die that nobody names or holds: hardware comes home, bare and down."""
        if netns not in self._removed or netns in self.held or netns not in self._namespaces:
            return
        dead, host = self._namespaces.pop(netns), self.space()
        for entry in [entry for entry in dead.links if entry.link.parent]:
            free = host.find(entry.link.name) is None
            name = entry.link.name if free else f"dev{entry.link.index}"
            operations.carry(entry, dead, host, name)


@dataclass(slots=True)
class FakeSession:
    """Implements the Session port on a FakeKernel."""

    kernel: FakeKernel
    netns: NetnsId | None
    closed: bool = False

    def apply(self, op: Op) -> None:
        """Do op."""
        self._open(str(op))
        self.kernel.do(op, self.netns)

    def observe(self, key: DeviceKey, pod_name: str) -> Observed:
        """Look for the device."""
        self._open("observe")
        return self.kernel.look(key, pod_name, self.netns)

    def sysctls(self, name: str) -> tuple[Sysctl, ...]:
        """Return what differs from the defaults."""
        self._open("read sysctls")
        entry = self.kernel.space().find(name)
        if entry is None:
            raise KernelError(f"read sysctls of {name} in host", ENOENT)
        return entry.seen_sysctls(frozenset())

    def close(self) -> None:
        """Close once."""
        if not self.closed:
            self.kernel.open_sessions -= 1
        self.closed = True

    def _open(self, what: str) -> None:
        if self.closed:
            raise AssertionError(f"{what}: the session is closed")
