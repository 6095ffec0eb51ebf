"""The multiplexer: conformance cases 1 to 6, and the pure parts of 7, 8 and 11."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dranet_nri.errors import ProtocolError
from dranet_nri.nri.wire import mux
from dranet_nri.nri.wire.mux import FIRST_FRAME, HEADER, MAX_PAYLOAD, MuxDecoder, encode_message
from tests.dranet_nri.nri.wire.streams import cut, demultiplex, frame, frame_sizes, frames

CUTS = st.lists(st.integers(0, 200), max_size=12)
MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param(10, [10], id="header only"),
        pytest.param(4096, [4096], id="4096"),
        pytest.param(4097, [4096, 1], id="4097"),
        pytest.param(4 * MIB, [4096, 4 * MIB - 4096], id="4 MiB"),
        pytest.param(4 * MIB + 10, [4096, 4 * MIB - 4086], id="largest ttrpc message"),
    ],
)
def test_case_01_first_frame_of_a_message_fits_the_reader_of_a_go_peer(
    size: int, expected: list[int]
) -> None:
    assert frame_sizes(encode_message(1, bytes(size))) == expected


@given(st.sampled_from([1, 2]), st.binary(max_size=200), CUTS)
@example(1, bytes(FIRST_FRAME), [])
@example(1, bytes(FIRST_FRAME + 1), [FIRST_FRAME + 8])
def test_messages_survive_any_split(conn: int, message: bytes, places: list[int]) -> None:
    data = encode_message(conn, message)

    assert demultiplex(cut(data, places))[conn] == message


def test_case_02_message_may_be_split_at_every_byte() -> None:
    message = bytes(range(40))

    for offset in range(len(message) + 1):
        assert demultiplex([frame(1, message[:offset]) + frame(1, message[offset:])])[1] == message
    data = frames(1, message, 1)
    assert demultiplex(data[i : i + 1] for i in range(len(data)))[1] == message


def test_case_03_frame_may_hold_several_messages_or_a_part_of_one() -> None:
    header, data = b"0123456789", b"abc"

    assert demultiplex([frame(1, header + data + header + data)])[1] == (header + data) * 2
    assert demultiplex([frame(1, header) + frame(1, data)])[1] == header + data


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(4 * MIB + 10, id="largest frame of a current peer"),
        pytest.param(16 * MIB, id="largest frame of an old peer"),
        pytest.param(MAX_PAYLOAD, id="our limit"),
    ],
)
def test_case_04_large_frames_are_received(size: int) -> None:
    assert len(demultiplex([frame(2, bytes(size))])[2]) == size


@pytest.mark.parametrize("conn", [0, 1, 2, 7])
@pytest.mark.parametrize("length", [MAX_PAYLOAD + 1, 0xFFFFFFFF])
def test_case_04_length_above_the_limit_is_fatal_before_its_bytes_arrive(
    conn: int, length: int
) -> None:
    decoder = MuxDecoder()
    decoder.feed(HEADER.pack(conn, length))

    with pytest.raises(ProtocolError, match=f"{length} bytes, limit {MAX_PAYLOAD}"):
        decoder.next_chunk()


@pytest.mark.parametrize("conn", [0, 7, 0xFFFFFFFF])
def test_case_05_frames_of_other_connections_are_dropped(conn: int) -> None:
    data = frame(1, b"a") + frame(conn, b"x" * 100) + frame(conn, b"") + frame(1, b"b")

    assert demultiplex([data]) == {1: b"ab", 2: b""}
    assert demultiplex(data[i : i + 1] for i in range(len(data))) == {1: b"ab", 2: b""}


def test_case_05_empty_frames_are_harmless() -> None:
    assert demultiplex([frame(1, b"") + frame(1, b"a") + frame(1, b"")])[1] == b"a"


def test_case_06_connections_interleave_within_messages() -> None:
    one, two = bytes(range(30)), bytes(range(100, 130))
    data = b"".join(frame(1, one[i : i + 7]) + frame(2, two[i : i + 7]) for i in range(0, 35, 7))

    assert demultiplex([data]) == {1: one, 2: two}


def test_case_07_more_frames_than_a_go_peer_can_queue_are_received() -> None:
    message = bytes(range(256)) * 40

    assert demultiplex([frames(1, message, 1)])[1] == message


@pytest.mark.parametrize("offset", [3, 8, 12])
def test_case_08_end_inside_a_frame_is_an_error(offset: int) -> None:
    decoder = MuxDecoder()
    decoder.feed(frame(1, b"payload")[:offset])
    decoder.next_chunk()

    with pytest.raises(ProtocolError, match="the stream ended"):
        decoder.close()


@pytest.mark.parametrize("data", [b"", frame(1, b"payload"), frame(1, b"")])
def test_case_08_end_between_frames_is_clean(data: bytes) -> None:
    decoder = MuxDecoder()
    decoder.feed(data)
    while decoder.next_chunk() is not None:
        pass

    decoder.close()


def test_case_11_messages_of_both_connections_are_sent_as_whole_frames() -> None:
    large, small = b"L" * (FIRST_FRAME * 3), b"s" * 20
    data = encode_message(1, large) + encode_message(2, small) + encode_message(1, small)

    assert frame_sizes(data) == [FIRST_FRAME, FIRST_FRAME * 2, 20, 20]
    assert demultiplex([data]) == {1: large + small, 2: small}


@given(st.lists(st.binary(max_size=60)))
@example([HEADER.pack(1, MAX_PAYLOAD)])
@example([HEADER.pack(1, MAX_PAYLOAD + 1)])
def test_malformed_bytes_are_accepted_or_refused_as_a_protocol_error(pieces: list[bytes]) -> None:
    decoder = MuxDecoder()
    try:
        for piece in pieces:
            decoder.feed(piece)
            while (chunk := decoder.next_chunk()) is not None:
                assert chunk.conn in (mux.PLUGIN_CONN, mux.RUNTIME_CONN)
        decoder.close()
    except ProtocolError:
        pass
