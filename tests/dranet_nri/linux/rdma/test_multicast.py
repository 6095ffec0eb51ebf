"""RDMA monitor on a queue that is empty, overflowed or broken."""

import socket
from errno import EAGAIN, EBADMSG, ENETDOWN, ENOBUFS
from typing import cast

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import attribute
from dranet_nri.linux.rdma import codec
from dranet_nri.linux.rdma.multicast import RdmaMonitor
from dranet_nri.linux.rdma.types import RdmaEvent


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

    def monitor(self) -> RdmaMonitor:
        """Return a monitor of this queue."""
        return RdmaMonitor(cast("socket.socket", self))


def message(kind: int, event: int) -> bytes:
    """Return one message with an event."""
    body = attribute(codec.EVENT_TYPE, bytes([event]))
    head = (16 + len(body)).to_bytes(4, "little") + kind.to_bytes(2, "little")
    return head + bytes(10) + body


REGISTER, UNREGISTER, LOST = RdmaEvent.REGISTER, RdmaEvent.UNREGISTER, RdmaEvent.LOST


def test_empty_queue_has_no_pending_events() -> None:
    assert list(Queue().monitor().pending()) == []


def test_queued_events_are_returned_in_order() -> None:
    queue = Queue(message(codec.MONITOR, 0) + message(codec.MONITOR, 1), message(codec.MONITOR, 0))

    assert list(queue.monitor().pending()) == [REGISTER, UNREGISTER, REGISTER]


def test_message_that_is_no_event_is_ignored() -> None:
    queue = Queue(message(codec.GET, 0), message(codec.MONITOR, 1))

    assert list(queue.monitor().pending()) == [UNREGISTER]


def test_lost_events_are_reported_and_later_events_follow() -> None:
    queue = Queue(ENOBUFS, message(codec.MONITOR, 1))

    assert list(queue.monitor().pending()) == [LOST, UNREGISTER]


def test_large_datagram_is_read_completely() -> None:
    queue = Queue(message(codec.MONITOR, 1) * 5000)

    assert list(queue.monitor().pending()) == [UNREGISTER] * 5000


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        pytest.param(ENETDOWN, ENETDOWN, id="socket-fails"),
        pytest.param(message(codec.MONITOR, 0)[:-8], EBADMSG, id="no-event-type"),
    ],
)
def test_unreadable_queue_is_a_kernel_error(entry: bytes | int, code: int) -> None:
    with pytest.raises(KernelError) as caught:
        list(Queue(entry).monitor().pending())

    assert caught.value.code == code
