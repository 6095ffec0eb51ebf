"""Routes of table main that are kept up to date by events: as exact as a dump, and few dumps."""

import os
import random
import select
import struct
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import repeat
from pathlib import Path
from socket import AF_INET
from typing import Final

import pytest

from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.netlink import main_routes as kept
from dranet_nri.linux.netlink.links import RTM_GETLINK
from dranet_nri.linux.netlink.main_routes import main_routes_here
from dranet_nri.linux.netlink.multicast import EventSource
from dranet_nri.linux.netlink.routes import RTM_GETROUTE, RouteUses, main_routes
from dranet_nri.linux.netlink.rtnetlink import open_here
from dranet_nri.linux.netlink.socket import NetlinkMessage
from tests.system.kernel.namespaces import new_netns

LINKS: Final = ("va", "vb", "vc", "vd")
SETUP: Final = (
    *("link add va type veth peer vb", "link add vc type veth peer vd"),
    *("link add vrf7 type vrf table 7", "link set vrf7 up"),
    *(f"link set {name} up" for name in LINKS),
    *(f"addr add 192.0.{number}.1/24 dev {name}" for number, name in enumerate(LINKS)),
    *(f"addr add 2001:db8:{number}::1/64 dev {name} nodad" for number, name in enumerate(LINKS)),
)
SHORT: Final = 1 << 12  # bytes of a queue
STEPS: Final = 150


class Host:
    """A namespace with links and their routes."""

    def __init__(self) -> None:
        """Make it."""
        self._fd = new_netns()
        # So that the kernel sends no events for routes with a nexthop object that changes.
        self.write("ipv4/nexthop_compat_mode", "0")
        self.ip(*SETUP)
        self.listen()

    def listen(self) -> None:
        """Start to receive events."""
        self.routes = run_inside(self._fd, main_routes_here)

    def ip(self, *commands: str) -> None:
        """Run commands of iproute2, also impossible ones."""

        def work() -> None:
            for words in commands:
                subprocess.run(["ip", *words.split()], check=False, capture_output=True)

        run_inside(self._fd, work)

    def write(self, sysctl: str, text: str) -> None:
        """Write a sysctl below /proc/sys/net."""
        run_inside(self._fd, lambda: Path("/proc/sys/net", sysctl).write_text(text))

    def uses(self) -> RouteUses:
        """Return what the routes show, as all reads after events report it."""
        with closing(run_inside(self._fd, open_here)) as netlink:
            return self.routes.uses(netlink)

    def dumped(self) -> RouteUses:
        """Return what a dump shows."""
        with closing(run_inside(self._fd, open_here)) as netlink:
            return main_routes(netlink)

    def reads(self) -> int:
        """Return how often a read dumps routes."""
        dumped = list[int]()
        with closing(run_inside(self._fd, open_here)) as netlink:
            plain = netlink.dump

            def dump(
                what: str, kind: int, body: bytes, max_bytes: int | None = None
            ) -> list[bytes]:
                dumped.append(kind)
                return plain(what, kind, body, max_bytes)

            netlink.dump = dump  # type: ignore[method-assign]
            self.routes.uses(netlink)
        return dumped.count(RTM_GETROUTE)

    def close(self) -> None:
        """Delete it."""
        os.close(self._fd)


@pytest.fixture
def host() -> Iterator[Host]:
    """Return a host."""
    with closing(Host()) as made:
        yield made


def command(choose: random.Random) -> str:
    """Return a command that may change what the routes show, or not."""
    link, other = choose.sample(LINKS, 2)
    number = LINKS.index(link)
    family = choose.choice((4, 6))
    prefix, gateway, source = {
        4: ("10.0.{}.0/24", f"192.0.{number}.9", f"192.0.{LINKS.index(other)}.1"),
        6: ("2001:db8:7:{}::/64", f"2001:db8:{number}::9", f"2001:db8:{number}::1"),
    }[family]
    to = choose.choice(("default", "default", prefix.format(choose.randrange(3))))
    verb = choose.choice(("add", "add", "append", "replace", "del"))
    protocol = choose.choice(("boot", "static", "bird", "bgp"))
    metric = choose.choice(("", "metric 7"))
    return choose.choice(
        (
            *(f"link set {name} up" for name in LINKS),
            *(f"addr add 192.0.{index}.1/24 dev {name}" for index, name in enumerate(LINKS)),
            *(f"addr add 2001:db8:{index}::1/64 dev {name}" for index, name in enumerate(LINKS)),
            f"-{family} route add {to} via {gateway} dev {link} proto {protocol} {metric}",
            f"-{family} route {verb} {to} via {gateway} dev {link} proto {protocol} {metric}",
            f"-{family} route {verb} {to} via {gateway} dev {link} src {source} {metric}",
            f"-{family} route {verb} {to} dev {link} table 77",
            f"route {verb} default {metric} nexthop via 192.0.{number}.9 nexthop dev {other}",
            f"-{family} route {verb} unreachable {to} proto {protocol} {metric}",
            f"-{family} route {verb} {to} nhid {number + 1} proto {protocol} {metric}",
            f"nexthop {verb} id {number + 1} via {gateway} dev {link}",
            f"link set {link} down",
            f"link set {link} master {choose.choice(('vrf7', 'lo'))}",
            f"link set {link} nomaster",
            f"addr del 192.0.{number}.1/24 dev {link}",
        )
    )


def without_destinations(uses: RouteUses) -> list[frozenset[object]]:
    """Return what routes show; of those that differ in their destination, either is reported."""
    defaults, by_daemon, sourced = uses
    sources = frozenset((source, links) for _, source, links in sourced)
    return [frozenset(defaults), frozenset(by_daemon), sources]


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_kept_routes_are_those_of_a_dump(host: Host, seed: int) -> None:
    choose, take = random.Random(seed), random.Random(seed)
    commands = list[str]()
    found = before = list[frozenset[object]]()
    changes = 0

    for _ in range(STEPS):
        commands.append(command(choose))
        host.ip(commands[-1])
        if take.random() < 0.5:
            host.routes.kept.take_events()
        found = without_destinations(host.uses())
        assert found == without_destinations(host.dumped()), commands[::-1]
        changes += found != before
        before = found

    assert changes > STEPS / 30, "the commands change little"


def test_routes_of_pods_cause_no_dump(host: Host) -> None:
    host.ip("route add 10.8.0.0/24 via 192.0.0.9 proto bird", "route add default via 192.0.1.9")
    assert [host.reads(), host.reads()] == [2, 0]

    host.ip(
        "link add cali1 type veth peer eth0",
        "link set cali1 up",
        "route add 10.1.0.1 dev cali1",
        "route add 10.9.0.0/24 via 192.0.0.9 proto bird",
        "-6 route add fd00::1 dev cali1",
        "link del cali1",
    )

    assert host.reads() == 0


@pytest.mark.parametrize(
    "change",
    [
        "route add default via 192.0.1.9",
        "route add 10.9.0.0/24 via 192.0.1.9 proto bird",
        "route del 10.8.0.0/24",
        "route replace 10.8.0.0/24 via 192.0.1.9",
        "link set va down",
        "link del va",
        "link set vb down",
        "addr del 192.0.0.1/24 dev va",
        "addr del 192.0.1.1/24 dev vb",
        "nexthop replace id 5 dev vd",
    ],
)
def test_relevant_change_causes_a_dump(host: Host, change: str) -> None:
    host.ip(
        "route add 10.8.0.0/24 via 192.0.0.9 proto bird",
        "nexthop add id 5 dev vc",
        "route add 10.10.0.0/24 nhid 5 proto bird",
        "route add 10.11.0.0/24 via 192.0.3.9 src 192.0.1.1",
    )
    host.uses()

    host.ip(change)

    assert host.reads() == 2


@pytest.mark.parametrize("change", ["link set va down", "link del va", "link set vb down"])
def test_routes_of_a_link_without_ipv6_end_with_it(host: Host, change: str) -> None:
    """Its IPv4 routes end without an event of their own; IPv6 addresses would have one."""
    for link in ("va", "vb"):
        host.write(f"ipv6/conf/{link}/disable_ipv6", "1")
    host.ip("nexthop add id 5 via 192.0.0.9 dev va", "route add default nhid 5")
    assert len(host.uses()[0]) == 1

    host.ip(change)

    assert host.uses() == host.dumped() == ((), (), ())


def test_dump_waits_for_changes_whose_events_are_queued(host: Host) -> None:
    """The kernel queues some events before it makes the change, and no dump of routes waits."""
    requests = list[int]()
    with closing(run_inside(host._fd, open_here)) as netlink:
        get, dump = netlink.get, netlink.dump

        def note_get(what: str, kind: int, body: bytes) -> bytes:
            requests.append(kind)
            return get(what, kind, body)

        def note_dump(
            what: str, kind: int, body: bytes, max_bytes: int | None = None
        ) -> list[bytes]:
            requests.append(kind)
            return dump(what, kind, body, max_bytes)

        netlink.get, netlink.dump = note_get, note_dump  # type: ignore[method-assign]
        host.routes.uses(netlink)

    assert requests == [RTM_GETLINK, RTM_GETROUTE, RTM_GETROUTE]


def test_flood_of_events_is_not_taken_to_its_end(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = NetlinkMessage(20, 0, 0, struct.pack("=II", AF_INET, 99))
    host.uses()

    with monkeypatch.context() as patched:
        patched.setattr(EventSource, "pending", lambda _: repeat(event))
        assert host.reads() == 2

    assert [host.reads(), host.reads()] == [2, 0], "kept although events were left"


def test_ipv6_routes_that_end_without_an_event_are_not_reported(host: Host) -> None:
    host.write("ipv6/route/skip_notify_on_dev_down", "1")
    host.ip("-6 route add default via 2001:db8:0::9 dev va")
    assert host.uses()[0]

    host.write("ipv6/conf/va/disable_ipv6", "1")

    assert not host.uses()[0]


def test_routes_are_read_again_after_lost_events(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "QUEUE_BYTES", SHORT)
    host.listen()
    host.uses()

    host.ip(*(f"route add 10.7.{number}.0/24 dev va" for number in range(100)))
    host.ip("route add default via 192.0.1.9")

    assert host.uses() == host.dumped() != ((), (), ())


def test_events_that_were_taken_between_two_reads_count(host: Host) -> None:
    host.uses()
    host.ip("route add default via 192.0.1.9")

    host.routes.kept.take_events()

    assert not select.select([host.routes.kept], [], [], 0)[0]
    assert host.reads() == 2
    assert host.uses() == host.dumped() != ((), (), ())


def test_events_that_were_not_all_taken_count(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dranet_nri.linux.netlink.kept.MAX_EVENTS_BETWEEN", 1)
    host.uses()
    host.ip("route add 10.7.0.0/24 dev va", "route add default via 192.0.1.9")

    host.routes.kept.take_events()

    assert select.select([host.routes.kept], [], [], 0)[0]
    assert host.uses() == host.dumped() != ((), (), ())


def test_events_that_another_thread_received_during_a_dump_count(host: Host) -> None:
    with closing(run_inside(host._fd, open_here)) as netlink:
        plain = netlink.dump

        def dump(what: str, kind: int, body: bytes, max_bytes: int | None = None) -> list[bytes]:
            dumped = plain(what, kind, body, max_bytes)
            if kind == RTM_GETROUTE and not host.uses()[0]:
                host.ip("route add default via 192.0.1.9")
                assert host.uses()[0]
            return dumped

        netlink.dump = dump  # type: ignore[method-assign]
        assert host.routes.uses(netlink) == ((), (), ())

    assert host.uses()[0]


@pytest.mark.parametrize(
    ("event", "dumps"),
    [
        pytest.param(NetlinkMessage(16, 0, 0, b""), 2, id="malformed"),
        # Kernels differ in whether they send an event of the route that had it as its source.
        pytest.param(NetlinkMessage(21, 0, 0, struct.pack("=II", AF_INET, 99)), 2, id="address"),
        pytest.param(
            NetlinkMessage(20, 0, 0, struct.pack("=II", AF_INET, 99)), 0, id="new address"
        ),
    ],
)
def test_event_counts_without_others(
    host: Host, monkeypatch: pytest.MonkeyPatch, event: NetlinkMessage, dumps: int
) -> None:
    host.ip("route add 10.11.0.0/24 via 192.0.3.9 src 192.0.1.1")
    host.uses()
    monkeypatch.setattr(EventSource, "pending", lambda _: iter([event]))

    assert host.reads() == dumps
