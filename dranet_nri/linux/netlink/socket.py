"""Netlink socket of any family: acknowledged requests, single queries and dumps.

Rules:
1. Every failure is a KernelError, with the text of the kernel's extended ack, if any.
2. An inconsistent dump (NLM_F_DUMP_INTR) is repeated with back-off until DUMP_S; a partial dump is
   not returned.
3. Dumps and queries need no privilege.
4. Messages of any length are read completely: pods can make them longer by attributes.
"""

import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from errno import E2BIG, EINTR, EINVAL
from typing import Final, NamedTuple

from dranet_nri.component.backoff import Backoff
from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import HEADER_LEN, attributes, text

SOL_NETLINK: Final = 270
NETLINK_CAP_ACK: Final = 10  # linux/netlink.h
NETLINK_EXT_ACK: Final = 11
NETLINK_GET_STRICT_CHK: Final = 12

NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3
NLM_F_REQUEST: Final = 0x001
NLM_F_ACK: Final = 0x004
NLM_F_DUMP_INTR: Final = 0x010
NLM_F_ACK_TLVS: Final = 0x200
NLM_F_DUMP: Final = 0x300
NLMSGERR_ATTR_MSG: Final = 1

DUMP_S: Final = 3.0  # in which the last repetition of a dump starts
FIRST_PAUSE_S: Final = 0.001  # before a dump is repeated; doubles
LONGEST_PAUSE_S: Final = 0.05
# The kernel puts small messages together into datagrams of up to 32 KiB (netlink_recvmsg).
BUFFER_LEN: Final = 65536

Change = tuple[int, int, bytes]  # type, NLM_F_* and body of a request, see NetlinkSocket.do

_LAST: Final = frozenset({NLMSG_DONE, NLMSG_ERROR})
_LENGTH_ALONE: Final = int(socket.MSG_PEEK | socket.MSG_TRUNC)
_HEADER: Final = struct.Struct("=IHHII")  # struct nlmsghdr
_ERROR: Final = struct.Struct("=i")


class NetlinkMessage(NamedTuple):
    """One message from the kernel; body is the part after struct nlmsghdr.

    A tuple, because a dump creates hundreds.
    """

    kind: int
    flags: int
    sequence: int
    body: bytes


class NetlinkSocket:
    """Socket in one namespace, for one thread at a time."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take over a netlink socket, or a fake of one.

        Args:
            sock: the socket.
            clock: monotonic seconds.
            sleep: waits that many seconds.
        """
        self._socket = sock
        self._clock = clock
        self._sleep = sleep
        self._sequence = 0

    def do(self, what: str, kind: int, flags: int, body: bytes) -> None:
        """Send a request that changes something and wait for the acknowledgement.

        Args:
            what: name of the operation in errors.
            kind: type of the message (RTM_*, RDMA_NLDEV_CMD_*).
            flags: NLM_F_* besides REQUEST and ACK.
            body: encoded, without struct nlmsghdr.

        Raises:
            KernelError: the kernel refused.
        """
        self.do_all(what, [(kind, flags, body)])

    def do_all(self, what: str, changes: Sequence[Change]) -> None:
        """Send several requests at once and wait for their acknowledgements.

        They are one datagram, and the kernel processes all of it, even if one is refused or the
        process is killed.

        Raises:
            KernelError: the first refusal.
        """
        refused: KernelError | None = None
        waiting = len(changes)
        self._send(what, [(kind, flags | NLM_F_ACK, body) for kind, flags, body in changes])
        for message in self._replies(what, waiting):
            if message.kind == NLMSG_ERROR:
                refused = refused or _failure(what, message)
                waiting -= 1
            if not waiting:
                break
        if refused:
            raise refused

    def get(self, what: str, kind: int, body: bytes) -> bytes:
        """Request one object and return its body.

        Raises:
            KernelError: the object does not exist, or the kernel refused.
        """
        self._send(what, [(kind, 0, body)])
        for message in self._replies(what):
            if message.kind not in _LAST:
                return message.body
            _raise_if_failed(what, message)
            break
        raise KernelError(what, EINVAL, "the kernel sent no answer")

    def dump(self, what: str, kind: int, body: bytes, max_bytes: int | None = None) -> list[bytes]:
        """Return the bodies of all matching objects.

        Args:
            what: name of the operation in errors.
            kind: type of the message.
            body: body of the request.
            max_bytes: limit of all bodies in bytes, None for no limit.

        Raises:
            KernelError: the kernel refused; EINTR: each dump within DUMP_S was inconsistent;
                E2BIG: the limit is exceeded.
        """
        end, backoff = self._clock() + DUMP_S, Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            found = self._dump_once(
                what, kind, body, sys.maxsize if max_bytes is None else max_bytes
            )
            if found is not None:
                return found
            if self._clock() >= end:
                times = f"{backoff.failures + 1} times in {DUMP_S:g} s"
                raise KernelError(what, EINTR, f"changed during the read {times}; try again")
            self._sleep(backoff.next_s())

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._socket.close()

    def _dump_once(self, what: str, kind: int, body: bytes, max_bytes: int) -> list[bytes] | None:
        """Return the bodies, None if the kernel reports an inconsistent dump."""
        self._send(what, [(kind, NLM_F_DUMP, body)])
        found: list[bytes] = []
        size = all_flags = 0
        while True:
            data, offset = self._received(what), 0
            # Without _replies(), which takes four times as long: a dump has hundreds of messages.
            while offset + HEADER_LEN <= len(data):
                length, answer, flags, sequence, _ = _HEADER.unpack_from(data, offset)
                if length < HEADER_LEN:
                    break
                payload = data[offset + HEADER_LEN : offset + length]
                offset += (length + 3) & ~3
                if sequence != self._sequence:
                    continue
                all_flags |= flags
                if answer in _LAST:
                    _raise_if_failed(what, NetlinkMessage(answer, flags, sequence, payload))
                    if size > max_bytes:
                        raise KernelError(
                            what, E2BIG, f"{size} bytes, at most {max_bytes} are read"
                        )
                    return None if all_flags & NLM_F_DUMP_INTR else found
                size += len(payload)
                if size <= max_bytes:  # the rest is read as well: a dump must be read to its end
                    found.append(payload)

    def _send(self, what: str, requests: Sequence[Change]) -> None:
        data = bytearray()
        for kind, flags, body in requests:
            self._sequence += 1
            data += _HEADER.pack(
                HEADER_LEN + len(body), kind, flags | NLM_F_REQUEST, self._sequence, 0
            )
            data += body + bytes(-len(body) % 4)
        try:
            self._socket.send(data)
        except OSError as error:
            raise KernelError(what, error.errno or EINVAL, "sending to the kernel") from error

    def _received(self, what: str) -> bytes:
        """Return the next datagram."""
        try:
            return receive(self._socket)
        except OSError as error:
            raise KernelError(what, error.errno or EINVAL, "reading the answer") from error

    def _replies(self, what: str, requests: int = 1) -> Iterator[NetlinkMessage]:
        """Yield the answers to the last requests; skip those to earlier ones."""
        while True:
            for message in messages(self._received(what)):
                if 0 <= self._sequence - message.sequence < requests:
                    yield message


def open_socket(protocol: int) -> socket.socket:
    """Open a netlink socket in the calling thread's own namespace.

    Args:
        protocol: NETLINK_* (linux/netlink.h).

    Raises:
        KernelError: EPROTONOSUPPORT: the kernel lacks the protocol; or it has no netlink.
    """
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    try:
        return socket.socket(socket.AF_NETLINK, kind, protocol)
    except OSError as error:
        raise KernelError(f"open netlink socket {protocol}", error.errno or EINVAL) from error


def enable_strict_checks(sock: socket.socket) -> None:
    """Enable strict checks and extended acks; close the socket on failure.

    Raises:
        KernelError: the kernel is older than 4.20; the socket is closed.
    """
    try:
        for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK):
            sock.setsockopt(SOL_NETLINK, option, 1)
    except OSError as error:
        sock.close()
        raise KernelError(
            "open netlink socket", error.errno or EINVAL, "Linux 4.20 or newer is needed"
        ) from error


def receive(sock: socket.socket, buffer_len: int = BUFFER_LEN) -> bytes:
    """Return the next complete datagram. One thread at a time may read the socket.

    Its length is read first: that of a link with many altnames exceeds 64 KiB.

    Args:
        sock: the socket.
        buffer_len: least bytes of the buffer; in a dump the kernel fills it.

    Raises:
        OSError: there is no datagram now, or the socket failed.
    """
    length = sock.recv_into(bytearray(1), 1, _LENGTH_ALONE)
    return sock.recv(max(length, buffer_len))


def messages(data: bytes) -> Iterator[NetlinkMessage]:
    """Yield the messages of one datagram, up to a malformed one."""
    offset = 0
    while offset + HEADER_LEN <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        if length < HEADER_LEN:
            return
        yield NetlinkMessage(kind, flags, sequence, data[offset + HEADER_LEN : offset + length])
        offset += (length + 3) & ~3


def _raise_if_failed(what: str, message: NetlinkMessage) -> None:
    failure = _failure(what, message)
    if failure is not None:
        raise failure


def _failure(what: str, message: NetlinkMessage) -> KernelError | None:
    """Return the negative errno in NLMSG_ERROR or NLMSG_DONE, with the extended ack's text."""
    code = -_ERROR.unpack_from(message.body)[0] if len(message.body) >= _ERROR.size else 0
    if code == 0:
        return None
    detail = ""
    if message.flags & NLM_F_ACK_TLVS:
        # With NETLINK_CAP_ACK an error has the request's header only, a done has none.
        start = _ERROR.size + (HEADER_LEN if message.kind == NLMSG_ERROR else 0)
        detail = text(attributes(message.body, start).get(NLMSGERR_ATTR_MSG))
    return KernelError(what, code, detail)
