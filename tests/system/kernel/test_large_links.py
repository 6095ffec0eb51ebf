"""Links whose messages are long: a link may have 496 altnames of 127 bytes, from any pod."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from errno import EMSGSIZE, ENODEV
from typing import Final

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.facts import links as facts
from dranet_nri.facts.netlink_events import NetEvent, NetEventKind, open_events
from dranet_nri.facts.scan import read_host
from dranet_nri.inventory import inventory_from_facts
from dranet_nri.kernel.child import children
from dranet_nri.kernel.namespace import Namespace
from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.observe import observe
from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.linux.netlink.codec import ATTRIBUTE, attribute
from dranet_nri.linux.netlink.links import (
    IFLA_ALT_IFNAME,
    IFLA_IFNAME,
    IFLA_MTU,
    IFLA_PARENT_DEV_NAME,
    IFLA_PROP_LIST,
    INFO,
    RTM_GETLINK,
    DumpedLink,
    dump_links,
    link_from,
)
from dranet_nri.linux.netlink.rtnetlink import (
    NETLINK_ROUTE,
    RtnetlinkSocket,
    open_here,
    rtnetlink_socket,
)
from dranet_nri.linux.netlink.socket import open_socket
from dranet_nri.model import DeviceKey, NetnsId, Ns
from dranet_nri.plan.identity import DeviceIdentity
from dranet_nri.plan.planner import AttachTarget, make_plan
from dranet_nri.plan.pod_network import PodNetwork
from dranet_nri.plan.restore import RestoreTarget
from tests.system.kernel.namespaces import add_veth, new_netns

MOST: Final = 496  # altnames of that length that Linux takes
KEY: Final = DeviceKey("", "", "eth1")


class Node:
    """A host with two links, and a pod's namespace."""

    def __init__(self) -> None:
        """Make them."""
        self.host, self.pod, self._wire = new_netns(), new_netns(), new_netns()
        for name in ("eth1", "eth2"):
            add_veth(self.host, name, self._wire)
        self.kernel = NetlinkKernel(host_path=f"/proc/self/fd/{self.host}")
        netns = self.kernel.identify(f"/proc/self/fd/{self.pod}")
        assert netns is not None
        self.netns: NetnsId = netns
        assert self.kernel.hold(netns)

    def close(self) -> None:
        """Delete everything."""
        self.kernel.release(self.netns)
        for fd in (self.host, self.pod, self._wire):
            os.close(fd)


@pytest.fixture
def node() -> Iterator[Node]:
    """Return a node."""
    with closing(Node()) as made:
        yield made


def flood(nsfd: int, link: str, count: int = MOST) -> None:
    """Give a link that many altnames of 127 bytes."""
    lines = (f"link property add dev {link} altname {n:03d}{link:x<124}" for n in range(count))
    command = ["ip", "-batch", "-"]

    def run() -> None:
        subprocess.run(command, input="\n".join(lines), check=True, capture_output=True, text=True)

    run_inside(nsfd, run)


def test_link_with_the_maximum_of_altnames_is_read(node: Node) -> None:
    flood(node.host, "eth1")

    with closing(run_inside(node.host, open_here)) as netlink:
        found = {observed.name: observed for observed in dump_links(netlink, "host")}

    assert {"lo", "eth1", "eth2"} <= set(found)
    assert len(found["eth1"].altnames) == MOST
    assert link_from(found["eth1"]).mtu == 1500


def test_inventory_is_unchanged_by_a_link_with_many_altnames(node: Node) -> None:
    before = inventory_from_facts(run_inside(node.host, read_host))
    flood(node.host, "eth1")

    assert inventory_from_facts(run_inside(node.host, read_host)) == before


def test_event_of_a_link_with_many_altnames_is_decoded(node: Node) -> None:
    flood(node.host, "eth1")
    with closing(run_inside(node.host, open_here)) as netlink:
        (index,) = (
            observed.index for observed in dump_links(netlink, "host") if observed.name == "eth1"
        )
    with closing(run_inside(node.host, open_events)) as events:
        command = ["ip", "link", "set", "eth1", "mtu", "1400"]
        run_inside(node.host, lambda: subprocess.run(command, check=True))

        assert set(events.pending()) == {NetEvent(NetEventKind.LINK, index)}


@pytest.mark.parametrize("flooded", ["net1", "lo"])
def test_device_is_restored_with_any_altnames_from_its_pod(node: Node, flooded: str) -> None:
    with closing(node.kernel.session(node.netns)) as session:
        before = session.observe(KEY, "net1").host
        assert before is not None
        for op in make_plan(AttachTarget(PodNetwork("net1"), before), session.observe(KEY, "net1")):
            session.apply(op)
        there = session.pod_link("net1").index
        flood(node.pod, flooded)
        identity = DeviceIdentity(before.link.index, "veth", frozenset({before.link.mac}), there)

        for op in make_plan(
            RestoreTarget(before), session.observe(KEY, "net1", identity, link_only=True)
        ):
            session.apply(op)
        after = session.observe(KEY, "net1", identity).host

    assert after is not None
    assert (after.link.name, after.link.altnames) == ("eth1", before.link.altnames)


# ------------------------------------------------------------------- what cannot be read


class Refusing(RtnetlinkSocket):
    """A kernel that cannot encode one of its links, such as one with megabytes of names."""

    refused = 0

    def dump(self, what: str, kind: int, body: bytes, most: int | None = None) -> list[bytes]:
        """Refuse a dump that has that link."""
        if kind == RTM_GETLINK:
            raise KernelError(what, EMSGSIZE)
        return super().dump(what, kind, body, most)

    def get(self, what: str, kind: int, body: bytes) -> bytes:
        """Refuse a query of that link."""
        if INFO.unpack_from(body)[2] == self.refused:
            raise KernelError(what, EMSGSIZE)
        return super().get(what, kind, body)


def refusing(node: Node) -> Refusing:
    """Return a socket on the host whose queries of eth2 are refused."""
    sock = run_inside(node.host, lambda: open_socket(NETLINK_ROUTE))
    with closing(run_inside(node.host, open_here)) as netlink:
        numbers = {observed.name: observed.index for observed in dump_links(netlink, "host")}
    rtnetlink_socket(sock)
    made = Refusing(sock)
    made.refused = numbers["eth2"]
    return made


def test_link_that_the_kernel_cannot_dump_hides_no_other(node: Node) -> None:
    with closing(refusing(node)) as netlink:
        assert {observed.name for observed in dump_links(netlink, "host")} >= {"lo", "eth1"}
        assert "eth2" not in {observed.name for observed in dump_links(netlink, "host")}


def test_other_failure_of_a_dump_is_raised(node: Node) -> None:
    class Gone(RtnetlinkSocket):
        def dump(self, what: str, kind: int, body: bytes, most: int | None = None) -> list[bytes]:
            raise KernelError(what, ENODEV)

    sock = run_inside(node.host, lambda: open_socket(NETLINK_ROUTE))
    with closing(Gone(sock)) as netlink, pytest.raises(KernelError):
        dump_links(netlink, "host")


def link(index: int, name: str, *attrs: bytes) -> bytes:
    """Return the body of a link's message."""
    named = attribute(IFLA_IFNAME, name.encode() + b"\0")
    return INFO.pack(0, 1, index, 0, 0) + named + b"".join(attrs)


class FixedDump(RtnetlinkSocket):
    """Answers every dump with these objects."""

    def __init__(self, *bodies: bytes) -> None:
        """Take the objects."""
        self._bodies = bodies

    def dump(self, what: str, kind: int, body: bytes, most: int | None = None) -> list[bytes]:
        """Return the objects."""
        return list(self._bodies)


CUT: Final = link(
    7, "eth1", attribute(IFLA_MTU, b"\x05\xdc"), attribute(IFLA_PARENT_DEV_NAME, b"p\0")
)
WHOLE: Final = link(8, "eth2")


def test_link_that_cannot_be_decoded_is_excluded_and_others_are_not() -> None:
    bad, good = facts.links(FixedDump(CUT, WHOLE))

    assert (bad.link.name, bad.link.parent) == ("eth1", "p")
    assert bad.unreadable == "read a netlink message: EBADMSG (2 bytes, not 4)"
    assert (good.link.name, good.unreadable) == ("eth2", "")


class Undecodable(Namespace):
    """A namespace with such a link."""

    def __init__(self) -> None:
        """Open nothing."""
        self.ns = Ns.POD
        self._rules = ()

    def links(self) -> tuple[DumpedLink, ...]:
        """Return both links."""
        return dump_links(FixedDump(CUT, WHOLE), "pod")


def test_device_beside_an_undecodable_link_is_found(node: Node) -> None:
    with closing(node.kernel.session(node.netns)) as session:
        host = session.observe(KEY, "net1").host
    assert host is not None
    with closing(Namespace(Ns.HOST, os.dup(node.host), "/proc")) as space:
        identity = DeviceIdentity(host.link.index, "", frozenset(), 8)
        observed = observe(space, Undecodable(), KEY, "net1", "/sys", identity, link_only=True)

    assert observed.pod is not None
    assert observed.pod.link.name == "eth2"
    assert children(Undecodable()) == ()


# ------------------------------------------------------------------- before Linux 5.18


@pytest.mark.parametrize("length", [123, 124, 127])
def test_altname_list_longer_than_its_length_field_is_read(length: int) -> None:
    """The tail of a name is an attribute, to who believes the 16 bits of the list's length."""
    names = b"".join(
        attribute(IFLA_ALT_IFNAME, f"{n:03d}".encode().ljust(length, b"8") + b"\0")
        for n in range(600)
    )
    listed = ATTRIBUTE.pack((4 + len(names)) & 0xFFFF, IFLA_PROP_LIST) + names
    body = link(7, "eth1", listed, attribute(IFLA_PARENT_DEV_NAME, b"0000:8a:00.0\0"))

    (observed,) = dump_links(FixedDump(body), "pod")

    assert len(observed.altnames) == 600
    assert link_from(observed).parent == "0000:8a:00.0"
    assert set(observed.attrs) == {IFLA_IFNAME, IFLA_PROP_LIST, IFLA_PARENT_DEV_NAME}


def test_long_message_without_an_altname_list_is_read() -> None:
    (observed,) = dump_links(
        FixedDump(link(7, "eth1", attribute(200, bytes(65_000)), attribute(201, bytes(900)))), "pod"
    )

    assert set(observed.attrs) == {IFLA_IFNAME, IFLA_PROP_LIST, 200, 201}
    assert observed.altnames == ()
