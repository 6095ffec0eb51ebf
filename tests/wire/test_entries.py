"""Counting nested messages before they are decoded."""

from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri._gen import nri_pb2
from dranet_nri.wire.entries import count_entries

LIST = nri_pb2.SynchronizeRequest
MANY = 1_000_000


def nested_in(message: Message) -> int:
    """Count by walking the decoded message."""
    found = 0
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            found += len(value)
            continue
        for inner in (value,) if isinstance(value, Message) else value:
            found += 1 + nested_in(inner)
    return found


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


def test_every_message_of_a_list_is_counted_at_any_depth() -> None:
    message = full_list()

    assert count_entries(LIST, message.SerializeToString(), MANY) == nested_in(message) == 14


def test_strings_and_numbers_are_no_messages() -> None:
    message = nri_pb2.ConfigureRequest(config="x" * 300, request_timeout=1 << 40)

    assert count_entries(type(message), message.SerializeToString(), MANY) == 0


def test_counting_ends_at_the_limit() -> None:
    flood = b"\x0a\x00" * 50

    assert [count_entries(LIST, flood, limit) for limit in (0, 10, 49, 50)] == [1, 11, 50, 50]


def test_fields_that_nobody_knows_are_passed_over() -> None:
    fixed64, fixed32 = b"\xf9\x01" + bytes(8), b"\xfd\x01" + bytes(4)
    unknown = b"\xfa\x01\x03abc"
    group = b"\xfb\x01\xfc\x01"

    assert count_entries(LIST, fixed64 + fixed32 + unknown + group + b"\x12\x00", MANY) == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_counted_and_those_that_decode_are_counted_right(data: bytes) -> None:
    found = count_entries(LIST, data, MANY)

    assert 0 <= found <= len(data)
    try:
        message = nri_pb2.SynchronizeRequest.FromString(data)
    except DecodeError:
        return
    assert found >= nested_in(message)


def test_a_number_that_does_not_end_ends_the_count() -> None:
    for data in (b"\x80", b"\x0a", b"\x0a\x80", b"\x80" * 30, b"\x0a" + b"\xff" * 12):
        assert count_entries(LIST, data, MANY) <= 1
