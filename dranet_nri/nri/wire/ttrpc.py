"""ttrpc in one logical connection: unary calls in messages with 10-byte headers.

Rules:
1. A message is parsed from the byte stream of its connection, not from mux frames.
2. A malformed message is answered on its stream, and the connection continues.
3. Status code 12 is sent only for an unknown service or method: after it, a runtime uses the older
   event style for the rest of the connection.
"""

import struct
from collections.abc import Set
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from google.protobuf.message import DecodeError

from dranet_nri._gen import ttrpc_pb2
from dranet_nri.errors import ProtocolError
from dranet_nri.nri.wire.buffer import ByteBuffer

HEADER: Final = struct.Struct(">IIBB")  # data length, stream id, message type, flags

MAX_DATA: Final = 4 << 20  # ttrpc's limit of one message
# ttrpc before 1.2.6 does not check sent messages, so that an old runtime sends the list of a large
# node in one message, up to its mux limit of 16 MiB.
MAX_RECEIVE: Final = 16 << 20
MAX_OPEN: Final = 1024  # unanswered calls; a runtime makes one at a time, or one per pod
MAX_STATUS_TEXT: Final = 4096  # characters; shown in one line of a pod's event


class MessageType(IntEnum):
    """Third field of the header. DATA belongs to streaming calls, which NRI does not use."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class RpcCode(IntEnum):
    """The gRPC status codes that are sent or expected here."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


@dataclass(frozen=True, slots=True)
class TtrpcMessage:
    """One ttrpc message. length is from the header; data is empty above MAX_RECEIVE."""

    stream: int
    type: int
    length: int
    data: bytes


@dataclass(frozen=True, slots=True)
class TtrpcCall:
    """An unanswered request.

    Attributes:
        timeout_nano: remaining time when it was sent; 0 no limit, negative expired.
    """

    stream: int
    method: str
    payload: bytes
    timeout_nano: int


@dataclass(frozen=True, slots=True)
class RpcStatus:
    """The reason of a failed call. code may be any number; details are serialized Any."""

    code: int
    message: str
    details: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class TtrpcResponse:
    """Response of a call; status is None for a success."""

    stream: int
    payload: bytes
    status: RpcStatus | None = None


def encode_message(stream: int, kind: int, data: bytes, flags: int = 0) -> bytes:
    """Put a ttrpc header before data."""
    return HEADER.pack(len(data), stream, kind, flags) + data


def printable(text: str) -> str:
    """Return text as valid UTF-8 of bounded length, for a status."""
    return text[:MAX_STATUS_TEXT].encode("utf-8", "replace").decode("utf-8")


class MessageDecoder:
    """Decoder of one logical connection's byte stream into messages."""

    def __init__(self) -> None:
        """Start at a message boundary."""
        self._buffer = ByteBuffer()
        self._header: tuple[int, int, int] | None = None
        self._discard = 0

    def feed(self, data: bytes) -> None:
        """Add bytes; call next_message until None before the next feed."""
        self._buffer.append(data)

    def next_message(self) -> TtrpcMessage | None:
        """Return the next whole message, or None until more bytes are fed.

        The data of a message above MAX_RECEIVE is dropped as it arrives.
        """
        self._discard -= self._buffer.skip(self._discard)
        if self._header is None:
            if len(self._buffer) < HEADER.size:
                return None
            length, stream, kind, _flags = HEADER.unpack(self._buffer.take(HEADER.size))
            if length > MAX_RECEIVE:
                self._discard = length
                return TtrpcMessage(stream, kind, length, b"")
            self._header = (length, stream, kind)
        length, stream, kind = self._header
        if len(self._buffer) < length:
            return None
        self._header = None
        return TtrpcMessage(stream, kind, length, self._buffer.take(length))

    def close(self) -> None:
        """Accept that no more bytes come.

        Raises:
            ProtocolError: they end inside a message.
        """
        if self._discard or self._header is not None or self._buffer:
            raise ProtocolError("ttrpc: the stream ended inside a message")


class TtrpcServer:
    """Server side: decodes requests, encodes answers in any order."""

    def __init__(self, service: str, methods: Set[str], large_methods: Set[str]) -> None:
        """Serve the methods of one service.

        Args:
            service: full name of the service.
            methods: bare names of its methods.
            large_methods: those whose requests may exceed MAX_DATA, up to MAX_RECEIVE.
        """
        self._service = service
        self._methods = methods
        self._large_methods = large_methods
        self._decoder = MessageDecoder()
        self._last_stream = 0
        self._open: set[int] = set()
        self._outgoing: list[bytes] = []

    def receive(self, data: bytes) -> list[TtrpcCall]:
        """Process bytes; return the calls to answer. Invalid ones are answered here.

        Raises:
            ProtocolError: more than MAX_OPEN calls are unanswered.
        """
        self._decoder.feed(data)
        calls = []
        while (message := self._decoder.next_message()) is not None:
            match message.type:
                case MessageType.REQUEST:
                    call = self._accept(message)
                    if call is not None:
                        calls.append(call)
                case MessageType.DATA:
                    self._respond(message.stream, RpcCode.INVALID_ARGUMENT, "no such stream")
                case _:  # not for a server; the reference implementation ignores it, too
                    pass
        return calls

    def _accept(self, message: TtrpcMessage) -> TtrpcCall | None:
        stream = message.stream
        if stream % 2 == 0:
            self._respond(stream, RpcCode.INVALID_ARGUMENT, "the stream id of a call must be odd")
            return None
        if stream <= self._last_stream:
            self._respond(stream, RpcCode.INVALID_ARGUMENT, "stream ids of calls must increase")
            return None
        self._last_stream = stream
        problem = self._read_request(message)
        if isinstance(problem, TtrpcCall):
            if len(self._open) == MAX_OPEN:
                raise ProtocolError(f"ttrpc: more than {MAX_OPEN} calls wait for their answers")
            self._open.add(stream)
            return problem
        self._respond(stream, *problem)
        return None

    def _read_request(self, message: TtrpcMessage) -> TtrpcCall | tuple[RpcCode, str]:
        too_large = (
            RpcCode.RESOURCE_EXHAUSTED,
            f"message of {message.length} bytes, limit {MAX_DATA}",
        )
        if message.length > MAX_RECEIVE:
            return too_large
        try:
            request = ttrpc_pb2.Request.FromString(message.data)
        except DecodeError as error:
            return RpcCode.INVALID_ARGUMENT, f"the request cannot be decoded: {error}"
        if message.length > MAX_DATA and request.method not in self._large_methods:
            return too_large
        if request.service != self._service:
            return RpcCode.UNIMPLEMENTED, f"service {request.service}"
        if request.method not in self._methods:
            return RpcCode.UNIMPLEMENTED, f"method {request.method}"
        return TtrpcCall(message.stream, request.method, request.payload, request.timeout_nano)

    def reply(self, stream: int, payload: bytes) -> None:
        """Answer an open call with success, or with RESOURCE_EXHAUSTED if it is too large.

        Raises:
            KeyError: the call is not open; it was answered before.
        """
        data = ttrpc_pb2.Response(payload=payload).SerializeToString()
        self._open.remove(stream)
        if len(data) > MAX_DATA:
            text = f"answer of {len(data)} bytes, limit {MAX_DATA}"
            self._respond(stream, RpcCode.RESOURCE_EXHAUSTED, text)
        else:
            self._outgoing.append(encode_message(stream, MessageType.RESPONSE, data))

    def fail(self, stream: int, code: RpcCode, text: str) -> None:
        """Answer an open call with an error.

        Raises:
            KeyError: the call is not open; it was answered before.
        """
        self._open.remove(stream)
        self._respond(stream, code, text)

    def _respond(self, stream: int, code: RpcCode, text: str) -> None:
        status = ttrpc_pb2.Status(code=code, message=printable(text))
        data = ttrpc_pb2.Response(status=status).SerializeToString()
        self._outgoing.append(encode_message(stream, MessageType.RESPONSE, data))

    def messages_to_send(self) -> list[bytes]:
        """Return the messages made since the last time, in order."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def close(self) -> None:
        """Accept that no more bytes come.

        Raises:
            ProtocolError: they end inside a message.
        """
        self._decoder.close()


class TtrpcClient:
    """Client side: encodes calls, decodes answers, matched by stream id."""

    def __init__(self) -> None:
        """Start with stream id 1."""
        self._decoder = MessageDecoder()
        self._next_stream = 1
        self._pending: set[int] = set()
        self._outgoing: list[bytes] = []

    def call(self, service: str, method: str, payload: bytes, timeout_nano: int = 0) -> int:
        """Queue a call; return its stream id."""
        stream = self._next_stream
        self._next_stream += 2
        self._pending.add(stream)
        request = ttrpc_pb2.Request(
            service=service, method=method, payload=payload, timeout_nano=timeout_nano
        )
        data = request.SerializeToString()
        self._outgoing.append(encode_message(stream, MessageType.REQUEST, data))
        return stream

    def receive(self, data: bytes) -> list[TtrpcResponse]:
        """Process bytes; return the answers to pending calls, ignore others.

        Raises:
            ProtocolError: the answer to a pending call is not a response.
        """
        self._decoder.feed(data)
        answers = []
        while (message := self._decoder.next_message()) is not None:
            if message.stream not in self._pending:
                continue
            if message.type != MessageType.RESPONSE:
                raise ProtocolError(
                    f"ttrpc stream {message.stream}: message type {message.type}, not a response"
                )
            self._pending.remove(message.stream)
            answers.append(_answer_from_message(message))
        return answers

    def messages_to_send(self) -> list[bytes]:
        """Return the messages made since the last time, in order."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def abandon(self) -> tuple[int, ...]:
        """Drop all pending calls; return their stream ids."""
        lost = tuple(sorted(self._pending))
        self._pending.clear()
        return lost

    def close(self) -> None:
        """Accept that no more bytes come.

        Raises:
            ProtocolError: they end inside a message.
        """
        self._decoder.close()


def _answer_from_message(message: TtrpcMessage) -> TtrpcResponse:
    if message.length > MAX_RECEIVE:
        text = f"answer of {message.length} bytes, limit {MAX_RECEIVE}"
        return TtrpcResponse(message.stream, b"", RpcStatus(RpcCode.RESOURCE_EXHAUSTED, text))
    try:
        response = ttrpc_pb2.Response.FromString(message.data)
    except DecodeError as error:
        text = f"the answer cannot be decoded: {error}"
        return TtrpcResponse(message.stream, b"", RpcStatus(RpcCode.INTERNAL, text))
    if response.status.code == RpcCode.OK:
        return TtrpcResponse(message.stream, response.payload)
    details = tuple(detail.SerializeToString() for detail in response.status.details)
    status = RpcStatus(response.status.code, response.status.message, details)
    return TtrpcResponse(message.stream, b"", status)
