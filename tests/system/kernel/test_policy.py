"""Policy rules and the links of their tables, as the kernel reports them."""

from collections.abc import Iterator

import pytest

from dranet_nri.linux.netlink.links import index_of
from dranet_nri.linux.netlink.policy_routing import dump_rules, policy_routes
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import PolicyRoute
from tests.system.kernel.namespaces import add_veth, open_netns
from tests.system.kernel.test_facts_links import Namespace


@pytest.fixture
def wired(nsfd: int) -> Iterator[Namespace]:
    """Return a namespace with a NIC and two tables that lead through it."""
    with open_netns() as wire:
        add_veth(nsfd, "eth1", wire)
        netns = Namespace(nsfd)
        netns.run(
            "ip addr add 10.5.0.7/24 dev eth1",
            "ip link set eth1 up",
            "ip route add default via 10.5.0.1 dev eth1 table 200",
            "ip route add unreachable 10.8.0.0/16 table 200",
            "ip route add default via 10.5.0.1 dev eth1 table 1000",
            "ip route add 10.7.0.0/16 via 10.5.0.1 dev eth1 table 2000",
            "ip -6 route add unreachable 2001:db8:a::/64 table 200",
        )
        yield netns


def routes(netlink: RtnetlinkSocket) -> tuple[PolicyRoute, ...]:
    """Return what is read in a scan."""
    return policy_routes(netlink, dump_rules(netlink))


@pytest.mark.parametrize(
    ("rule", "reported"),
    [
        ("from 10.5.0.77 lookup 200", {"source": "10.5.0.77/32"}),
        ("not from 10.5.0.0/16 lookup 200", {"source": "10.5.0.0/16", "invert": True}),
        ("to 10.9.0.0/16 lookup 200", {"only_destination": True}),
        ("to 10.9.0.0/16 fwmark 7 lookup 200", {}),
        ("fwmark 7 lookup 200", {}),
        ("iif lo oif eth1 lookup 200", {"names": ("lo", "eth1")}),
        ("uidrange 7-7 lookup 1000", {"table": 1000}),
    ],
)
def test_policy_rule_is_read_with_the_links_of_its_table(
    wired: Namespace, rule: str, reported: dict[str, object]
) -> None:
    wired.run(f"ip rule add {rule} prio 100")
    expected = {"table": 200, "links": frozenset({index(wired, "eth1")}), **reported}

    assert wired.read(routes) == (PolicyRoute(**expected),)  # type: ignore[arg-type]


@pytest.mark.parametrize("packets", ["all", "10.5.0.77", "10.20.30.0/24"])
def test_only_default_routes_of_a_table_are_counted(wired: Namespace, packets: str) -> None:
    for priority, table in enumerate((200, 2000), 100):
        wired.run(f"ip rule add from {packets} lookup {table} prio {priority}")

    assert [(route.table, len(route.links)) for route in wired.read(routes)] == [
        (200, 1),
        (2000, 0),
    ]


@pytest.mark.parametrize(
    ("family", "half"), [("-4", "128.0.0.0/1"), ("-6", "2000::/3")], ids=["IPv4", "IPv6"]
)
def test_partial_default_route_of_a_table_is_counted(
    wired: Namespace, family: str, half: str
) -> None:
    wired.run(f"ip {family} route add {half} dev eth1 table 300")
    wired.run(f"ip {family} rule add lookup 300 prio 100")

    assert wired.read(routes) == (PolicyRoute(300, frozenset({index(wired, "eth1")})),)


@pytest.mark.parametrize("action", ["prohibit", "unreachable", "blackhole"])
def test_rule_that_ends_the_lookup_uses_no_link(wired: Namespace, action: str) -> None:
    wired.run(f"ip rule add {action} from 10.9.0.0/16 lookup 200 prio 100")

    assert wired.read(routes) == ()


def test_ipv6_rules_use_ipv6_tables_and_an_empty_table_has_no_links(wired: Namespace) -> None:
    wired.run(
        "ip -6 rule add from 2001:db8:7::/64 lookup 200 prio 100",
        "ip -6 rule add from 2001:db8:8::/64 lookup 4711 prio 101",
        "ip -6 rule add from 2001:db8:9::/64 unreachable prio 102",
        "ip -6 route add default dev eth1 table 200",
    )

    assert wired.read(routes) == (
        PolicyRoute(200, frozenset({index(wired, "eth1")}), "2001:db8:7::/64"),
        PolicyRoute(4711, frozenset(), "2001:db8:8::/64"),
    )


def test_default_rules_are_omitted(nsfd: int) -> None:
    assert Namespace(nsfd).read(routes) == ()


def index(netns: Namespace, name: str) -> int:
    """Return a link's ifindex."""
    return netns.read(lambda netlink: index_of(netlink, "look", name))
