"""DHCP messages as bytes, against a server's encoder of the tests, and hand-written ones."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.dhcp import DhcpMessage, DhcpMessageType, decode_message, encode_message
from dranet_nri.errors import ProtocolError
from tests.fakes.dhcp import decoded, option, reply_bytes, with_options

ACK = DhcpMessage(
    DhcpMessageType.ACK,
    0x01020304,
    "02:00:00:00:00:01",
    op=2,
    offered="10.77.0.50",
    server="10.77.0.1",
    mask=24,
    lease_s=120,
)

addresses = st.integers(0, 2**32 - 1).map(lambda number: str(IPv4Address(number)))
networks = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 32)).map(
    lambda pair: str(IPv4Network(pair, strict=False))
)
seconds = st.none() | st.integers(0, 2**32 - 1)
messages = st.builds(
    DhcpMessage,
    kind=st.sampled_from(DhcpMessageType),
    xid=st.integers(0, 2**32 - 1),
    mac=st.binary(min_size=6, max_size=6).map(lambda mac: mac.hex(":")),
    op=st.just(2),
    client=addresses,
    offered=addresses,
    server=addresses | st.just(""),
    mask=st.none() | st.integers(0, 32),
    lease_s=seconds,
    renew_s=seconds,
    rebind_s=seconds,
    mtu=st.integers(0, 65535),
    routers=st.lists(addresses, max_size=4).map(tuple),
    routes=st.lists(st.tuples(networks, addresses), max_size=20).map(tuple),
)


@given(messages)
def test_message_encoded_by_a_server_is_decoded(message: DhcpMessage) -> None:
    assert decode_message(reply_bytes(message)) == message


@given(messages.map(lambda message: replace(message, op=1)), st.integers(0, 2**20))
def test_encoded_message_has_the_fields_that_a_server_requires(
    message: DhcpMessage, secs: int
) -> None:
    data = encode_message(replace(message, secs=secs))

    got = decoded(data)
    assert (got.kind, got.xid, got.mac) == (message.kind, message.xid, message.mac)
    assert (got.client, got.offered, got.server) == (
        message.client,
        message.offered,
        message.server,
    )
    assert got.secs == min(secs, 65535)
    assert len(data) >= 300
    assert option(61, b"\x01" + bytes.fromhex(message.mac.replace(":", ""))) in data


def test_request_contains_the_address_and_the_parameter_list() -> None:
    request = DhcpMessage(DhcpMessageType.REQUEST, 7, ACK.mac, requested="10.77.0.50")
    data = encode_message(request)

    assert decoded(data).requested == "10.77.0.50"
    assert option(55, bytes([1, 121, 3, 26, 51, 58, 59])) in data
    released = encode_message(replace(request, kind=DhcpMessageType.RELEASE))
    assert option(57, (1472).to_bytes(2)) in data
    assert bytes([55, 7]) not in released


@given(st.binary(max_size=600) | st.binary(max_size=200).map(lambda more: with_options(ACK, more)))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        message = decode_message(data)
    except ProtocolError:
        return
    assert message.op == 2
    assert decode_message(reply_bytes(message)).kind is message.kind


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "magic cookie"),
        (bytes(300), "magic cookie"),
        (b"\x01" + reply_bytes(ACK)[1:], "not a DHCP reply for Ethernet: op 1"),
        (b"\x02\x20\x00" + reply_bytes(ACK)[3:], "op 2, type 32, 0"),
        (with_options(ACK, b"\xff"), "option 53 is missing"),
        (with_options(ACK, b"\x35\x01\x09\xff"), "option 53 is 09"),
        (with_options(ACK, b"\x35\x02\x05\x05\xff"), "option 53 is 0505"),
    ],
)
def test_message_that_is_no_reply_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_message(data)


KIND = option(53, b"\x05")


@pytest.mark.parametrize(
    "bad",
    [
        option(1, b"\xff\xff\xff"),
        option(1, b"\xff\x00\xff\x00"),
        option(3, b"\x0a\x00\x00"),
        option(26, b"\x05"),
        option(51, b"\x00\x00\x01"),
        option(54, b"\x0a\x00\x00\x01\x01"),
        option(58, b""),
        option(121, b"\x21\x0a\x00\x00\x00\x00\x0a\x00\x00\x01"),
        option(121, b"\x08\x0a\x0a\x00\x00"),
        option(121, b"\x08\x0a\x0a\x00\x00\x01\x18"),
        option(250, b"whatever"),
    ],
)
def test_option_of_a_wrong_size_is_ignored(bad: bytes) -> None:
    empty = decode_message(with_options(ACK, KIND + b"\xff"))

    assert decode_message(with_options(ACK, KIND + bad + b"\xff")) == empty


@pytest.mark.parametrize(
    "end", [b"\x33", b"\x33\x04\x00\x00", b"", b"\xff\x33\x04\x00\x00\x00\x09"]
)
def test_truncated_options_end_the_list(end: bytes) -> None:
    message = decode_message(with_options(ACK, b"\x00" + KIND + b"\x00" + end))

    assert (message.kind, message.lease_s) == (DhcpMessageType.ACK, None)


def test_split_option_is_joined_and_overloaded_fields_are_read() -> None:
    route = b"\x18\x0a\x58\x01\x0a\x4d\x00\x09"
    parts = option(121, route[:3]) + option(121, route[3:])
    overload = KIND + parts + option(52, b"\x03") + b"\xff"
    fields = {"sname": option(51, b"\x00\x00\x00\x78") + b"\xff", "file": option(26, b"\x05\x78")}

    message = decode_message(with_options(ACK, overload, **fields))

    assert message.routes == (("10.88.1.0/24", "10.77.0.9"),)
    assert (message.lease_s, message.mtu) == (120, 1400)
    plain = decode_message(with_options(ACK, KIND + b"\xff", **fields))
    assert (plain.lease_s, plain.mtu) == (None, 0)
    (tail,) = {decode_message(with_options(ACK, KIND + option(52, b"") + b"\xff", **fields))}
    assert tail == plain
