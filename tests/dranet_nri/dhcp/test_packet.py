"""IPv4 and UDP headers of DHCP messages."""

import struct
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.dhcp import CLIENT_PORT, packet_with, payload_of


def sum_of(data: bytes) -> int:
    """Return the one's complement sum of 16-bit words: all ones over data with its checksum."""
    total = 0
    for at in range(0, len(data), 2):
        total += int.from_bytes(data[at : at + 2].ljust(2, b"\0"))
        total = (total & 0xFFFF) + (total >> 16)
    return total


addresses = st.integers(0, 2**32 - 1).map(lambda number: str(IPv4Address(number)))


@given(st.binary(max_size=600), addresses, addresses)
def test_packet_has_correct_checksums_and_lengths(payload: bytes, source: str, target: str) -> None:
    packet = packet_with(payload, source, target)

    header, udp = packet[:20], packet[20:]
    assert sum_of(header) == 0xFFFF
    assert header[12:] == IPv4Address(source).packed + IPv4Address(target).packed
    assert int.from_bytes(header[2:4]) == len(packet)
    pseudo = header[12:] + struct.pack("!BBH", 0, 17, len(udp))
    assert sum_of(pseudo + udp) == 0xFFFF
    assert struct.unpack("!HHH", udp[:6]) == (68, 67, len(udp))
    assert udp[8:] == payload
    assert udp[6:8] != b"\0\0"


def answer(payload: bytes = b"message", **changes: int) -> bytes:
    """Return a packet for a client, with bytes replaced: at12=5 writes 5 at 12."""
    packet = bytearray(packet_with(payload, "10.0.0.1", "255.255.255.255"))
    packet[22:24] = CLIENT_PORT.to_bytes(2)
    for name, value in changes.items():
        packet[int(name.removeprefix("at"))] = value
    return bytes(packet)


def test_payload_is_extracted_from_a_packet() -> None:
    assert payload_of(answer()) == b"message"
    assert payload_of(answer() + b"padding of a frame") == b"message"
    with_options = b"\x46" + answer(at3=39)[1:20] + bytes(4) + answer()[20:]
    assert payload_of(with_options) == b"message"


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(answer()[:19], id="short"),
        pytest.param(answer(at0=0x65), id="version-6"),
        pytest.param(answer(at0=0x44), id="header-of-16"),
        pytest.param(answer(at9=6), id="tcp"),
        pytest.param(answer(at6=0x20), id="first-fragment"),
        pytest.param(answer(at7=1), id="later-fragment"),
        pytest.param(answer(at3=24), id="no-udp-header"),
        pytest.param(answer(at23=67), id="for-a-server"),
        pytest.param(answer(at25=200), id="cut-off"),
        pytest.param(answer(at25=7), id="no-udp-size"),
    ],
)
def test_other_packets_have_no_payload(packet: bytes) -> None:
    assert payload_of(packet) is None


@given(st.binary(max_size=80))
def test_any_bytes_give_a_payload_or_none(packet: bytes) -> None:
    payload = payload_of(packet)

    assert payload is None or len(payload) <= len(packet) - 28
