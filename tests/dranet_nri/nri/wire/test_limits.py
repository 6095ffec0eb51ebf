"""Counting nested messages before they are decoded."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri._gen import nri_pb2
from dranet_nri.errors import ProtocolError
from dranet_nri.nri.wire.limits import count_entries
from dranet_nri.nri.wire.messages import SynchronizeRequest, decode_request, pod_from_message
from tests.dranet_nri.nri.wire.nested import nested_in

LIST = nri_pb2.SynchronizeRequest
MANY = 1_000_000


def full_list() -> nri_pb2.SynchronizeRequest:
    message = nri_pb2.SynchronizeRequest(more=True)
    pod = message.pods.add(id="s1", labels={"a": "b", "c": "d"}, pid=4711)
    pod.linux.namespaces.add(type="network", path="/run/netns/x" * 20)
    pod.linux.namespaces.add(type="ipc")
    container = message.containers.add(id="c1", args=["sleep"] * 9, env=["A=B"] * 9)
    container.mounts.add(destination="/data", options=["ro", "rbind"])
    container.linux.devices.add(path="/dev/null", major=1, minor=3).file_mode.value = 0o666
    container.linux.resources.memory.limit.value = 1 << 40
    return message


def test_every_nested_message_is_counted_at_any_depth() -> None:
    message = full_list()

    assert count_entries(LIST, message.SerializeToString(), MANY) == nested_in(message) == 14


def test_strings_and_numbers_are_not_counted() -> None:
    message = nri_pb2.ConfigureRequest(config="x" * 300, request_timeout=1 << 40)

    assert count_entries(type(message), message.SerializeToString(), MANY) == 0


def test_counting_ends_at_the_limit() -> None:
    flood = b"\x0a\x00" * 50

    assert [count_entries(LIST, flood, limit) for limit in (0, 10, 49, 50)] == [1, 11, 50, 50]


def test_unknown_fields_are_skipped() -> None:
    fixed64, fixed32 = b"\xf9\x01" + bytes(8), b"\xfd\x01" + bytes(4)
    unknown = b"\xfa\x01\x03abc"
    group = b"\xfb\x01\xfc\x01"

    assert count_entries(LIST, fixed64 + fixed32 + unknown + group + b"\x12\x00", MANY) == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_counted_and_valid_messages_correctly(data: bytes) -> None:
    found = count_entries(LIST, data, MANY)

    assert 0 <= found <= len(data)
    try:
        message = nri_pb2.SynchronizeRequest.FromString(data)
    except DecodeError:
        return
    assert found >= nested_in(message)


def test_unterminated_number_ends_the_count() -> None:
    for data in (b"\x80", b"\x0a", b"\x0a\x80", b"\x80" * 30, b"\x0a" + b"\xff" * 12):
        assert count_entries(LIST, data, MANY) <= 1


_FIELDS = st.sampled_from(
    [
        b"\x0a\x03\x0a\x01s",  # a pod
        b"\x0a\x00",
        b"\x12\x04\x1a\x02ab",  # a container
        b"\x18\x01",  # more
        b"\x18\x00",
        b"\xfa\x01\x03abc",  # fields of a newer runtime: with a length, a number, fixed, a group
        b"\xf8\x01\x96\x01",
        b"\xfd\x01abcd",
        b"\xfb\x01\x0a\x00\xfc\x01",
        b"\x0a\x05\x0a\x01",  # cut off, or with a part of what follows
        b"\x80",
    ]
)


@given(st.lists(_FIELDS).map(b"".join) | st.binary(max_size=60))
def test_list_decoded_by_parts_equals_that_of_protobuf(data: bytes) -> None:
    try:
        message = LIST.FromString(data)
    except DecodeError:
        return

    taken = decode_request("Synchronize", data)

    assert isinstance(taken, SynchronizeRequest)
    assert sorted(map(str, taken.pods)) == sorted(str(pod_from_message(x)) for x in message.pods)
    assert len(taken.pods) == len(message.pods)
    assert taken.more == message.more
    assert taken.size <= len(data)


@pytest.mark.parametrize("data", [b"\x12\x05\x0a", b"\x0a\x05\x0a\x00", b"\x12\x00\x80"])
def test_truncated_list_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="the payload cannot be decoded"):
        decode_request("Synchronize", data)
