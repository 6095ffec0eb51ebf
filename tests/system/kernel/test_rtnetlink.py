"""Requests and dumps of rtnetlink, with errors and interruptions."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from errno import EBUSY, EINTR, EINVAL

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel.links import RTM_NEWLINK
from dranet_nri.kernel.netns import sockets_in
from dranet_nri.linux.netlink.codec import attribute
from dranet_nri.linux.netlink.links import (
    IFLA_IFNAME,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
    INFO,
    dump_links,
    find_link,
)
from dranet_nri.linux.netlink.rtnetlink import NETLINK_ROUTE, rtnetlink_socket
from dranet_nri.linux.netlink.socket import (
    DUMP_S,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    NLM_F_ACK_TLVS,
    NLM_F_DUMP_INTR,
    NLMSG_DONE,
    NLMSG_ERROR,
    NLMSGERR_ATTR_MSG,
    NetlinkSocket,
)
from tests.system.kernel.namespaces import new_netns

ANSWER = 100  # any type that is neither an error nor a done
NLM_F_CREATE = 0x400  # linux/netlink.h


class Peer:
    """The other end of a netlink socket: answers are queued before the request."""

    def __init__(self) -> None:
        """Connect two sockets that keep message boundaries, as netlink does."""
        client, self._server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.now = 0.0
        self.slept: list[float] = []
        self.netlink = NetlinkSocket(client, clock=lambda: self.now, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def queue(self, *messages: bytes) -> None:
        """Let messages arrive in one piece."""
        self._server.send(b"".join(messages))

    def requests(self) -> list[bytes]:
        """Return the requests received so far."""
        self._server.settimeout(0)
        found: list[bytes] = []
        try:
            while True:
                found.append(self._server.recv(65536))
        except BlockingIOError:
            return found

    def close(self) -> None:
        """Close both ends."""
        self.netlink.close()
        self._server.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    """Return a peer."""
    made = Peer()
    yield made
    made.close()


def message(sequence: int, kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    """Return one netlink message."""
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def pair(name: str) -> bytes:
    """Return the request that makes a link, and another one at its other end."""
    info = attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"veth"))
    return (
        INFO.pack(0, 0, 0, 0, 0)
        + attribute(IFLA_IFNAME, name.encode(errors="surrogateescape") + b"\0")
        + info
    )


def done(sequence: int, code: int = 0, flags: int = 0, tail: bytes = b"") -> bytes:
    """Return the end of a dump."""
    return message(sequence, NLMSG_DONE, struct.pack("=i", -code) + tail, flags)


def error(sequence: int, code: int, text: str = "") -> bytes:
    """Return an acknowledgement (code 0) or a refusal, as with NETLINK_CAP_ACK."""
    body = struct.pack("=i", -code) + bytes(16)
    if not text:
        return message(sequence, NLMSG_ERROR, body)
    reported = attribute(NLMSGERR_ATTR_MSG, text.encode() + b"\0")
    return message(sequence, NLMSG_ERROR, body + reported, NLM_F_ACK_TLVS)


# --------------------------------------------------------------------------- dumps


def test_dump_above_the_limit_is_refused_and_the_socket_stays_usable(
    peer: Peer,
) -> None:
    for sequence, count in ((1, 3), (2, 2)):
        peer.queue(*(message(sequence, ANSWER, b"some") for _ in range(count)), done(sequence))

    with pytest.raises(KernelError, match=r"dump things: E2BIG \(12 bytes, at most 8 are read"):
        peer.netlink.dump("dump things", ANSWER, b"", max_bytes=8)
    assert peer.netlink.dump("dump things", ANSWER, b"", max_bytes=8) == [b"some", b"some"]


def test_oversized_dump_is_read_to_its_end() -> None:
    fd = new_netns()
    (route,) = sockets_in(fd, NETLINK_ROUTE)
    with closing(rtnetlink_socket(route)) as netlink:
        for number in range(100):  # some ten answers
            netlink.do("add", RTM_NEWLINK, NLM_F_CREATE, pair(f"wire{number}"))
        for _ in range(2):  # EBUSY, were the first one left half way
            with pytest.raises(KernelError, match="E2BIG"):
                dump_links(netlink, "pod", max_bytes=8192)
        assert find_link(netlink, "look", "wire7").name == "wire7"
    os.close(fd)


def test_undecodable_name_is_looked_up_unchanged(nsfd: int) -> None:
    with closing(rtnetlink_socket(*sockets_in(nsfd, NETLINK_ROUTE))) as netlink:
        netlink.do("add", RTM_NEWLINK, NLM_F_CREATE, pair("wire\udcff"))

        assert find_link(netlink, "look", "wire\udcff").name == "wire\udcff"


def test_dump_in_several_pieces_is_joined(peer: Peer) -> None:
    peer.queue(message(1, ANSWER, b"one "), message(1, ANSWER, b"two "))
    peer.queue(message(1, ANSWER, b"more"))
    peer.queue(done(1))

    assert peer.netlink.dump("dump", ANSWER, b"") == [b"one ", b"two ", b"more"]


def test_interrupted_dump_is_read_again(peer: Peer) -> None:
    peer.queue(message(1, ANSWER, b"half", NLM_F_DUMP_INTR), message(1, ANSWER, b"pict"))
    peer.queue(done(1))
    peer.queue(message(2, ANSWER, b"full"), done(2))

    assert peer.netlink.dump("dump", ANSWER, b"") == [b"full"]
    assert len(peer.requests()) == 2


def test_dump_with_an_interrupted_end_is_read_again(peer: Peer) -> None:
    peer.queue(message(1, ANSWER, b"half"), done(1, flags=NLM_F_DUMP_INTR))
    peer.queue(message(2, ANSWER, b"full"), done(2))

    assert peer.netlink.dump("dump", ANSWER, b"") == [b"full"]


def test_interrupted_dump_is_repeated_with_growing_delays(peer: Peer) -> None:
    for sequence in range(1, 40):
        peer.queue(message(sequence, ANSWER, b"half", NLM_F_DUMP_INTR), done(sequence))
    peer.queue(message(40, ANSWER, b"full"), done(40))

    assert peer.netlink.dump("dump", ANSWER, b"") == [b"full"]
    assert peer.slept == [
        min(FIRST_PAUSE_S * 2**exponent, LONGEST_PAUSE_S) for exponent in range(39)
    ]
    assert len(peer.requests()) == 40


def test_permanently_interrupted_dump_is_an_error(peer: Peer) -> None:
    most = 200
    for sequence in range(1, most):
        peer.queue(message(sequence, ANSWER, b"half", NLM_F_DUMP_INTR), done(sequence))

    with pytest.raises(KernelError) as caught:
        peer.netlink.dump("dump links in host", ANSWER, b"")

    assert caught.value.code == EINTR
    tries = len(peer.requests())
    assert str(caught.value) == (
        f"dump links in host: EINTR (changed during the read {tries} times in 3 s; try again)"
    )
    assert DUMP_S <= peer.now < DUMP_S + LONGEST_PAUSE_S
    assert DUMP_S / LONGEST_PAUSE_S <= tries < most


def test_dump_that_fails_at_its_end_is_an_error_with_the_kernel_message(peer: Peer) -> None:
    reported = attribute(NLMSGERR_ATTR_MSG, b"out of cheese\0")
    peer.queue(message(1, ANSWER, b"half"), done(1, EINVAL, NLM_F_ACK_TLVS, reported))

    with pytest.raises(KernelError, match=r"dump: EINVAL \(out of cheese\)"):
        peer.netlink.dump("dump", ANSWER, b"")


def test_refused_dump_is_an_error(peer: Peer) -> None:
    peer.queue(error(1, EINVAL, "bad filter"))

    with pytest.raises(KernelError, match=r"dump: EINVAL \(bad filter\)"):
        peer.netlink.dump("dump", ANSWER, b"")


# --------------------------------------------------------------------------- requests


def test_acknowledged_request_returns(peer: Peer) -> None:
    peer.queue(error(1, 0))

    peer.netlink.do("set eth1 up", ANSWER, 0, b"")


def test_refused_request_has_the_operation_and_the_kernel_message(peer: Peer) -> None:
    peer.queue(error(1, EINVAL, "mtu less than device minimum"))

    with pytest.raises(KernelError) as caught:
        peer.netlink.do("set mtu 10 on eth1 in host", ANSWER, 0, b"")

    assert caught.value.code == EINVAL
    assert caught.value.detail == "mtu less than device minimum"
    assert str(caught.value) == "set mtu 10 on eth1 in host: EINVAL (mtu less than device minimum)"


def test_refused_request_without_a_kernel_message_has_none(peer: Peer) -> None:
    peer.queue(error(1, EBUSY))

    with pytest.raises(KernelError) as caught:
        peer.netlink.do("rename", ANSWER, 0, b"")

    assert str(caught.value) == "rename: EBUSY"


def test_answers_to_an_earlier_request_are_ignored(peer: Peer) -> None:
    peer.queue(message(7, ANSWER, b"old "), error(7, EBUSY))
    peer.queue(message(1, ANSWER, b"mine"))

    assert peer.netlink.get("get", ANSWER, b"") == b"mine"


def test_lookup_with_only_an_acknowledgement_is_an_error(peer: Peer) -> None:
    peer.queue(error(1, 0))

    with pytest.raises(KernelError, match="no answer"):
        peer.netlink.get("get", ANSWER, b"")


@pytest.mark.parametrize("length", [70_000, 150_000])
def test_long_answer_is_read_completely(peer: Peer, length: int) -> None:
    peer.queue(message(1, ANSWER, bytes(length)))

    assert peer.netlink.get("get", ANSWER, b"") == bytes(length)


@pytest.mark.parametrize("length", [0, 15])
def test_message_with_an_impossible_length_ends_the_datagram(peer: Peer, length: int) -> None:
    peer.queue(struct.pack("=IHHII", length, ANSWER, 0, 1, 0))
    peer.queue(message(1, ANSWER, b"good"))

    assert peer.netlink.get("get", ANSWER, b"") == b"good"


def test_failed_socket_is_a_kernel_error(peer: Peer) -> None:
    peer.netlink.close()

    with pytest.raises(KernelError, match="sending to the kernel"):
        peer.netlink.do("set eth1 up", ANSWER, 0, b"")


# --------------------------------------------------------------------------- the real one


def test_real_socket_dumps_its_own_namespace(nsfd: int, no_fork: None) -> None:
    netlink = rtnetlink_socket(sockets_in(nsfd, NETLINK_ROUTE)[0])

    found = dump_links(netlink, "a fresh namespace")
    netlink.close()

    assert [link.name for link in found] == ["lo"]
