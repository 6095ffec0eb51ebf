"""Dumps of rtnetlink as raw attributes: the smallest reader that a scan of 500 links can afford.

Rules:
1. The socket is opened in the namespace of the calling thread and closed before returning.
2. Nothing is sent but dump requests, which need no privilege.
3. A dump that changed under our feet is asked for again, then taken as it is.

Message formats: linux/netlink.h, linux/rtnetlink.h.
"""

import errno
import socket
import struct
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from dranet_nri.errors import KernelError

RTM_GETLINK: Final = 18
RTM_GETADDR: Final = 22
RTM_GETROUTE: Final = 26
RTM_GETQDISC: Final = 38
RTM_GETTFILTER: Final = 46
RTM_GETNEXTHOP: Final = 106

_HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTRIBUTE: Final = struct.Struct("=HH")  # length, type
_ATTRIBUTE_TYPE: Final = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_REQUEST_DUMP: Final = 0x301  # NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH
_INTERRUPTED: Final = 0x10  # NLM_F_DUMP_INTR
_ERROR: Final = 2
_DONE: Final = 3
_SOL_NETLINK: Final = 270
_STRICT: Final = 12  # NETLINK_GET_STRICT_CHK: the kernel filters dumps by the header we send
_MORE_TRIES: Final = 4
_TIMEOUT_S: Final = 10.0
_RECEIVE_BYTES: Final = 1 << 18  # the kernel fills at most 32 KiB per read, save one big message


def attributes(payload: bytes, offset: int = 0) -> dict[int, bytes]:
    """Return type -> value of the attributes from offset on; of equal types the last one."""
    return dict(attribute_list(payload, offset))


def attribute_list(payload: bytes, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (type, value) in the order of the message; stop at the first malformed one."""
    end = len(payload)
    while offset + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(payload, offset)
        if length < 4 or offset + length > end:
            return
        yield kind & _ATTRIBUTE_TYPE, payload[offset + 4 : offset + length]
        offset += (length + 3) & ~3


class RouteSocket:
    """One NETLINK_ROUTE socket for dumps; a context manager."""

    def __init__(self) -> None:
        """Open the socket in the thread's own network namespace.

        Raises:
            KernelError: the socket cannot be opened.
        """
        self._sequence = 0
        try:
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
            )
            self._socket.settimeout(_TIMEOUT_S)
            self._socket.bind((0, 0))
            self._socket.setsockopt(_SOL_NETLINK, _STRICT, 1)
        except OSError as error:
            raise KernelError("open a netlink socket", error.errno or 0) from error

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the socket."""
        self._socket.close()

    def dump(self, request: int, header: bytes) -> list[bytes]:
        """Return the payload of each message of one consistent dump.

        Args:
            request: RTM_GET*.
            header: the family header, whose fields the kernel takes as a filter.

        Raises:
            KernelError: the kernel refused, or did not answer within ten seconds.
        """
        payloads, consistent = self._dump_once(request, header)
        for _ in range(_MORE_TRIES):
            if consistent:
                break
            payloads, consistent = self._dump_once(request, header)
        return payloads

    def _dump_once(self, request: int, header: bytes) -> tuple[list[bytes], bool]:
        self._sequence += 1
        size = _HEADER.size + len(header)
        message = _HEADER.pack(size, request, _REQUEST_DUMP, self._sequence, 0) + header
        payloads: list[bytes] = []
        consistent = True
        try:
            self._socket.send(message)
            while True:
                data = self._socket.recv(_RECEIVE_BYTES)
                for kind, flags, payload in self._messages(data):
                    consistent = consistent and not flags & _INTERRUPTED
                    if kind in (_ERROR, _DONE):
                        _check(request, payload)
                        return payloads, consistent
                    payloads.append(payload)
        except OSError as error:
            code = errno.ETIMEDOUT if isinstance(error, TimeoutError) else error.errno or 0
            raise KernelError(f"dump by rtnetlink request {request}", code) from error

    def _messages(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        offset = 0
        while offset + _HEADER.size <= len(data):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
            if length < _HEADER.size:
                return
            if sequence == self._sequence:
                yield kind, flags, data[offset + _HEADER.size : offset + length]
            offset += (length + 3) & ~3


def _check(request: int, payload: bytes) -> None:
    """Raise if the last message of a dump carries an error; both kinds of it can."""
    code = int.from_bytes(payload[:4], sys.byteorder, signed=True)
    if code < 0:
        raise KernelError(f"dump by rtnetlink request {request}", -code)
