"""Upper links in other namespaces, as the kernel reports them."""

import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final
from unittest.mock import patch

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.netlink import netns_events
from dranet_nri.linux.netlink.codec import attribute, u32
from dranet_nri.linux.netlink.links import (
    IFLA_IFNAME,
    IFLA_INFO_KIND,
    IFLA_LINK,
    IFLA_LINK_NETNSID,
    IFLA_LINKINFO,
    INFO,
    RTM_GETLINK,
    index_of,
)
from dranet_nri.linux.netlink.netns_events import (
    RTNLGRP_LINK,
    NetnsEvent,
    NetnsEventKind,
    NetnsEvents,
)
from dranet_nri.linux.netlink.other_netns import UpperLinks, _own_id, upper_links_here
from dranet_nri.linux.netlink.rtnetlink import NETLINK_ROUTE, RtnetlinkSocket, open_here
from dranet_nri.linux.netlink.socket import BUFFER_LEN, open_socket
from dranet_nri.state.privileged_facts import UpperKinds
from tests.box.waiting import wait_until
from tests.system.kernel.namespaces import add_veth, new_netns

OVERFLOW: Final = 200  # events
PLAIN: Final = INFO.pack(0, 1, 7, 0, 0)  # message of a link without attributes
SHORT: Final = 1 << 16  # bytes of a queue


class Node:
    """A host with a NIC, and two pods that have a veth of the host each."""

    def __init__(self) -> None:
        """Make it."""
        self._host, self._wire = new_netns(), new_netns()
        self._pods = [new_netns(), new_netns()]
        add_veth(self._host, "nic1", self._wire)
        for number, pod in enumerate(self._pods):
            add_veth(pod, f"eth{number}", self._host)
        self.above(uppers=UpperLinks(None))  # from then on the host has an id, too
        self.listen()

    def listen(self) -> None:
        """Start to receive events."""
        self.uppers = run_inside(self._host, upper_links_here)

    def ip(self, command: str, pod: int | None = None) -> None:
        """Run iproute2 on the host or in a pod; POD0 and POD1 are the pods."""
        nsfd = self._host if pod is None else self._pods[pod]
        for number, fd in (
            ("HOST", self._host),
            *((f"POD{n}", fd) for n, fd in enumerate(self._pods)),
        ):
            command = command.replace(number, f"/proc/{os.getpid()}/fd/{fd}")
        arguments = ["ip", *command.split()]
        run_inside(nsfd, lambda: subprocess.run(arguments, check=True, capture_output=True))

    def above(
        self, netlink: RtnetlinkSocket | None = None, uppers: UpperLinks | None = None
    ) -> UpperKinds:
        """Return the reported upper links, as all reads after events report them."""
        with closing(netlink or run_inside(self._host, open_here)) as sock:
            return (uppers or self.uppers).kinds(sock, self._host)

    def reads(self, uppers: UpperLinks | None = None) -> int:
        """Return in how many namespaces a read dumps the links."""
        netlink = run_inside(self._host, open_here)
        plain, dumped = netlink.dump, list[int]()

        def dump(what: str, kind: int, body: bytes, max_bytes: int | None = None) -> list[bytes]:
            dumped.append(kind)
            return plain(what, kind, body, max_bytes)

        netlink.dump = dump  # type: ignore[method-assign]
        self.above(netlink, uppers)
        return dumped.count(RTM_GETLINK)

    def index(self, name: str) -> int:
        """Return a link's ifindex."""
        with closing(run_inside(self._host, open_here)) as netlink:
            return index_of(netlink, "look", name)

    def refusing(self) -> RtnetlinkSocket:
        """Return a socket on which other namespaces cannot be read."""
        return run_inside(self._host, _refusing)

    def changing(self, change: Callable[[], None]) -> RtnetlinkSocket:
        """Return a socket on which links change after those of all namespaces were dumped."""
        netlink = run_inside(self._host, open_here)
        plain = netlink.dump

        def dump(what: str, kind: int, body: bytes, max_bytes: int | None = None) -> list[bytes]:
            dumped = plain(what, kind, body, max_bytes)
            if kind == RTM_GETLINK:
                left.pop()
                if not left:
                    change()
            return dumped

        left = list(range(self.count()))
        netlink.dump = dump  # type: ignore[method-assign]
        return netlink

    def delete_pod(self, number: int) -> None:
        """Delete a pod."""
        count = self.count()
        os.close(self._pods[number])
        wait_until("the namespace is gone", lambda: self.count() < count)
        self._pods[number] = -1

    def add_pod(self, number: int) -> None:
        """Make a pod with a macvlan, whose namespace gets an id after that."""
        self._pods[number] = new_netns()
        self.ip(f"link add link nic1 netns POD{number} name net1 type macvlan mode bridge")
        add_veth(self._pods[number], f"eth{number}", self._host)

    def count(self) -> int:
        """Return the number of namespaces with an id; the host has one, too."""
        return len(self.ids().splitlines())

    def own_id(self) -> int:
        """Return the id of the host in itself."""
        with closing(run_inside(self._host, open_here)) as netlink:
            return u32(_own_id(netlink, self._host))

    def ids(self) -> str:
        """Return the ids of namespaces."""
        return run_inside(
            self._host,
            lambda: (
                subprocess.run(
                    ["ip", "netns", "list-id"], check=True, capture_output=True, text=True
                ).stdout
            ),
        )

    def overflow(self) -> None:
        """Cause more events than the queue holds; a link that is down sends none."""
        self.ip("link set eth0 up", pod=0)
        batch = "".join(f"link set eth0 alias {number:0200d}\n" for number in range(OVERFLOW))
        command = ["ip", "-batch", "-"]
        run_inside(
            self._pods[0],
            lambda: subprocess.run(command, check=True, input=batch, text=True),
        )

    def close(self) -> None:
        """Delete everything."""
        for fd in (self._host, self._wire, *self._pods):
            if fd >= 0:
                os.close(fd)


def _refusing() -> RtnetlinkSocket:
    netlink = open_here()
    dump = netlink.dump

    def refuse(what: str, kind: int, body: bytes, max_bytes: int | None = None) -> list[bytes]:
        if kind == RTM_GETLINK:
            raise KernelError(what, 1)
        return dump(what, kind, body, max_bytes)

    netlink.dump = refuse  # type: ignore[method-assign]
    return netlink


@pytest.fixture
def node() -> Iterator[Node]:
    """Return a node."""
    with closing(Node()) as made:
        yield made


def test_veths_of_pods_have_no_upper_links(node: Node) -> None:
    assert node.above() == {}


def test_upper_link_moved_to_a_pod_is_reported_with_its_kind(node: Node) -> None:
    node.ip("link add mv0 link nic1 type macvlan mode bridge")
    assert node.above() == {}

    node.ip("link set mv0 netns POD0")

    assert node.above() == {node.index("nic1"): ("macvlan",)}
    assert node.above() == {node.index("nic1"): ("macvlan",)}, "now the host has an id as well"


def test_upper_links_created_in_pods_are_reported(node: Node) -> None:
    node.ip("link add link nic1 netns POD0 name net1 type macvlan mode bridge")
    node.ip("link add link nic1 netns POD1 name net1 type macvtap")
    node.ip("link add name vx1 type vxlan id 7 dev nic1 dstport 4789")
    node.ip("link set vx1 netns POD1")

    assert node.above() == {node.index("nic1"): ("macvlan", "macvtap", "vxlan")}


def test_link_above_a_link_of_another_pod_is_not_reported(node: Node) -> None:
    node.ip("link add mv0 link eth1 type macvlan mode bridge", pod=1)
    node.ip("link set mv0 netns POD0", pod=1)

    assert node.above() == {}


def test_unreadable_namespaces_report_no_upper_links(node: Node) -> None:
    node.ip("link add mv0 link nic1 type macvlan mode bridge")
    node.ip("link set mv0 netns POD0")

    assert node.above(node.refusing()) == {}


def test_read_without_a_change_dumps_no_links(node: Node) -> None:
    node.ip("link add link nic1 netns POD0 name net1 type macvlan mode bridge")

    assert [node.reads(), node.reads()] == [node.count(), 0]


def test_read_without_events_dumps_the_links_of_all_namespaces(node: Node) -> None:
    uppers = UpperLinks(None)

    assert uppers.kept is None
    assert [node.reads(uppers), node.reads(uppers)] == [node.count(), node.count()]


def test_events_of_plain_links_of_pods_cause_no_dump(node: Node) -> None:
    node.above()

    node.ip("link set eth0 up", pod=0)
    node.ip("link set eth0 mtu 1400", pod=0)
    node.ip("link add br0 type bridge", pod=1)
    node.ip("link del eth1", pod=1)

    assert node.reads() == 0


@pytest.mark.parametrize(
    "commands",
    [
        ("link add link nic1 netns POD1 name net1 type macvlan mode bridge",),
        ("link add mv1 link nic1 type macvlan mode bridge", "link set mv1 netns POD1"),
    ],
    ids=["created in the pod", "moved to the pod"],
)
def test_changed_namespace_is_read_again(node: Node, commands: tuple[str, ...]) -> None:
    node.above()

    for command in commands:
        node.ip(command)

    assert node.reads() == 1
    assert node.above() == {node.index("nic1"): ("macvlan",)}


def test_removed_and_changed_upper_links_are_not_reported_any_more(node: Node) -> None:
    node.ip("link add vx1 type vxlan id 7 dev nic1 dstport 4789")
    node.ip("link set vx1 netns POD0")
    node.ip("link add link nic1 netns POD1 name net1 type macvlan mode bridge")
    assert node.above() == {node.index("nic1"): ("macvlan", "vxlan")}

    node.ip("link del net1", pod=1)
    assert node.above() == {node.index("nic1"): ("vxlan",)}

    node.ip("link set vx1 netns POD1", pod=0)
    assert node.above() == {node.index("nic1"): ("vxlan",)}
    node.ip("link del vx1", pod=1)
    assert node.above() == {}


def test_any_event_counts_of_a_namespace_with_upper_links(node: Node) -> None:
    """Some tunnels can lose their lower link; the event is that of a link without one."""
    node.ip("link add link nic1 netns POD0 name net1 type macvlan mode bridge")
    node.above()
    plain = iter([NetnsEvent(NetnsEventKind.LINK, number, PLAIN) for number in range(node.count())])

    with patch.object(NetnsEvents, "pending", lambda _: plain):
        assert node.reads() == 1


def test_upper_links_of_a_pod_that_ended_are_not_reported(node: Node) -> None:
    node.ip("link add link nic1 netns POD1 name net1 type macvlan mode bridge")
    assert node.above() == {node.index("nic1"): ("macvlan",)}

    node.delete_pod(1)

    assert node.above() == {}
    assert node.reads() == 0


@pytest.mark.parametrize("has_sender", [False, True])
def test_namespace_whose_id_was_another_ones_is_read(
    node: Node, monkeypatch: pytest.MonkeyPatch, *, has_sender: bool
) -> None:
    """Before Linux 7.0 the host's own events have the host's id in itself as their sender."""
    if has_sender:
        own, plain = node.own_id(), netns_events._netns_id
        monkeypatch.setattr(
            netns_events,
            "_netns_id",
            lambda ancillary: own if plain(ancillary) < 0 else plain(ancillary),
        )
    node.above()
    ids = node.ids()

    node.delete_pod(1)
    node.add_pod(1)

    assert node.ids() == ids
    assert node.above() == {node.index("nic1"): ("macvlan",)}


def test_id_that_is_taken_before_the_event_of_its_release_is_read(node: Node) -> None:
    node.above()
    plain = NetnsEvents.pending
    node.delete_pod(1)
    node.add_pod(1)

    with patch.object(NetnsEvents, "pending", lambda queue: reversed([*plain(queue)])):
        node.above()

    assert node.above() == {node.index("nic1"): ("macvlan",)}


def test_namespace_with_an_event_without_a_message_is_read(node: Node) -> None:
    node.above()
    event = NetnsEvent(NetnsEventKind.LINK, 1)

    with patch.object(NetnsEvents, "pending", lambda _: iter([event])):
        assert node.reads() == 1


def test_upper_link_whose_lower_link_moves_to_the_host_is_reported(node: Node) -> None:
    node.ip("link add mv0 link eth1 type macvlan mode bridge", pod=1)
    node.ip("link set mv0 netns POD0", pod=1)
    assert node.above() == {}

    node.ip("link set eth1 netns HOST name nic2", pod=1)

    assert node.above() == {node.index("nic2"): ("macvlan",)}


def test_event_longer_than_the_buffer_has_no_message() -> None:
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.settimeout(0)
    with sender, receiver:
        sender.send(bytes(BUFFER_LEN + 1))

        assert list(NetnsEvents(receiver).pending()) == [NetnsEvent(NetnsEventKind.LINK)]


def test_all_namespaces_are_read_again_after_lost_events(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netns_events, "QUEUE_BYTES", SHORT)
    node.listen()
    node.ip("link add link nic1 netns POD0 name net1 type macvlan mode bridge")
    node.above()
    node.overflow()
    node.ip("link del net1", pod=0)

    assert node.reads() == node.count()
    assert node.above() == {}


def test_events_that_were_taken_between_two_reads_count(node: Node) -> None:
    kept = node.uppers.kept
    assert kept is not None
    node.above()
    node.ip("link add link nic1 netns POD0 name net1 type macvlan mode bridge")

    kept.take_events()

    assert not select.select([kept], [], [], 0)[0]
    assert node.above() == {node.index("nic1"): ("macvlan",)}


def test_events_are_not_taken_while_another_thread_takes_them(node: Node) -> None:
    kept = node.uppers.kept
    assert kept is not None
    node.ip("link add link nic1 netns POD0 name net1 type macvlan mode bridge")

    with kept._lock:  # a blocking call would not return
        kept.take_events()

    assert select.select([kept], [], [], 0)[0]


def test_messages_that_a_pod_sends_are_no_events_but_counted(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dranet_nri.linux.netlink.kept.MAX_EVENTS_BETWEEN", 2)
    kept = node.uppers.kept
    assert kept is not None
    node.above()
    number = struct.pack("=I", 9)
    body = INFO.pack(0, 1, 99, 0, 0) + attribute(IFLA_IFNAME, b"forged\0")
    body += attribute(IFLA_LINK, number) + attribute(IFLA_LINK_NETNSID, number)
    body += attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"macvlan\0"))

    def flood() -> None:
        with open_socket(NETLINK_ROUTE) as sender:
            for kind in (16, 17, 77):  # RTM_NEWLINK, RTM_DELLINK, another one
                header = struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0)
                sender.sendto(header + body, (0, RTNLGRP_LINK))  # as a bit

    run_inside(node._pods[0], flood)
    kept.take_events()
    assert select.select([kept], [], [], 0)[0]
    kept.take_events()

    assert not select.select([kept], [], [], 0)[0]
    assert node.reads() == 0


def test_change_during_a_read_is_reported_by_the_next_one(node: Node) -> None:
    def change() -> None:
        node.ip("link add link nic1 netns POD0 name net1 type macvlan mode bridge")

    assert node.above(node.changing(change)) == {}
    assert node.above() == {node.index("nic1"): ("macvlan",)}


def test_older_read_of_one_thread_does_not_replace_a_newer_one(node: Node) -> None:
    def change() -> None:
        node.ip("link add link nic1 netns POD0 name net1 type macvlan mode bridge")
        assert node.above() == {node.index("nic1"): ("macvlan",)}

    assert node.above(node.changing(change)) == {}
    assert node.above() == {node.index("nic1"): ("macvlan",)}


def test_process_without_the_capability_gets_no_events() -> None:
    code = "from dranet_nri.linux.netlink.netns_events import *; print(open_netns_events())"
    command = ["setpriv", "--bounding-set=-net_broadcast", sys.executable, "-c", code]

    result = subprocess.run(command, check=True, capture_output=True, text=True)

    assert result.stdout == "None\n"
