"""ttrpc messages and the serving side: conformance cases 2, 8, 12 to 20, 23 and 24."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dranet_nri._gen import ttrpc_pb2
from dranet_nri.errors import ProtocolError
from dranet_nri.nri.wire import ttrpc
from dranet_nri.nri.wire.ttrpc import (
    HEADER,
    MAX_DATA,
    MAX_OPEN,
    MAX_RECEIVE,
    MAX_STATUS_TEXT,
    MessageDecoder,
    MessageType,
    RpcCode,
    TtrpcClient,
    TtrpcMessage,
    TtrpcServer,
    encode_message,
    printable,
)
from tests.dranet_nri.nri.wire.streams import cut, messages

SERVICE = "a.Service"


def server() -> TtrpcServer:
    return TtrpcServer(SERVICE, {"Do", "Bulk"}, {"Bulk"})


def request(
    stream: int, method: str = "Do", *, service: str = SERVICE, payload: bytes = b"", flags: int = 0
) -> bytes:
    body = ttrpc_pb2.Request(service=service, method=method, payload=payload)
    return encode_message(stream, MessageType.REQUEST, body.SerializeToString(), flags)


def request_of_length(length: int, stream: int, method: str) -> bytes:
    """Return a request whose data has exactly that length."""
    for overhead in range(40):
        data = request(stream, method, payload=bytes(length - overhead))
        if len(data) == HEADER.size + length:
            return data
    raise AssertionError(length)


def sent_statuses(of: TtrpcServer) -> list[tuple[int, int]]:
    """Return (stream, code) of every answer that waits."""
    found = []
    for message in messages(b"".join(of.messages_to_send())):
        assert message.type == MessageType.RESPONSE
        found.append((message.stream, ttrpc_pb2.Response.FromString(message.data).status.code))
    return found


# --- messages


@given(st.lists(st.binary(max_size=50), max_size=5), st.lists(st.integers(0, 300), max_size=9))
def test_messages_survive_any_split(bodies: list[bytes], places: list[int]) -> None:
    stream = b"".join(encode_message(i, 1, body) for i, body in enumerate(bodies))
    decoder, found = MessageDecoder(), []

    for piece in cut(stream, places):
        decoder.feed(piece)
        while (message := decoder.next_message()) is not None:
            found.append(message)

    decoder.close()
    assert found == [TtrpcMessage(i, 1, len(body), body) for i, body in enumerate(bodies)]


def test_case_02_message_of_single_bytes_takes_linear_time() -> None:
    # Scanning a 256 KiB message again with every byte would take minutes.
    stream = encode_message(1, 1, bytes(256 << 10))
    decoder = MessageDecoder()

    for i in range(len(stream) - 1):
        decoder.feed(stream[i : i + 1])
        assert decoder.next_message() is None
    decoder.feed(stream[-1:])

    assert decoder.next_message() == TtrpcMessage(1, 1, 256 << 10, bytes(256 << 10))


@pytest.mark.parametrize("length", [MAX_RECEIVE + 1, 0xFFFFFFFF])
def test_data_above_the_receive_limit_is_dropped_on_arrival(length: int) -> None:
    decoder = MessageDecoder()
    decoder.feed(HEADER.pack(length, 5, 1, 0) + b"x" * 100)

    assert decoder.next_message() == TtrpcMessage(5, 1, length, b"")
    assert decoder.next_message() is None
    with pytest.raises(ProtocolError, match="inside a message"):
        decoder.close()


def test_stream_is_in_sync_after_dropped_data() -> None:
    decoder = MessageDecoder()
    decoder.feed(HEADER.pack(MAX_RECEIVE + 1, 5, 1, 0))
    assert decoder.next_message() is not None
    for _ in range(16):
        decoder.feed(bytes(1 << 20))
        assert decoder.next_message() is None

    decoder.feed(b"\0" + encode_message(7, 1, b"ok"))

    assert decoder.next_message() == TtrpcMessage(7, 1, 2, b"ok")
    decoder.close()


@pytest.mark.parametrize("offset", [1, 9, 10, 12])
def test_case_08_end_inside_a_message_is_an_error(offset: int) -> None:
    decoder = MessageDecoder()
    decoder.feed(encode_message(1, 1, b"data")[:offset])
    decoder.next_message()

    with pytest.raises(ProtocolError, match="inside a message"):
        decoder.close()


@given(st.lists(st.binary(max_size=40)))
@example([HEADER.pack(MAX_RECEIVE, 1, 1, 0)])
@example([HEADER.pack(MAX_RECEIVE + 1, 1, 1, 0)])
@example([encode_message(1, 1, b"\xff\xff")])
def test_malformed_bytes_are_answered_or_refused_as_a_protocol_error(pieces: list[bytes]) -> None:
    serving, calling = server(), TtrpcClient()
    calling.call(SERVICE, "Do", b"")
    for piece in pieces:
        serving.receive(piece)
        try:
            calling.receive(piece)
        except ProtocolError:
            break
    for side in (serving, calling):
        with suppress(ProtocolError):
            side.close()


# --- server


def test_call_has_the_fields_of_the_request() -> None:
    body = ttrpc_pb2.Request(service=SERVICE, method="Do", payload=b"p", timeout_nano=-7)

    calls = server().receive(encode_message(1, 1, body.SerializeToString()))

    assert calls == [ttrpc.TtrpcCall(1, "Do", b"p", -7)]


@pytest.mark.parametrize(
    ("service", "method", "text"),
    [
        pytest.param("other", "Do", "service other", id="service"),
        pytest.param(SERVICE, "Else", "method Else", id="method"),
        pytest.param("", "", "service ", id="empty"),
    ],
)
def test_case_12_unknown_service_or_method_is_unimplemented(
    service: str, method: str, text: str
) -> None:
    serving = server()

    assert serving.receive(request(1, method, service=service)) == []

    (message,) = messages(b"".join(serving.messages_to_send()))
    status = ttrpc_pb2.Response.FromString(message.data).status
    assert (message.stream, status.code, status.message) == (1, RpcCode.UNIMPLEMENTED, text)
    assert len(serving.receive(request(3))) == 1


def test_case_13_stream_ids_are_odd_and_increasing_with_gaps() -> None:
    serving = server()

    calls = serving.receive(
        request(5) + request(6) + request(5) + request(3) + request(0) + request(99)
    )

    assert [call.stream for call in calls] == [5, 99]
    assert sent_statuses(serving) == [(s, RpcCode.INVALID_ARGUMENT) for s in (6, 5, 3, 0)]


def test_case_14_undecodable_request_is_an_invalid_argument() -> None:
    serving = server()

    assert serving.receive(encode_message(1, 1, b"\xff\xff\xff")) == []

    assert sent_statuses(serving) == [(1, RpcCode.INVALID_ARGUMENT)]


@pytest.mark.parametrize(
    ("length", "method", "accepted"),
    [
        pytest.param(MAX_DATA, "Do", True, id="4 MiB"),
        pytest.param(MAX_DATA + 1, "Do", False, id="4 MiB + 1"),
        pytest.param(MAX_DATA + 1, "Bulk", True, id="4 MiB + 1 of a large method"),
        pytest.param(MAX_RECEIVE, "Bulk", True, id="16 MiB of a large method"),
        pytest.param(MAX_RECEIVE + 1, "Bulk", False, id="16 MiB + 1 of a large method"),
    ],
)
@pytest.mark.parametrize("piece", [4096, 1 << 20])
def test_case_15_oversized_messages_get_code_8_and_the_stream_stays_in_sync(
    *, length: int, method: str, accepted: bool, piece: int
) -> None:
    serving = server()
    stream = request_of_length(length, 1, method) + request(3)

    calls = []
    for start in range(0, len(stream), piece):
        calls += serving.receive(stream[start : start + piece])

    assert [call.stream for call in calls] == ([1, 3] if accepted else [3])
    assert sent_statuses(serving) == ([] if accepted else [(1, RpcCode.RESOURCE_EXHAUSTED)])


def test_case_16_data_is_refused_and_other_types_are_ignored() -> None:
    serving = server()

    calls = serving.receive(
        encode_message(1, MessageType.DATA, b"x")
        + encode_message(1, 9, b"x")
        + encode_message(1, MessageType.RESPONSE, b"x")
        + request(1)
    )

    assert [call.stream for call in calls] == [1]
    assert sent_statuses(serving) == [(1, RpcCode.INVALID_ARGUMENT)]


def test_case_17_flags_are_ignored_and_an_empty_request_is_unimplemented() -> None:
    serving = server()

    calls = serving.receive(request(1, flags=0xFF) + encode_message(3, 1, b""))

    assert [call.stream for call in calls] == [1]
    assert sent_statuses(serving) == [(3, RpcCode.UNIMPLEMENTED)]


def test_case_18_calls_are_answered_in_any_order() -> None:
    serving = server()
    serving.receive(b"".join(request(stream) for stream in range(1, 41, 2)))

    for stream in reversed(range(1, 41, 2)):
        serving.reply(stream, b"%d" % stream)

    answers = messages(b"".join(serving.messages_to_send()))
    assert [message.stream for message in answers] == list(reversed(range(1, 41, 2)))
    payloads = [ttrpc_pb2.Response.FromString(message.data).payload for message in answers]
    assert payloads == [b"%d" % stream for stream in reversed(range(1, 41, 2))]


@pytest.mark.parametrize("again", ["reply", "fail"])
def test_call_is_answered_once(again: str) -> None:
    serving = server()
    serving.receive(request(1))
    serving.reply(1, b"")

    with pytest.raises(KeyError):
        serving.reply(1, b"") if again == "reply" else serving.fail(1, RpcCode.UNKNOWN, "")


@pytest.mark.parametrize(
    ("excess", "code"),
    [(0, RpcCode.OK), (1, RpcCode.RESOURCE_EXHAUSTED)],
    ids=["4 MiB", "4 MiB + 1"],
)
def test_case_20_answer_above_4_mib_becomes_code_8(excess: int, code: RpcCode) -> None:
    serving = server()
    serving.receive(request(1) + request(3))
    overhead = len(ttrpc_pb2.Response(payload=bytes(MAX_DATA)).SerializeToString()) - MAX_DATA

    serving.reply(1, bytes(MAX_DATA - overhead + excess))
    serving.reply(3, b"")

    assert sent_statuses(serving) == [(1, code), (3, RpcCode.OK)]


def test_case_23_metadata_is_ignored() -> None:
    body = ttrpc_pb2.Request(service=SERVICE, method="Do")
    for key in ("traceparent", "traceparent", "", "X"):
        body.metadata.add(key=key, value="v")

    assert len(server().receive(encode_message(1, 1, body.SerializeToString()))) == 1


def test_case_24_empty_answer_is_sent_without_data() -> None:
    serving = server()
    serving.receive(request(1))

    serving.reply(1, b"")

    assert serving.messages_to_send() == [bytes.fromhex("00000000 00000001 02 00")]
    assert serving.messages_to_send() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("ü", "ü", id="valid"),
        pytest.param("a\udcffb", "a?b", id="from a file name"),
        pytest.param("x" * MAX_STATUS_TEXT, "x" * MAX_STATUS_TEXT, id="at the limit"),
        pytest.param("x" * (MAX_STATUS_TEXT + 1), "x" * MAX_STATUS_TEXT, id="above"),
    ],
)
def test_case_19_status_text_is_valid_and_bounded(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_unanswered_calls_are_bounded() -> None:
    serving = server()
    for index in range(MAX_OPEN):
        serving.receive(request(2 * index + 1))
    serving.reply(1, b"")
    serving.receive(request(2 * MAX_OPEN + 1))

    with pytest.raises(ProtocolError, match=f"more than {MAX_OPEN} calls"):
        serving.receive(request(2 * MAX_OPEN + 3))
