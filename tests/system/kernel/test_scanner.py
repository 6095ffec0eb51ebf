"""Repeated scans of a kernel's links, with changes that have no event of their own."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from dranet_nri.facts.netlink_events import open_events
from dranet_nri.facts.scan import Scanner
from dranet_nri.inventory import HostFacts
from dranet_nri.kernel.netns import run_inside
from dranet_nri.model import Link
from tests.capability import lacking
from tests.system.kernel import bpf
from tests.system.kernel.namespaces import open_netns

Scans = Callable[..., tuple[HostFacts, HostFacts]]


@pytest.fixture
def scans() -> Iterator[Scans]:
    """Return a function that runs ip commands, scans, runs more, and scans the changes.

    The commands of before run first; the second scan reads only the changes. It must show
    what a scan of everything does. POD stands for another namespace.
    """
    if not shutil.which("ip"):
        lacking("the ip command", "install iproute2")

    def ip(commands: tuple[str, ...], pod: int) -> None:
        far = f"/proc/{os.getpid()}/fd/{pod}"
        for command in commands:
            arguments = ["ip", *command.replace("POD", far).split()]
            subprocess.run(arguments, check=True, capture_output=True)

    def inside(
        before: tuple[str, ...], after: tuple[str, ...], pod: int
    ) -> tuple[HostFacts, HostFacts]:
        scanner = Scanner()
        with closing(open_events()) as events:
            ip(before, pod)
            list(events.pending())
            first = scanner.scan(whole=True)
            ip(after, pod)
            assert scanner.invalidate(events.pending())
            again = scanner.scan(whole=False)
            assert again == scanner.scan(whole=True)
        return first, again

    with open_netns() as nsfd, open_netns() as pod:
        yield lambda before, *after: run_inside(nsfd, lambda: inside((before,), after, pod))


def link(facts: HostFacts, name: str) -> Link:
    """Return a link that was seen."""
    return next(netdev.link for netdev in facts.netdevs if netdev.link.name == name)


PAIR = "link add name nic0 type veth peer name far0"


def test_route_to_the_remote_end_of_a_tunnel_is_looked_up_again(scans: Scans) -> None:
    """A route that is no default route has no event that counts; the alias has one."""
    first, again = scans(
        "link add vx1 type vxlan id 7 dstport 4789 remote 10.9.0.9",
        *(PAIR, "link set far0 up", "link set nic0 up", "route add 10.9.0.0/16 dev nic0"),
    )

    before, after = ({netdev.tunnel_ends for netdev in facts.netdevs} for facts in (first, again))
    assert before == {("", 0), ("", -1)}
    assert after == {("", 0), ("", link(again, "nic0").index)}


def test_link_whose_peer_moved_away_has_no_lower_link(scans: Scans) -> None:
    first, again = scans(PAIR, "link set dev far0 netns POD")

    assert link(first, "nic0").lower == link(first, "far0").index
    assert link(again, "nic0").lower == 0


def test_routes_are_removed_with_their_link(scans: Scans) -> None:
    up = (f"{PAIR}", "link set dev nic0 up", "route add default dev nic0")
    _, there = scans(*up)
    assert len(there.default_routes) == 1

    first, again = scans("route show", "link set dev nic0 down")

    assert (len(first.default_routes), again.default_routes) == (1, ())


def test_policy_rules_are_read_on_their_events_and_on_link_events(scans: Scans) -> None:
    up = (PAIR, "link set dev nic0 up", "route add default dev nic0 table 7")
    first, there = scans(*up, "rule add from 10.5.0.77 lookup 7")
    assert first.policy_routes == ()
    assert [route.links for route in there.policy_routes] == [{link(there, "nic0").index}]

    _, again = scans("rule show", "link set dev nic0 down")

    assert [route.links for route in again.policy_routes] == [frozenset()]


def test_link_added_and_removed_at_once_changes_nothing(scans: Scans) -> None:
    first, again = scans("link show", PAIR, "link del dev nic0")

    assert again == first


def test_changed_master_address_and_name_are_read(scans: Scans) -> None:
    _, again = scans(
        PAIR,
        "link add name br0 type bridge",
        "link set dev nic0 master br0",
        "addr add 192.0.2.5/24 dev far0",
        "link set dev far0 name far1",
        "link set dev nic0 alias anything",
    )

    assert link(again, "nic0").master == link(again, "br0").index
    (far,) = (netdev for netdev in again.netdevs if netdev.link.name == "far1")
    assert [address.cidr for address in far.addresses] == ["192.0.2.5/24"]


def test_filters_of_a_shared_block_are_read() -> None:
    if not shutil.which("tc"):
        lacking("the tc command", "install iproute2")

    def names(facts: HostFacts) -> dict[str, tuple[str, ...]]:
        return {netdev.link.name: netdev.tc_filters for netdev in facts.netdevs}

    def inside() -> None:
        for command in (f"ip {PAIR}", "tc qdisc add dev nic0 ingress_block 22 clsact"):
            subprocess.run(command.split(), check=True, capture_output=True)
        scanner = Scanner()
        with closing(open_events()) as events:
            scanner.scan(whole=True)
            bpf.attach_to_block(22, "count_packets")
            assert scanner.invalidate(events.pending())
            added = names(scanner.scan(whole=False))
            subprocess.run(["tc", "filter", "del", "block", "22"], check=True, capture_output=True)
            assert scanner.invalidate(events.pending())
            removed = names(scanner.scan(whole=False))

        assert (added["nic0"], added["far0"]) == (("count_packets",), ())
        assert removed["nic0"] == ()

    with open_netns() as nsfd:
        run_inside(nsfd, inside)
