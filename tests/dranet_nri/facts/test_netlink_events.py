"""Network events from a queue: relevant events, and lost events."""

import socket
from contextlib import suppress
from errno import EAGAIN, EBADMSG, EMSGSIZE, ENETDOWN, ENOBUFS, ENOMEM
from struct import pack
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.errors import KernelError
from dranet_nri.facts.netlink_events import NetEvent, NetEventKind, NetEvents

LOST = NetEvent(NetEventKind.LOST)
ROUTE = NetEvent(NetEventKind.ROUTE)
SHARED_BLOCK = -1  # TCM_IFINDEX_MAGIC_BLOCK


class Queue:
    """A socket that doesn't block, with what is in its queue: datagrams and errnos."""

    def __init__(self, *entries: bytes | int) -> None:
        """Take what is queued."""
        self._entries = list(entries)

    def recv_into(self, buffer: bytearray, length: int, flags: int) -> int:
        """Return how long the next datagram is, or fail."""
        assert flags == socket.MSG_PEEK | socket.MSG_TRUNC
        entry = self._entries[0] if self._entries else EAGAIN
        if isinstance(entry, int):
            del self._entries[:1]
            raise OSError(entry, "as queued")
        return len(entry)

    def recv(self, length: int) -> bytes:
        """Return the next datagram."""
        return bytes(self._entries.pop(0))[:length]

    def events(self) -> list[NetEvent]:
        """Return the decoded events."""
        return list(NetEvents(cast("socket.socket", self)).pending())


def message(kind: int, body: bytes) -> bytes:
    """Return one message of rtnetlink."""
    return pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def of_link(kind: int, index: int) -> bytes:
    """Return a message about a link; its header has the index where all have it."""
    return message(kind, pack("=BxHiII", 0, 0, index, 0, 0))


def filter_(kind: int, index: int, classifier: str) -> bytes:
    """Return a message about a filter with a classifier of that kind."""
    name = classifier.encode() + b"\0"
    attribute = pack("=HH", 4 + len(name), 1) + name
    return message(kind, pack("=BxHiIII", 0, 0, index, 0, 0, 0) + attribute)


def route(kind: int, prefix: int) -> bytes:
    """Return a message about a route with a prefix of that length."""
    return message(kind, pack("=BBBBBBBBI", 2, prefix, 0, 0, 254, 0, 0, 1, 0))


@pytest.mark.parametrize(
    ("data", "event"),
    [
        (of_link(16, 7), NetEvent(NetEventKind.LINK, 7)),
        (of_link(17, 7), NetEvent(NetEventKind.LINK, 7)),
        (of_link(20, 300), NetEvent(NetEventKind.ADDRESS, 300)),
        (of_link(21, 7), NetEvent(NetEventKind.ADDRESS, 7)),
        (of_link(36, 7), NetEvent(NetEventKind.FILTER, 7)),
        (of_link(37, 7), NetEvent(NetEventKind.FILTER, 7)),
        (filter_(44, 7, "bpf"), NetEvent(NetEventKind.FILTER, 7)),
        (filter_(45, 7, "bpf"), NetEvent(NetEventKind.FILTER, 7)),
        (filter_(44, SHARED_BLOCK, "bpf"), LOST),
        (filter_(45, SHARED_BLOCK, "bpf"), LOST),
        (route(24, 0), ROUTE),
        (route(25, 0), ROUTE),
        (message(104, b""), ROUTE),
        (message(105, b""), ROUTE),
        (message(32, b""), ROUTE),
        (message(33, b""), ROUTE),
    ],
)
def test_message_is_decoded_into_an_event(data: bytes, event: NetEvent) -> None:
    assert Queue(data).events() == [event]


@pytest.mark.parametrize(
    "data",
    [
        *(route(24, 24), route(25, 1), of_link(28, 7), of_link(80, 7)),
        *(filter_(44, 7, "flower"), filter_(45, SHARED_BLOCK, "flower")),
    ],
)
def test_message_that_changes_no_device_is_ignored(data: bytes) -> None:
    assert Queue(data).events() == []


def test_queued_events_are_returned_in_order() -> None:
    queue = Queue(of_link(16, 1) + route(24, 8) + of_link(20, 1), of_link(17, 2))

    assert [event.index for event in queue.events()] == [1, 1, 2]


def test_lost_events_are_reported_and_later_events_follow() -> None:
    for code in (ENOBUFS, ENOMEM, EMSGSIZE):
        assert Queue(code, route(24, 0)).events() == [LOST, ROUTE]


def test_large_datagram_is_read_completely() -> None:
    many = of_link(16, 1) * 5000

    assert Queue(many, of_link(17, 2)).events() == [
        *[NetEvent(NetEventKind.LINK, 1)] * 5000,
        NetEvent(NetEventKind.LINK, 2),
    ]


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        pytest.param(ENETDOWN, ENETDOWN, id="socket-fails"),
        pytest.param(message(16, b"\0" * 7), EBADMSG, id="short-link"),
        pytest.param(message(24, b"\0" * 11), EBADMSG, id="short-route"),
    ],
)
def test_unreadable_queue_is_a_kernel_error(entry: bytes | int, code: int) -> None:
    with pytest.raises(KernelError) as caught:
        Queue(entry).events()

    assert caught.value.code == code


@given(st.lists(st.binary(max_size=64), max_size=8))
def test_any_bytes_are_events_or_a_kernel_error(entries: list[bytes]) -> None:
    framed = [message(kind, data) for data in entries for kind in (16, 24, 36, 104)]
    with suppress(KernelError):
        Queue(*entries).events()
    with suppress(KernelError):
        assert len(Queue(*framed).events()) <= len(framed)
