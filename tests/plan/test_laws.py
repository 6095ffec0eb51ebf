"""Laws of the planner, on a kernel in memory: whatever the host, the claim and the pod did."""

from contextlib import closing
from dataclasses import dataclass, field, replace

from hypothesis import assume, given, reject, settings
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
)
from dranet_nri.plan.network import pod_network
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    LinkSettings,
    Op,
    Plan,
    RenameLink,
    SetDown,
    SetLink,
    SetUp,
)
from dranet_nri.plan.planner import AtHome, InPod, Wanted, is_home, plan
from dranet_nri.plan.port import Session
from tests.fakes.kernel import FakeKernel

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
)
NEIGHBOURS = (
    Neighbour("10.1.0.1", "02:00:00:00:00:fe"),
    Neighbour("2001:db8::1", "02:00:00:00:00:fd"),
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

    def __post_init__(self) -> None:
        """Build it."""
        kernel, host = self.kernel, self.host
        kernel.add_link("br0", kind="bridge")
        kernel.add_link("eth2", parent="0000:8b:00.0", addresses=(Address("10.9.0.5/24"),))
        addresses = _once_each(host.addresses)
        routes = host.routes if host.link.up else ()
        if V4 not in addresses:
            routes = tuple(each for each in routes if not _needs_v4(each))
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
        entry.sysctls = {(each.family, each.key): each.value for each in host.sysctls}
        for rule in host.rules:
            kernel.add_rule(rule)
        self.netns = kernel.add_netns("/run/netns/pod")
        kernel.add_link("eth0", self.netns, kind="veth")
        kernel.add_link("alt", self.netns, kind="dummy")
        kernel.hold(self.netns)
        self.start = self.look()
        assert self.start.host is not None
        self.snapshot = self.start.host
        self.in_pod = InPod(pod_network(self.config, self.snapshot), self.snapshot)
        self.at_home = AtHome(self.snapshot)

    def look(self, netns: NetnsId | None = None) -> Observed:
        """Observe as the executor does: with the sysctls of the host's link."""
        with closing(self.session(netns)) as session:
            observed = session.observe(KEY, "")
            if observed.host is None:
                return observed
            sysctls = session.sysctls(observed.host.link.name)
            return replace(observed, host=replace(observed.host, sysctls=sysctls))

    def session(self, netns: NetnsId | None = None) -> Session:
        """Open a session with the pod while it is there."""
        return self.kernel.session(netns or (self.netns if self.kernel.alive(self.netns) else None))

    def apply(self, ops: tuple[Op, ...]) -> None:
        """Do all of it."""
        with closing(self.session()) as session:
            for op in ops:
                session.apply(op)

    def plan(self, wanted: Wanted) -> Plan:
        """Plan from what is there."""
        return plan(wanted, self.look())

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
        assert comparable(now.host) == comparable(self.snapshot)
        assert is_home(self.at_home, now)
        assert now.host_rules == self.start.host_rules


def comparable(state: LinkState) -> LinkState:
    """Return the state without what a move may change: the index, and the order of things."""
    return replace(
        state,
        link=replace(state.link, index=0, altnames=tuple(sorted(state.link.altnames))),
        addresses=tuple(sorted(state.addresses, key=repr)),
        routes=tuple(sorted(state.routes, key=repr)),
        neighbours=tuple(sorted(state.neighbours, key=repr)),
    )


def _once_each(addresses: tuple[Address, ...]) -> tuple[Address, ...]:
    return tuple(dict.fromkeys(addresses))


def _needs_v4(route: Route) -> bool:
    gateways = [route.gateway, *(hop.gateway for hop in route.nexthops)]
    return route.source == "10.1.0.5" or any(each.startswith("10.1.") for each in gateways)


WORLDS = st.builds(World, HOSTS, CONFIGS)

# --------------------------------------------------------------------------- what pods do

POD_DEEDS = some(
    (
        "rename",
        "mtu",
        "mac",
        "altname of the host",
        "altname of its own name",
        "address",
        "down",
    )
)


def misbehave(world: World, deeds: tuple[str, ...]) -> None:
    """Change the device inside the pod, as a privileged container could."""
    now = world.look().pod
    assert now is not None
    name, index = now.link.name, now.link.index
    for deed in deeds:
        match deed:
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
            case "address":
                world.apply((AddAddress(Ns.POD, name, Address("10.66.0.1/24")),))
            case "down":
                world.apply((SetDown(Ns.POD, index),))


# --------------------------------------------------------------------------- laws

CUTS = st.integers(0, 40)  # after how many operations a plan stops; longer ones count anew
law = settings(deadline=None)  # how long one takes is no law


def cut_short(ops: Plan, after: int) -> Plan:
    """Return a prefix of the plan: empty, whole, or anything between."""
    return ops[: after % (len(ops) + 1)]


@law
@given(WORLDS)
def test_plan_of_an_untouched_host_is_empty(world: World) -> None:
    assert world.plan(world.at_home) == ()
    assert is_home(world.at_home, world.look())


@law
@given(WORLDS)
def test_an_applied_plan_leaves_nothing_to_plan(world: World) -> None:
    world.apply(world.attach_plan())

    assert world.plan(world.in_pod) == ()

    world.apply(world.plan(world.at_home))

    assert world.plan(world.at_home) == ()


@law
@given(WORLDS, CUTS)
def test_from_any_prefix_of_an_attach_the_host_is_restored_exactly(world: World, cut: int) -> None:
    world.apply(cut_short(world.attach_plan(), cut))

    world.apply(world.plan(world.at_home))

    world.assert_restored()


@law
@given(WORLDS, CUTS)
def test_from_any_prefix_of_an_attach_the_attach_completes(world: World, cut: int) -> None:
    whole = World(world.host, world.config)
    whole.apply(whole.attach_plan())
    world.apply(cut_short(world.attach_plan(), cut))

    world.apply(world.plan(world.in_pod))

    assert world.plan(world.in_pod) == ()
    assert in_pod_state(world) == in_pod_state(whole)


@law
@given(WORLDS, CUTS)
def test_from_any_prefix_of_a_detach_the_host_is_restored_exactly(world: World, cut: int) -> None:
    world.apply(world.attach_plan())
    world.apply(cut_short(world.plan(world.at_home), cut))

    world.apply(world.plan(world.at_home))

    world.assert_restored()


@law
@given(WORLDS, CUTS)
def test_from_any_prefix_of_a_detach_the_device_can_go_back(world: World, cut: int) -> None:
    world.apply(world.attach_plan())
    world.apply(cut_short(world.plan(world.at_home), cut))

    world.apply(world.plan(world.in_pod))

    assert world.plan(world.in_pod) == ()


@law
@given(WORLDS, CUTS)
def test_from_any_prefix_of_an_attach_the_death_of_the_pod_brings_the_device_home(
    world: World, cut: int
) -> None:
    world.apply(cut_short(world.attach_plan(), cut))
    world.kernel.destroy_netns(world.netns)

    world.apply(world.plan(world.at_home))

    world.assert_restored()


@law
@given(WORLDS, POD_DEEDS, st.booleans())
def test_whatever_the_pod_did_to_the_device_it_comes_home_as_it_was(
    world: World,
    deeds: tuple[str, ...],
    dies: bool,  # noqa: FBT001 (Hypothesis passes it)
) -> None:
    world.apply(world.attach_plan())
    misbehave(world, deeds)
    if dies:
        world.kernel.destroy_netns(world.netns)

    world.apply(world.plan(world.at_home))

    world.assert_restored()


@law
@given(WORLDS, POD_DEEDS)
def test_whatever_the_pod_did_to_the_device_a_repair_configures_it(
    world: World, deeds: tuple[str, ...]
) -> None:
    assume("altname of its own name" not in deeds or world.config.interface.name != "eth1")
    world.apply(world.attach_plan())
    misbehave(world, deeds)

    world.apply(world.plan(world.in_pod))

    assert world.plan(world.in_pod) == ()


@law
@given(WORLDS)
def test_a_name_taken_on_the_host_is_taken_back_when_it_is_free_and_nothing_is_lost(
    world: World,
) -> None:
    world.apply(world.attach_plan())
    world.kernel.add_link("eth1", kind="dummy")
    world.apply(world.plan(world.at_home))
    assert is_home(world.at_home, world.look())
    world.kernel.remove_link("eth1")

    world.apply(world.plan(world.at_home))

    world.assert_restored()


def in_pod_state(world: World) -> LinkState:
    """Return the device's state in the pod."""
    state = world.look().pod
    assert state is not None
    return comparable(state)


def test_worlds_hold_what_the_laws_are_about() -> None:
    host = LinkState(
        Link(0, "eth1", mac="02:00:00:00:00:07", up=True, altnames=("enp138s0", "alt")),
        master_name="br0",
        addresses=ADDRESSES,
        routes=ROUTES,
        rules=RULES,
        neighbours=NEIGHBOURS,
        sysctls=SYSCTLS,
    )

    world = World(host, NetworkConfig())

    assert len(world.snapshot.routes) == len(ROUTES)
    assert world.snapshot.addresses == ADDRESSES
    assert world.snapshot.master_name == "br0"
    assert SetUp(Ns.POD, "eth1") in world.attach_plan()
