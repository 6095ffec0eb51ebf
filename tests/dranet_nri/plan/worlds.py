"""Hosts, claims and pods of any shape, on a kernel in memory."""

from contextlib import closing
from dataclasses import dataclass, field, replace

from hypothesis import reject
from hypothesis import strategies as st

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    Address,
    DeviceKey,
    InterfaceConfig,
    Link,
    LinkState,
    Neighbour,
    NeighbourConfig,
    NetnsId,
    NetworkConfig,
    NextHop,
    Ns,
    Observed,
    OffloadSizes,
    Route,
    RouteConfig,
    Rule,
    RuleConfig,
    Sysctl,
    XdpMode,
    XdpProgram,
)
from dranet_nri.plan.identity import DeviceIdentity
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    LinkSettings,
    Op,
    Plan,
    RenameLink,
    SetDown,
    SetLink,
)
from dranet_nri.plan.planner import AttachTarget, DesiredState, is_restored, make_plan
from dranet_nri.plan.pod_network import pod_network
from dranet_nri.plan.restore import RestoreTarget
from tests.fakes.kernel import FakeKernel

IFF_PROMISC, IFF_MULTICAST = 0x100, 0x1000  # linux/if.h
KEY = DeviceKey("pci", "0000:8a:00.0", "eth1", "0000:8a:00.0")
V4, V6 = Address("10.1.0.5/24"), Address("2001:db8::5/64")

# --------------------------------------------------------------------------- worlds

ADDRESSES = (
    V4,
    Address("10.1.0.6/24"),
    Address("10.2.0.5/32", metric=50),
    V6,
    Address("2001:db8:1::5/64", flags=0x200),
    Address("10.3.0.5/24", valid_s=1000, preferred_s=500),
    Address("fe80::7/64", scope=253),
)
ROUTES = (
    Route("172.16.0.1/32", scope=253),
    Route("172.17.0.0/16", gateway="172.16.0.1", onlink=True),
    Route("172.18.0.0/16", gateway="10.1.0.1", metric=77, mtu=1400),
    Route("172.18.0.0/16", gateway="10.1.0.1", metric=77, tos=16, metrics="08000b0014000000"),
    Route("172.22.0.0/16", scope=253, encap="06001500"),
    Route("0.0.0.0/0", gateway="10.1.0.1", table=100),
    Route("0.0.0.0/0", gateway="10.1.0.1", protocol=16),
    Route("172.19.0.0/16", source="10.1.0.5", scope=253, table=100),
    Route("172.20.0.0/16", nexthops=(NextHop("10.1.0.1"), NextHop("10.1.0.2", weight=3))),
    Route("172.21.0.0/16", nexthops=(NextHop("10.1.0.1"), NextHop("10.9.0.1", device="eth2"))),
    Route("2001:db8:9::/48", gateway="fe80::1", expires_s=600, protocol=9),
    Route("2001:db8:a::/48", nexthops=(NextHop("fe80::1"), NextHop("fe80::2", device="eth2"))),
    Route("::/0", gateway="fe80::1", metric=20, table=100),
)
NEEDS_V4 = ("10.1.0.1", "10.1.0.5")
RULES = (
    Rule(4, 1000, source="10.1.0.5/32", table=100),
    Rule(4, 1001, iif="eth1", table=100),
    Rule(6, 1002, oif="eth1", table=100),
    Rule(4, 1003, iif="eth0", table=100),
    Rule(4, 0, source="10.1.0.5/32", table=100),
)
NEIGHBOURS = (
    Neighbour("10.1.0.1", "02:00:00:00:00:fe"),
    Neighbour("2001:db8::1", "02:00:00:00:00:fd", flags=0x80, protocol=17),
)
SYSCTLS = (Sysctl("ipv4", "rp_filter", "2"), Sysctl("ipv6", "accept_ra", "0"))


def some(values: tuple[object, ...]) -> st.SearchStrategy[tuple]:  # type: ignore[type-arg]
    """Return a strategy of some of the values, each once, in any order."""
    return st.lists(st.sampled_from(values), unique=True).map(tuple)


LINKS = st.builds(
    Link,
    index=st.just(0),
    name=st.just("eth1"),
    mac=st.sampled_from(("02:00:00:00:00:07", "02:00:00:00:00:08")),
    mtu=st.sampled_from((1500, 9000)),
    min_mtu=st.just(68),
    max_mtu=st.just(9000),
    up=st.booleans(),
    alias=st.sampled_from(("", "uplink")),
    altnames=some(("enp138s0", "net1", "alt")),
    txqlen=st.sampled_from((0, 1000)),
    sizes=st.just(OffloadSizes(65536, 65536, 65536, 65536)),
    flags=st.sampled_from((IFF_MULTICAST, IFF_MULTICAST | IFF_PROMISC)),
    group=st.sampled_from((0, 7)),
    xdp=some((XdpProgram(XdpMode.NATIVE, 3), XdpProgram(XdpMode.OFFLOADED, 4))),
)
HOSTS = st.builds(
    LinkState,
    link=LINKS,
    master_name=st.sampled_from(("", "br0")),
    addresses=some(ADDRESSES),
    routes=some(ROUTES),
    rules=some(RULES),
    neighbours=some(NEIGHBOURS),
    sysctls=some(SYSCTLS),
)
CONFIGS = st.builds(
    NetworkConfig,
    interface=st.builds(
        InterfaceConfig,
        name=st.sampled_from((None, "net1", "eth1", "enp138s0")),
        addresses=st.sampled_from((None, ("192.168.1.5/24", "2001:db8:5::5/64"), ("10.1.0.5/16",))),
        mtu=st.sampled_from((None, 1500, 8896)),
        hardware_addr=st.sampled_from((None, "02:00:00:00:00:99")),
        gso_max_size=st.sampled_from((None, 1000)),
        arp_ignore=st.sampled_from((None, 0, 1)),
        forwarding=st.sampled_from((None, True, False)),
    ),
    routes=some((RouteConfig("172.30.0.9/16", scope=253), RouteConfig("::/0", "fe80::9", table=7))),
    rules=some((RuleConfig(table=7), RuleConfig(5, source="10.1.0.5/32", table=7))),
    neighbors=some((NeighbourConfig("10.1.0.1", "02:00:00:00:00:aa"),)),
)


@dataclass
class World:
    """A host with the device, a bridge and another NIC; a pod with its cluster interface."""

    host: LinkState
    config: NetworkConfig
    kernel: FakeKernel = field(default_factory=FakeKernel, repr=False)
    pod_name: str = ""
    identity: DeviceIdentity | None = None

    def __post_init__(self) -> None:
        """Build it."""
        kernel, host = self.kernel, self.host
        kernel.add_link("br0", kind="bridge")
        kernel.add_link("eth2", parent="0000:8b:00.0", addresses=(Address("10.9.0.5/24"),))
        addresses = _without_duplicates(host.addresses)
        routes = host.routes if host.link.up else ()
        if V4 not in addresses:
            routes = tuple(route for route in routes if not _needs_v4(route))
        kernel.add_link(
            "eth1",
            parent=KEY.parent,
            link=host.link,
            master=host.master_name,
            addresses=addresses,
            routes=routes,
        )
        entry = kernel.space().named("build", "eth1")
        entry.neighbours = list(host.neighbours)
        entry.sysctls = {(sysctl.family, sysctl.key): sysctl.value for sysctl in host.sysctls}
        for rule in host.rules:
            kernel.add_rule(rule)
        self.netns = kernel.add_netns("/run/netns/pod")
        kernel.add_link("eth0", self.netns, kind="veth")
        kernel.add_link("alt", self.netns, kind="dummy")
        kernel.hold(self.netns)
        self.start = self.look()
        assert self.start.host is not None
        lost = tuple(sysctl for sysctl in self.start.host.sysctls if sysctl in host.sysctls)
        self.snapshot = replace(self.start.host, sysctls=lost)
        self.in_pod = AttachTarget(pod_network(self.config, self.snapshot), self.snapshot)
        self.restore_target = RestoreTarget(self.snapshot)
        network = self.in_pod.network
        assert network is not None
        self.pod_name = network.name
        link = self.snapshot.link
        macs = frozenset({link.mac, network.settings.mac or link.mac})
        self.identity = DeviceIdentity(link.index, link.kind, macs, child=False)

    def look(self, netns: NetnsId | None = None) -> Observed:
        """Observe as the executor does."""
        with closing(self.session(netns)) as session:
            return session.observe(KEY, self.pod_name, self.identity)

    def session(self, netns: NetnsId | None = None) -> Session:
        """Open a session with the pod while it is there."""
        return self.kernel.session(netns or (self.netns if self.kernel.alive(self.netns) else None))

    def apply(self, ops: tuple[Op, ...]) -> None:
        """Apply the operations."""
        with closing(self.session()) as session:
            for op in ops:
                session.apply(op)

    def plan(self, desired: DesiredState) -> Plan:
        """Plan from what is there."""
        return make_plan(desired, self.look())

    def attach_plan(self) -> Plan:
        """Plan into the pod, where that can be had at all."""
        try:
            return self.plan(self.in_pod)
        except RefusedError:
            reject()

    def assert_restored(self) -> None:
        """Check that the host is as it was."""
        now = self.look()
        assert now.host is not None
        assert now.pod is None
        assert self.start.host is not None
        assert comparable(now.host) == comparable(self.start.host)
        assert is_restored(self.restore_target, now)
        assert now.host_rules == self.start.host_rules


def comparable(state: LinkState) -> LinkState:
    """Return the state without what a move may change: the index, and the order of things."""
    return replace(
        state,
        link=replace(state.link, index=0, altnames=tuple(sorted(state.link.altnames))),
        addresses=tuple(sorted(state.addresses, key=repr)),
        routes=tuple(sorted(map(_with_sorted_legs, state.routes), key=repr)),
        neighbours=tuple(sorted(state.neighbours, key=repr)),
    )


def _with_sorted_legs(route: Route) -> Route:
    return replace(route, nexthops=tuple(sorted(route.nexthops, key=repr)))


def _without_duplicates(addresses: tuple[Address, ...]) -> tuple[Address, ...]:
    return tuple(dict.fromkeys(addresses))


def _needs_v4(route: Route) -> bool:
    gateways = [route.gateway, *(hop.gateway for hop in route.nexthops)]
    return route.source == "10.1.0.5" or any(gateway.startswith("10.1.") for gateway in gateways)


WORLDS = st.builds(World, HOSTS, CONFIGS)

# --------------------------------------------------------------------------- what pods do

POD_DEEDS = some(
    (
        "rename",
        "mtu",
        "mac",
        "altname of the host",
        "altname of its own name",
        "an altname",
        "flags and group",
        "program",
        "address",
        "down",
    )
)


def apply_changes(world: World, changes: tuple[str, ...]) -> None:
    """Change the device inside the pod, as a privileged container could."""
    now = world.look().pod
    assert now is not None
    name, index = now.link.name, now.link.index
    for change in changes:
        match change:
            case "rename":
                world.apply((SetDown(Ns.POD, index), RenameLink(Ns.POD, index, "mine")))
                name = "mine"
            case "mtu":
                world.apply((SetLink(Ns.POD, name, LinkSettings(mtu=1400)),))
            case "mac":
                world.apply((SetLink(Ns.POD, name, LinkSettings(mac="02:00:00:00:00:66")),))
            case "altname of the host":
                world.apply((AddAltname(Ns.POD, name, "eth2"),))
            case "altname of its own name" if name != "eth1":
                world.apply((AddAltname(Ns.POD, name, "eth1"),))
            case "an altname":
                world.apply((AddAltname(Ns.POD, name, "tenant"),))
            case "flags and group":
                world.apply((SetLink(Ns.POD, name, LinkSettings(flags=IFF_PROMISC, group=9)),))
            case "program":
                entry = world.kernel.space(world.netns).named("attach", name)
                strange = XdpProgram(XdpMode.GENERIC, 99)
                entry.link = replace(entry.link, xdp=(*(entry.link.xdp or ()), strange))
            case "address":
                world.apply((AddAddress(Ns.POD, name, Address("10.66.0.1/24")),))
            case "down":
                world.apply((SetDown(Ns.POD, index),))
