"""Facts of links, addresses and routes, as a real kernel reports them."""

import select
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
from pyroute2 import IPRoute

from dranet_nri.errors import KernelError
from dranet_nri.facts import links
from dranet_nri.facts.scan import read_host
from dranet_nri.facts.uevents import OVERFLOW, DeviceEvent, DeviceEvents
from dranet_nri.inventory import Inventory, inventory_from_facts
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.netlink.addresses import addresses
from dranet_nri.linux.netlink.links import RTM_GETLINK
from dranet_nri.linux.netlink.routes import main_routes
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket, open_here
from dranet_nri.model import Address, DefaultRoute
from tests.capability import lacking
from tests.system.kernel import bpf
from tests.system.kernel.namespaces import add_veth, open_netns

T = TypeVar("T")


class Namespace:
    """A network namespace and what is done inside it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def do(self, work: Callable[[], T]) -> T:
        return run_inside(self.fd, work)

    def run(self, *commands: str) -> None:
        def body() -> None:
            for command in commands:
                subprocess.run(command.split(), check=True, capture_output=True)

        self.do(body)

    def read(self, dump: Callable[[RtnetlinkSocket], T]) -> T:
        def body() -> T:
            with closing(open_here()) as netlink:
                return dump(netlink)

        return self.do(body)

    def scan(self) -> Inventory:
        return inventory_from_facts(self.do(read_host))

    def index(self, name: str) -> int:
        return next(s.link.index for s in self.read(links.links) if s.link.name == name)


@pytest.fixture
def netns() -> Iterator[Namespace]:
    if not shutil.which("ip"):
        lacking("the ip command", "install iproute2")
    with open_netns() as fd:
        yield Namespace(fd)


def published(inventory: Inventory) -> set[str]:
    """Names of the devices with a net device in the namespace; the machine's NICs have none."""
    return {device.name for device in inventory.devices if device.key.name}


def test_link_facts_are_those_of_the_kernel(netns: Namespace) -> None:
    netns.run(
        "ip link add left type veth peer right",
        "ip link set left address 02:00:00:00:00:07 mtu 1400 alias the-left-one up",
        "ip link set right up",
        "ip link property add dev left altname a-much-longer-name altname another",
    )

    by_name = {observed.link.name: observed for observed in netns.read(links.links)}

    left = by_name["left"].link
    assert (left.mac, left.mtu, left.kind) == ("02:00:00:00:00:07", 1400, "veth")
    assert (left.alias, left.altnames) == ("the-left-one", ("a-much-longer-name", "another"))
    assert (left.up, left.carrier, left.operstate) == (True, True, "up")
    assert left.lower == by_name["right"].link.index
    assert (left.arphrd, left.loopback, left.bus, left.parent) == (1, False, "", "")
    assert (left.min_mtu, left.max_mtu) == (68, 65535)
    assert left.sizes.gso == 65536
    assert by_name["lo"].link.loopback
    assert by_name["lo"].link.arphrd == 772


@pytest.mark.parametrize("source", ["10.5.0.7", "fd00::7"])
def test_nic_with_the_source_address_of_a_tunnel_is_excluded(netns: Namespace, source: str) -> None:
    with open_netns() as wire:
        add_veth(netns.fd, "nic1", wire)
        netns.run(
            f"ip addr add {source}/24 dev nic1",
            "ip link add vx0 type vxlan id 6 dstport 4788",
            f"ip link add vx1 type vxlan id 7 dstport 4789 local {source}",
        )

        ends = {observed.link.name: observed.tunnel_ends for observed in netns.read(links.links)}
        excluded = dict(netns.scan().excluded)

    nothing = ("", 0)  # the scanner reads such a link again after its own events only
    assert ends == {"lo": nothing, "nic1": nothing, "vx0": nothing, "vx1": (source, 0)}
    assert excluded["nic1"].startswith(f"the tunnel vx1 sends from its address {source}; ")
    assert "vx0" not in excluded


@pytest.mark.parametrize(
    ("remote", "local", "over"),
    [
        pytest.param("10.5.0.9", "", "nic1", id="on the link"),
        pytest.param("10.9.0.9", "", "nic1", id="behind a gateway"),
        pytest.param("10.9.0.9", "10.7.0.1", "nic2", id="by a rule for its source"),
        pytest.param("10.9.0.9", "10.8.0.1", "", id="from no address of the host"),
        pytest.param("fd00::9", "", "nic1", id="IPv6"),
        pytest.param("10.66.0.9", "", "", id="without a route"),
        pytest.param("10.67.0.9", "", "", id="by a route that refuses"),
        pytest.param("10.5.0.9", "dev nic2", "", id="by its lower link"),
    ],
)
def test_nic_towards_the_remote_end_of_a_tunnel_is_excluded(
    netns: Namespace, remote: str, local: str, over: str
) -> None:
    more = f"local {local}" if local[:1].isdigit() else local
    with open_netns() as wire:
        add_veth(netns.fd, "nic1", wire)
        add_veth(netns.fd, "nic2", wire)
        netns.run(
            "ip addr add 10.7.0.1/32 dev lo",
            "ip addr add 10.5.0.7/24 dev nic1",
            "ip addr add fd00::7/64 dev nic1 nodad",
            "ip addr add 10.6.0.7/24 dev nic2",
            *(f"ip link set {name} up" for name in ("lo", "nic1", "nic2")),
            "ip route add 10.9.0.0/16 via 10.5.0.1",
            "ip route add unreachable 10.67.0.0/16",
            "ip route add 10.9.0.0/16 via 10.6.0.1 table 7",
            "ip rule add from 10.7.0.1 table 7",
            f"ip link add vx1 type vxlan id 7 dstport 4789 remote {remote} {more}",
        )

        excluded = dict(netns.scan().excluded)

    through = {name for name, reason in excluded.items() if "vx1 sends through it" in reason}
    assert through == {over} - {""}


@pytest.mark.parametrize(
    ("link", "entries", "names"),
    [
        pytest.param("", ["dst 10.9.0.9", "dst 10.9.0.10"], {"nic1"}, id="by its route"),
        pytest.param("", ["dst 10.9.0.9", "dst 10.6.0.9"], {"nic1", "nic2"}, id="two links"),
        pytest.param("local 10.7.0.1", ["dst 10.9.0.9"], {"nic2"}, id="by a rule for its source"),
        pytest.param("remote fd66::9", ["dst fd00::9"], {"nic1"}, id="IPv6"),
        pytest.param("", ["dst 10.66.0.9"], set(), id="without a route"),
        pytest.param("dev nic1", ["dst 10.6.0.9"], set(), id="by its lower link"),
        pytest.param("", ["dst 10.9.0.9 via nic2"], {"nic2"}, id="by a link of the entry"),
        pytest.param("external", ["dst 10.6.0.9 src_vni 9 vni 8"], {"nic2"}, id="for each VNI"),
        pytest.param("", [], set(), id="empty"),
    ],
)
def test_nic_towards_a_remote_end_of_a_forwarding_database_is_excluded(
    netns: Namespace, link: str, entries: list[str], names: set[str]
) -> None:
    named = link if link == "external" else f"id 7 {link}"
    with open_netns() as wire:
        add_veth(netns.fd, "nic1", wire)
        add_veth(netns.fd, "nic2", wire)
        netns.run(
            "ip addr add 10.7.0.1/32 dev lo",
            "ip addr add 10.5.0.7/24 dev nic1",
            "ip addr add fd00::7/64 dev nic1 nodad",
            "ip addr add 10.6.0.7/24 dev nic2",
            *(f"ip link set {name} up" for name in ("lo", "nic1", "nic2")),
            "ip route add 10.9.0.0/16 via 10.5.0.1",
            "ip route add 10.9.0.0/16 via 10.6.0.1 table 7",
            "ip rule add from 10.7.0.1 table 7",
            f"ip link add vx1 type vxlan {named} dstport 4789",
            *(f"bridge fdb append 00:00:00:00:00:00 dev vx1 {entry}" for entry in entries),
        )

        excluded = dict(netns.scan().excluded)

    assert {name for name, reason in excluded.items() if "VXLAN" in reason} == names


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        pytest.param(
            "out src 10.5.0.0/24 dst 10.66.0.0/16 tmpl src 10.5.0.7 dst 10.5.0.9 mode tunnel",
            {"nic1"},
            id="tunnel",
        ),
        pytest.param(
            "out src ::/0 dst fd66::/16 tmpl src fd00::7 dst fd00::9 mode tunnel",
            {"nic1"},
            id="IPv6",
        ),
        pytest.param(
            "out src 10.5.0.0/24 dst 10.66.0.0/16 tmpl dst 10.6.0.9 mode tunnel",
            {"nic2"},
            id="from any address",
        ),
        pytest.param(
            "out src 10.5.0.0/24 dst 10.66.0.0/16 tmpl src 10.5.0.7 dst 10.6.0.9 mode tunnel",
            {"nic1", "nic2"},
            id="from the address of another link",
        ),
        pytest.param(
            "out src 10.5.0.7/32 dst 10.5.0.9/32 tmpl mode transport", {"nic1"}, id="transport"
        ),
        pytest.param(
            "out src 10.5.0.0/24 dst 10.5.0.0/24 tmpl mode transport", set(), id="of a network"
        ),
        pytest.param(
            "in src 10.66.0.0/16 dst 10.5.0.0/24 tmpl src 10.5.0.9 dst 10.5.0.7 mode tunnel",
            set(),
            id="incoming",
        ),
        pytest.param("out src 10.5.0.0/24 dst 10.5.0.0/24 action allow", set(), id="unencrypted"),
    ],
)
def test_nic_through_which_ipsec_sends_is_excluded(
    netns: Namespace, policy: str, names: set[str]
) -> None:
    with open_netns() as wire:
        add_veth(netns.fd, "nic1", wire)
        add_veth(netns.fd, "nic2", wire)
        netns.run(
            "ip addr add 10.5.0.7/24 dev nic1",
            "ip addr add fd00::7/64 dev nic1 nodad",
            "ip addr add 10.6.0.7/24 dev nic2",
            *(f"ip link set {name} up" for name in ("nic1", "nic2")),
            f"ip xfrm policy add dir {policy.replace(' mode', ' proto esp mode')}",
        )

        excluded = dict(netns.scan().excluded)

    assert {name for name, reason in excluded.items() if "IPsec" in reason} == names


def test_links_are_sorted_by_index(netns: Namespace) -> None:
    netns.run(*(f"ip link add v{n} type veth peer w{n}" for n in range(40)))

    indexes = [observed.link.index for observed in netns.read(links.links)]

    assert len(indexes) == 81
    assert indexes == sorted(indexes)


def test_peer_in_another_namespace_is_no_lower_link(netns: Namespace) -> None:
    with open_netns() as other:
        netns.run("ip link add left type veth peer right")
        netns.do(lambda: _move("right", other))

        (left,) = (
            observed.link for observed in netns.read(links.links) if observed.link.name == "left"
        )

        assert left.lower == 0


def test_bridge_is_reported_as_bound_to_its_namespace(netns: Namespace) -> None:
    netns.run("ip link add br0 type bridge")

    inventory = netns.scan()

    reason = "the kernel does not let it leave its network namespace"
    assert ("br0", reason) in inventory.excluded


def test_addresses_of_both_families_are_read_with_scope_and_local_side(
    netns: Namespace,
) -> None:
    netns.run(
        "ip link add left type veth peer right",
        "ip addr add 192.0.2.5/24 dev left",
        "ip addr add 10.0.0.1 peer 10.0.0.2/32 dev left",
        "ip addr add 192.0.3.5/24 scope link dev left",
        "ip addr add 2001:db8::5/64 dev left nodad",
    )

    found = netns.read(addresses)[netns.index("left")]

    assert set(found) == {
        Address("192.0.2.5/24"),
        Address("10.0.0.1/32"),
        Address("192.0.3.5/24", scope=253),
        Address("2001:db8::5/64"),
    }


def test_namespace_without_routes_has_no_default_routes(netns: Namespace) -> None:
    assert netns.read(main_routes) == ((), (), ())


def test_default_routes_are_read_with_metric_and_every_nexthop(netns: Namespace) -> None:
    netns.run(
        "ip link add va type veth peer vb",
        "ip link set va up",
        "ip link set vb up",
        "ip addr add 192.0.2.1/24 dev va",
        "ip addr add 198.51.100.1/24 dev vb",
        "ip route add default metric 9 nexthop via 192.0.2.9 nexthop via 198.51.100.9",
        "ip route add default via 192.0.2.9 dev va metric 100",
        "ip route add default dev vb table 77",
        "ip route add 0.0.0.0/1 dev vb",
        "ip route add 16.0.0.0/4 dev vb",
        "ip -6 route add 2000::/3 dev vb",
        "ip route add unreachable default metric 5",
        "ip -6 route add default dev vb metric 7",
    )
    a, b = netns.index("va"), netns.index("vb")

    routes, *_ = netns.read(main_routes)

    assert set(routes) == {
        DefaultRoute(4, 9, tuple(sorted((a, b)))),
        DefaultRoute(4, 100, (a,)),
        DefaultRoute(4, 0, (b,), partial=True),
        DefaultRoute(6, 7, (b,)),
        DefaultRoute(6, 1024, (b,), partial=True),
    }


def test_default_routes_with_nexthop_objects_are_resolved(netns: Namespace) -> None:
    netns.run(
        "ip link add va type veth peer vb",
        "ip link set va up",
        "ip link set vb up",
        "ip nexthop add id 5 dev va",
        "ip nexthop add id 6 dev vb",
        "ip nexthop add id 7 group 5/6",
        "ip route add default nhid 7",
        "ip route add default nhid 6 metric 3",
    )
    a, b = netns.index("va"), netns.index("vb")
    netns.do(lambda: Path("/proc/sys/net/ipv4/nexthop_compat_mode").write_text("0"))

    routes, *_ = netns.read(main_routes)

    assert set(routes) == {DefaultRoute(4, 0, tuple(sorted((a, b)))), DefaultRoute(4, 3, (b,))}


def test_routes_of_routing_daemons_are_read_with_their_links(netns: Namespace) -> None:
    netns.run(
        "ip link add va type veth peer vb",
        "ip link add vc type veth peer vd",
        *(f"ip link set v{name} up" for name in "abcd"),
        "ip nexthop add id 5 dev va",
        "ip nexthop add id 6 dev vb",
        "ip nexthop add id 7 group 5/6",
        "ip route add 10.7.0.0/16 nhid 7 proto bgp",
        "ip route add 10.8.0.0/16 nhid 7 proto bgp",
        "ip -6 route add 2001:db8:7::/64 dev vb proto babel",
        "ip route add 10.9.0.0/16 dev vc proto static",
        "ip route add blackhole 10.10.0.0/16 proto bird",
        "ip route add 10.11.0.0/16 dev vd proto ospf table 77",
    )
    a, b = netns.index("va"), netns.index("vb")
    netns.do(lambda: Path("/proc/sys/net/ipv4/nexthop_compat_mode").write_text("0"))

    expected = sorted([(a, "bgp"), (b, "babel"), (b, "bgp")])

    assert netns.read(main_routes) == ((), tuple(expected), ())


def test_routes_with_a_preferred_source_are_read_with_their_links(netns: Namespace) -> None:
    netns.run(
        "ip link add va type veth peer vb",
        "ip link set va up",
        "ip link set vb up",
        "ip addr add 192.0.2.1/24 dev va",
        "ip addr add 198.51.100.1/24 dev vb",
        "ip -6 addr add 2001:db8::1/64 dev va nodad",
        "ip nexthop add id 5 dev vb",
        "ip route add default via 198.51.100.9 src 192.0.2.1",
        "ip route add 10.7.0.0/16 via 198.51.100.9 src 192.0.2.1",
        "ip route add 10.8.0.0/16 via 198.51.100.9 src 192.0.2.1",
        "ip route add 10.9.0.0/16 nhid 5 src 198.51.100.1 proto bird",
        "ip route add 10.10.0.0/16 src 192.0.2.1 nexthop dev va nexthop dev vb",
        "ip route add 10.11.0.0/16 via 198.51.100.9",
        "ip route add 10.12.0.0/16 via 198.51.100.9 src 192.0.2.1 table 77",
        "ip -6 route add 2001:db8:7::/64 dev vb src 2001:db8::1",
    )
    a, b = netns.index("va"), netns.index("vb")
    netns.do(lambda: Path("/proc/sys/net/ipv4/nexthop_compat_mode").write_text("0"))

    *_, sourced = netns.read(main_routes)

    assert set(sourced) == {
        ("0.0.0.0/0", "192.0.2.1", (b,)),
        ("10.7.0.0/16", "192.0.2.1", (b,)),
        ("10.9.0.0/16", "198.51.100.1", (b,)),
        ("10.10.0.0/16", "192.0.2.1", tuple(sorted((a, b)))),
    }


def test_inventory_follows_the_default_route(netns: Namespace) -> None:
    with open_netns() as elsewhere:
        netns.run("ip link add eth0 type veth peer x0", "ip link add eth1 type veth peer x1")
        netns.do(lambda: _move("x0", elsewhere))
        netns.do(lambda: _move("x1", elsewhere))
        netns.run("ip link set eth0 up", "ip link set eth1 up", "ip route add default dev eth0")

        before = published(netns.scan())
        netns.run("ip route replace default dev eth1")
        after = published(netns.scan())

        assert (before, after) == ({"eth1"}, {"eth0"})


def test_links_below_and_above_the_uplink_are_not_published(netns: Namespace) -> None:
    with open_netns() as elsewhere:
        netns.run(
            "ip link add br0 type bridge",
            "ip link add port type veth peer x0",
            "ip link set port master br0",
            "ip link add mv0 link br0 type macvlan",
            "ip link add free type veth peer x1",
            "ip link add mv1 link free type macvlan",
        )
        netns.do(lambda: _move("x0", elsewhere))
        netns.do(lambda: _move("x1", elsewhere))
        netns.run("ip link set br0 up", "ip link set mv1 up", "ip -6 route add default dev br0")

        on_bridge = netns.scan()
        netns.run("ip -6 route del default dev br0", "ip -6 route add default dev mv1")
        on_macvlan = netns.scan()

        assert published(on_bridge) == {"mv1"}
        assert dict(on_bridge.excluded)["free"].startswith("carries mv1, a macvlan link")
        assert dict(on_bridge.excluded)["port"] == "carries the uplink br0"
        assert dict(on_bridge.excluded)["mv0"] == "depends on the uplink br0"
        assert published(on_macvlan) == {"mv0"}
        assert dict(on_macvlan.excluded)["free"] == "carries the uplink mv1"


def test_names_of_bpf_classifiers_are_read(netns: Namespace) -> None:
    netns.run("ip link add left type veth peer right")
    netns.do(lambda: bpf.attach_filter("left", "count_packets"))

    assert netns.read(links.tc_filters) == {netns.index("left"): ("count_packets",)}


def test_refused_dump_is_reported_by_name(netns: Namespace) -> None:
    with pytest.raises(KernelError, match="dump nonsense: EINVAL"):
        netns.read(lambda netlink: netlink.dump("dump nonsense", RTM_GETLINK, b"\xff" * 16))


def test_scan_leaves_no_open_descriptor(netns: Namespace) -> None:
    netns.scan()
    before = _open_descriptors()

    netns.scan()

    assert _open_descriptors() == before


def test_added_and_removed_links_are_reported_by_events(netns: Namespace) -> None:
    source = netns.do(DeviceEvents)

    netns.run("ip link add left type veth peer right", "ip link del left")

    found = {(event.action, event.name) for event in _events(source, last=("remove", "left"))}
    assert {("add", "left"), ("add", "right"), ("remove", "right")} <= found


def test_undecodable_name_becomes_an_overflow_event_and_later_events_follow(
    netns: Namespace,
) -> None:
    source = netns.do(DeviceEvents)

    netns.run(
        "ip link add nic\udcff type veth peer right",
        "ip link del right",
        "ip link add left type veth peer right",
        "ip link del left",
    )

    found = _events(source, last=("remove", "left"))
    assert DeviceEvent(OVERFLOW) in found
    assert ("add", "left") in {(event.action, event.name) for event in found}


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _events(source: DeviceEvents, last: tuple[str, str]) -> list[DeviceEvent]:
    """Return the net devices' events up to the last one; the test's timeout bounds the wait."""
    found: list[DeviceEvent] = []
    while last not in {(event.action, event.name) for event in found}:
        select.select([source], [], [])
        found += [event for event in source.pending() if event.subsystem in {"net", ""}]
    return found


def _move(name: str, netns: int) -> None:
    with IPRoute() as ip:
        ip.link("set", index=ip.link_lookup(ifname=name)[0], net_ns_fd=netns)
