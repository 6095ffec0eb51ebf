"""Snapshots of a changing node, with a memo and without."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_shim.checkpoint.cache import RecordedDevices
from dra_shim.discovery.snapshot import DeviceSelection, NodeSnapshot, snapshot_of
from dra_shim.pool import NO_DRIVER, VANISHED
from dranet_nri.inventory import (
    HostFacts,
    Memo,
    NetDevice,
    PciFunction,
    RdmaDeviceFacts,
    RdmaPortFacts,
    Uplinks,
    uplinks_of,
)
from dranet_nri.model import Address, DefaultRoute, Device, DeviceKey, Link, PolicyRoute

NODE = "node-1"
PFS = ("0000:8a:00.0", "0000:8b:00.0")
VFS = {"0000:8a:00.1": PFS[0], "0000:8a:00.2": PFS[0], "0000:8b:00.1": PFS[1]}
ADDRESSES = (*PFS, *VFS)
INDEXES = range(2, 12)
SHARED = 'attributes["dra.net/ifName"].StringValue == "eth3"'
SELECTIONS = (
    DeviceSelection(),
    DeviceSelection(filter="", parents=("eth2",), include=("eth*", "gone*"), exclude=("eth9",)),
    DeviceSelection(filter="", shared=SHARED, numa_lists=True, move_ipoib=False),
)


@dataclass(frozen=True)
class Node:
    """The inputs of a snapshot."""

    facts: HostFacts
    recorded: tuple[Device, ...] = ()


Change = Callable[[Node], Node]


def function(address: str, **rest: object) -> PciFunction:
    physical = VFS.get(address, "")
    made = PciFunction(address, "ice", 0, parent=address, physical=physical)
    return replace(made, **rest)  # type: ignore[arg-type]


def nic(index: int) -> NetDevice:
    """Return a link: the first ones are on PCI functions."""
    at = index - INDEXES[0]
    address = ADDRESSES[at] if at < len(ADDRESSES) else ""
    mac = f"02:00:00:00:00:{index:02x}"
    link = Link(index, f"eth{index}", mac=mac, bus="pci" * bool(address), parent=address)
    return NetDevice(link, pci=address, virtual=not address, speed_mbps=100_000)


def start() -> Node:
    netdevs = tuple(map(nic, INDEXES))
    return Node(
        HostFacts(
            tuple(map(function, ADDRESSES)), netdevs, numa_nodes=2, numa_near=((0, 1), (1, 0))
        )
    )


def facts_changed(**fields: object) -> Change:
    return lambda node: replace(node, facts=replace(node.facts, **fields))  # type: ignore[arg-type]


def link_changed(index: int, change: Callable[[NetDevice], NetDevice]) -> Change:
    """Return a change of one link; all others stay the same objects."""

    def apply(node: Node) -> Node:
        netdevs = tuple(
            change(netdev) if netdev.link.index == index else netdev
            for netdev in node.facts.netdevs
        )
        return replace(node, facts=replace(node.facts, netdevs=netdevs))

    return apply


def link_field(**fields: object) -> Callable[[NetDevice], NetDevice]:
    return lambda netdev: replace(netdev, link=replace(netdev.link, **fields))  # type: ignore[arg-type]


def netdev_field(**fields: object) -> Callable[[NetDevice], NetDevice]:
    return lambda netdev: replace(netdev, **fields)  # type: ignore[arg-type]


def removed(index: int) -> Change:
    def apply(node: Node) -> Node:
        left = tuple(netdev for netdev in node.facts.netdevs if netdev.link.index != index)
        return replace(node, facts=replace(node.facts, netdevs=left))

    return apply


def added(index: int) -> Change:
    def apply(node: Node) -> Node:
        others = removed(index)(node).facts.netdevs
        netdevs = sorted((*others, nic(index)), key=lambda netdev: netdev.link.index)
        return replace(node, facts=replace(node.facts, netdevs=tuple(netdevs)))

    return apply


def rdma_of(address: str, state: str, layer: str, named: str) -> RdmaDeviceFacts:
    port = RdmaPortFacts(1, state, link_layer=layer, netdevs=(named,) if named else ())
    parent = ("pci", address, address) if address else ("", "", "")
    return RdmaDeviceFacts(f"rdma-{address[5:7]}", *parent, ports=(port,))


def recorded_device(address: str) -> Device:
    """Return a device that a pod has, as its record describes it."""
    name = "pci-" + address.replace(":", "-").replace(".", "-")
    return Device(name, DeviceKey("pci", address, "gone0", address), (("dra.net/mtu", 9000),))


index = st.sampled_from(INDEXES)
kinds = st.sampled_from(("", "veth", "bond", "bridge", "vlan", "macvlan", "wireguard", "vrf"))
names = st.sampled_from(("eth0", "eth2", "cali1", "ovs-system", "nri1", "bond0"))
cidrs = st.sampled_from(("10.0.0.5/24", "10.0.1.5/24", "fe80::1/64", "2001:db8::5/64"))
link_changes = st.one_of(
    st.builds(link_field, mtu=st.sampled_from((1500, 9000))),
    st.builds(link_field, up=st.booleans(), carrier=st.booleans()),
    st.builds(link_field, kind=kinds),
    st.builds(link_field, name=names),
    st.builds(link_field, master=index),
    st.builds(link_field, master=st.just(0)),
    st.builds(link_field, lower=index, kind=kinds),
    st.builds(link_field, bus=st.sampled_from(("vmbus", "auxiliary")), parent=st.just("x.1")),
    st.builds(link_field, mac=st.just("02:00:00:00:00:02")),
    st.builds(link_field, arphrd=st.sampled_from((1, 32))),
    st.builds(netdev_field, addresses=st.lists(st.builds(Address, cidrs), max_size=2).map(tuple)),
    st.builds(netdev_field, foreign_upper_kinds=st.sampled_from(((), ("macvlan",)))),
    st.builds(netdev_field, underlay_of=st.sampled_from(((), ("IPsec",)))),
    st.builds(netdev_field, also_lower=st.sampled_from(((), (2, 3)))),
    st.builds(netdev_field, port_name=st.sampled_from(("", "p0", "pf0vf1", "1"))),
    st.builds(netdev_field, dev_port=st.sampled_from((0, 1))),
    st.builds(netdev_field, tc_filters=st.sampled_from(((), ("a", "b")))),
    st.builds(netdev_field, pinned=st.booleans()),
    st.builds(netdev_field, unreadable=st.sampled_from(("", "too large"))),
)
functions = st.lists(
    st.builds(
        function, st.sampled_from(ADDRESSES), driver=st.sampled_from(("ice", "", "vfio-pci"))
    ),
    unique_by=lambda made: made.address,
)
rdma = st.lists(
    st.builds(
        rdma_of,
        st.sampled_from((*ADDRESSES, "")),
        st.sampled_from(("ACTIVE", "DOWN")),
        st.sampled_from(("Ethernet", "InfiniBand")),
        st.sampled_from(("", "eth2", "eth3", "eth8")),
    ),
    unique_by=lambda made: made.name,
)
routes = st.lists(st.builds(DefaultRoute, st.just(4), st.just(0), st.tuples(index)), max_size=2)
rules = st.lists(st.builds(PolicyRoute, table=st.just(7), links=st.frozensets(index)), max_size=1)
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(link_changed, index, link_changes),
    st.builds(link_changed, index, link_changes),
    st.builds(removed, index),
    st.builds(added, index),
    st.builds(facts_changed, functions=functions.map(tuple)),
    st.builds(facts_changed, rdma=rdma.map(tuple), all_rdma=st.booleans()),
    st.builds(facts_changed, default_routes=routes.map(tuple)),
    st.builds(facts_changed, policy_routes=rules.map(tuple)),
    st.builds(facts_changed, daemon_routes=st.sampled_from(((), ((3, "bird"),)))),
    st.builds(
        facts_changed, sourced_routes=st.sampled_from(((), (("10.7.0.0/16", "10.0.0.5", (9,)),)))
    ),
    st.builds(
        lambda addresses: (
            lambda node: replace(node, recorded=tuple(map(recorded_device, addresses)))
        ),
        st.lists(st.sampled_from(ADDRESSES), unique=True, max_size=2),
    ),
)


def snapshot(node: Node, choice: DeviceSelection, uplinks: Uplinks, memo: Memo) -> NodeSnapshot:
    recorded = RecordedDevices({device.name: device for device in node.recorded})
    return snapshot_of(NODE, node.facts, recorded, choice, uplinks, memo=memo)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SELECTIONS), st.lists(changes, min_size=1, max_size=8))
def test_snapshot_with_a_memo_equals_the_snapshot_without(
    choice: DeviceSelection, steps: list[Change]
) -> None:
    node, memo = start(), Memo()
    uplinks = uplinks_of(node.facts)
    snapshot(node, choice, uplinks, memo)

    for step in steps:
        node = step(node)
        uplinks = uplinks_of(node.facts, ("10.0.0.5",), uplinks)

        assert snapshot(node, choice, uplinks, memo) == snapshot(node, choice, uplinks, Memo())


def test_devices_with_unchanged_facts_are_the_same_objects() -> None:
    memo, node = Memo(), start()
    first = snapshot(node, SELECTIONS[1], Uplinks(), memo)
    changed = link_changed(3, link_field(mtu=9000))(node)

    second = snapshot(changed, SELECTIONS[1], Uplinks(), memo)

    before = {slice_device.name: slice_device for slice_device in first.resources.devices}
    after = {slice_device.name: slice_device for slice_device in second.resources.devices}
    assert len(after) > len(ADDRESSES)
    assert [name for name, slice_device in after.items() if slice_device is not before[name]] == [
        "pci-0000-8b-00-0"
    ]


def test_device_in_a_pod_is_published_with_its_changed_health() -> None:
    memo, vf = Memo(), ADDRESSES[-1]
    unbound = Node(HostFacts((function(vf, driver=""),)), (recorded_device(vf),))
    vanished = replace(unbound, facts=HostFacts())

    unhealthy = [
        [taint.value for slice_device in view.resources.devices for taint in slice_device.taints]
        for view in (snapshot(node, SELECTIONS[1], Uplinks(), memo) for node in (unbound, vanished))
    ]

    assert unhealthy == [[NO_DRIVER], [VANISHED]]


def test_memo_drops_entries_unused_in_a_pass() -> None:
    memo, value = Memo(), object()
    computed: list[str] = []

    def look_up(name: str) -> None:
        memo.get(name, (value,), lambda: computed.append(name))

    memo.begin()
    look_up("a")
    memo.begin()
    look_up("a")
    memo.begin()
    memo.begin()
    look_up("a")

    assert computed == ["a", "a"]
