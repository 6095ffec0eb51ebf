"""The calling side of ttrpc: conformance cases 25 to 28."""

import pytest
from google.protobuf import any_pb2

from dranet_nri._gen import ttrpc_pb2
from dranet_nri.errors import ProtocolError
from dranet_nri.nri.wire import ttrpc
from dranet_nri.nri.wire.ttrpc import (
    HEADER,
    MAX_RECEIVE,
    MessageType,
    RpcCode,
    RpcStatus,
    TtrpcClient,
    encode_message,
)
from tests.dranet_nri.nri.wire.streams import messages

SERVICE = "a.Service"


def response(stream: int, **fields: object) -> bytes:
    body = ttrpc_pb2.Response(**fields)  # type: ignore[arg-type]
    return encode_message(stream, MessageType.RESPONSE, body.SerializeToString())


def test_case_25_stream_ids_start_at_1_and_increase_by_2() -> None:
    calling = TtrpcClient()

    assert [calling.call(SERVICE, "Do", b"") for _ in range(4)] == [1, 3, 5, 7]
    assert [m.stream for m in messages(b"".join(calling.messages_to_send()))] == [1, 3, 5, 7]
    assert calling.messages_to_send() == []


def test_case_26_no_data_and_code_0_are_successes() -> None:
    calling = TtrpcClient()
    calling.call(SERVICE, "Do", b"")
    calling.call(SERVICE, "Do", b"")
    zero = response(3, status=ttrpc_pb2.Status(code=0, message="fine"), payload=b"p")

    answers = calling.receive(encode_message(1, MessageType.RESPONSE, b"") + zero)

    assert answers == [ttrpc.TtrpcResponse(1, b""), ttrpc.TtrpcResponse(3, b"p")]


def test_case_26_status_is_a_failure_with_all_its_fields() -> None:
    calling = TtrpcClient()
    calling.call(SERVICE, "Do", b"")
    detail = any_pb2.Any(type_url="type/x", value=b"v")
    status = ttrpc_pb2.Status(code=4, message="late", details=[detail])

    answers = calling.receive(response(1, status=status, payload=b"ignored"))

    expected = RpcStatus(4, "late", (detail.SerializeToString(),))
    assert answers == [ttrpc.TtrpcResponse(1, b"", expected)]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(
            encode_message(1, MessageType.RESPONSE, b"\xff\xff"), RpcCode.INTERNAL, id="undecodable"
        ),
        pytest.param(
            HEADER.pack(MAX_RECEIVE + 1, 1, MessageType.RESPONSE, 0),
            RpcCode.RESOURCE_EXHAUSTED,
            id="too long",
        ),
    ],
)
def test_unusable_answer_fails_only_its_call(data: bytes, code: RpcCode) -> None:
    calling = TtrpcClient()
    calling.call(SERVICE, "Do", b"")

    (answer,) = calling.receive(data)

    assert answer.status is not None
    assert answer.status.code == code


def test_case_27_unexpected_answers_are_ignored() -> None:
    calling = TtrpcClient()
    calling.call(SERVICE, "Do", b"")

    answers = calling.receive(
        response(2) + response(99) + response(1) + response(1) + encode_message(99, 3, b"x")
    )

    assert answers == [ttrpc.TtrpcResponse(1, b"")]


@pytest.mark.parametrize("kind", [MessageType.REQUEST, MessageType.DATA, 9])
def test_pending_call_answered_with_no_response_ends_the_connection(kind: int) -> None:
    calling = TtrpcClient()
    calling.call(SERVICE, "Do", b"")

    with pytest.raises(ProtocolError, match="not a response"):
        calling.receive(encode_message(1, kind, b""))


def test_case_28_lost_connection_fails_each_pending_call_once() -> None:
    calling = TtrpcClient()
    for _ in range(3):
        calling.call(SERVICE, "Do", b"")
    calling.receive(response(3))

    assert calling.abandon() == (1, 5)
    assert calling.abandon() == ()
    assert calling.receive(response(1)) == []
