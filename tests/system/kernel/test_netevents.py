"""Kernel notifications of links, addresses, routes and filters, without privilege."""

import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dranet_nri.facts.netlink_events import NetEvent, NetEventKind, NetEvents, open_events
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.netlink.links import index_of
from dranet_nri.linux.netlink.rtnetlink import open_here
from tests.capability import lacking
from tests.system.kernel.namespaces import open_netns


class Listener:
    """A private namespace and its notifications."""

    def __init__(self, nsfd: int) -> None:
        """Listen in the namespace."""
        self._nsfd = nsfd
        self.source: NetEvents = run_inside(nsfd, open_events)

    def run(self, *commands: str) -> None:
        """Run commands of ip and tc in the namespace."""

        def body() -> None:
            for command in commands:
                subprocess.run(command.split(), check=True, capture_output=True)

        run_inside(self._nsfd, body)

    def index(self, name: str) -> int:
        """Return a link's ifindex."""

        def body() -> int:
            with closing(open_here()) as netlink:
                return index_of(netlink, "find a link", name)

        return run_inside(self._nsfd, body)

    def discard(self) -> None:
        """Discard the pending notifications."""
        list(self.source.pending())

    def until(self, event: NetEvent) -> set[NetEvent]:
        """Return the notifications up to an event; the test's timeout bounds the wait."""
        found: set[NetEvent] = set()
        while event not in found:
            select.select([self.source], [], [])
            found.update(self.source.pending())
        return found


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Listen in a namespace that has a veth pair, va and vb, up."""
    if not shutil.which("ip"):
        lacking("the ip command", "install iproute2")
    with open_netns() as nsfd:
        listener = Listener(nsfd)
        with closing(listener.source):
            listener.run(
                "ip link add va type veth peer vb", "ip link set va up", "ip link set vb up"
            )
            yield listener


def test_added_changed_and_removed_links_are_reported(listener: Listener) -> None:
    va = listener.index("va")
    listener.until(NetEvent(NetEventKind.LINK, va))
    listener.discard()

    listener.run("ip link set va alias anything")
    listener.until(NetEvent(NetEventKind.LINK, va))
    listener.discard()

    listener.run("ip link del va")
    listener.until(NetEvent(NetEventKind.LINK, va))


def test_link_moved_to_another_namespace_is_reported(listener: Listener) -> None:
    va = listener.index("va")
    listener.discard()
    with open_netns() as other:
        listener.run(f"ip link set va netns /proc/{os.getpid()}/fd/{other}")

        listener.until(NetEvent(NetEventKind.LINK, va))


@pytest.mark.parametrize("cidr", ["192.0.2.1/24", "2001:db8::1/64"])
def test_address_change_is_reported(listener: Listener, cidr: str) -> None:
    va = listener.index("va")
    listener.discard()
    listener.run(f"ip addr add {cidr} dev va")

    listener.until(NetEvent(NetEventKind.ADDRESS, va))


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_default_route_change_is_reported_and_other_routes_are_not(
    listener: Listener, family: str
) -> None:
    other = "10.9.0.0/16" if family == "-4" else "2001:db8:9::/48"
    marker = NetEvent(NetEventKind.LINK, listener.index("vb"))
    listener.discard()
    listener.run(f"ip {family} route add {other} dev va", "ip link set vb alias marker")
    assert NetEvent(NetEventKind.ROUTE) not in listener.until(marker)

    listener.run(f"ip {family} route add default dev va")
    listener.until(NetEvent(NetEventKind.ROUTE))
    listener.discard()
    listener.run(f"ip {family} route del default dev va")
    listener.until(NetEvent(NetEventKind.ROUTE))


def test_nexthop_object_change_is_reported(listener: Listener) -> None:
    run_inside(listener._nsfd, lambda: _write("/proc/sys/net/ipv4/nexthop_compat_mode", "0"))
    listener.run("ip nexthop add id 5 dev va", "ip route add default nhid 5")
    listener.until(NetEvent(NetEventKind.ROUTE))
    listener.discard()

    listener.run("ip nexthop replace id 5 dev vb")

    listener.until(NetEvent(NetEventKind.ROUTE))


def test_qdisc_change_is_reported(listener: Listener) -> None:
    if not shutil.which("tc"):
        lacking("the tc command", "install iproute2")
    va = listener.index("va")
    listener.discard()

    listener.run("tc qdisc add dev va clsact")

    listener.until(NetEvent(NetEventKind.FILTER, va))


def test_overflow_is_reported_as_lost_events_and_later_events_follow(listener: Listener) -> None:
    listener.discard()
    script = "link set va alias one\nlink set va alias two\n" * 5000
    run_inside(
        listener._nsfd,
        lambda: subprocess.run(["ip", "-batch", "-"], input=script, text=True, check=True),
    )

    assert NetEvent(NetEventKind.LOST) in set(listener.source.pending())
    listener.run("ip link set va alias three")
    listener.until(NetEvent(NetEventKind.LINK, listener.index("va")))


def _write(path: str, text: str) -> None:
    Path(path).write_text(text)


@pytest.mark.parametrize("family", ["-4", "-6"])
def test_policy_rule_change_is_reported(listener: Listener, family: str) -> None:
    for verb in ("add", "del"):
        listener.discard()
        listener.run(f"ip {family} rule {verb} fwmark 7 lookup 200 prio 100")

        listener.until(NetEvent(NetEventKind.ROUTE))
