"""The byte queue."""

from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.nri.wire.buffer import ByteBuffer


@given(st.lists(st.binary(max_size=9)), st.lists(st.tuples(st.booleans(), st.integers(0, 12))))
def test_bytes_are_returned_in_order(pieces: list[bytes], uses: list[tuple[bool, int]]) -> None:
    expected = b"".join(pieces)
    buffer = ByteBuffer()

    for piece in pieces:
        buffer.append(piece)
    for is_skip, count in uses:
        if is_skip:
            assert buffer.skip(count) == len(expected[:count])
        else:
            assert buffer.take(count) == expected[:count]
        expected = expected[count:]

    assert len(buffer) == len(expected)
    assert buffer.take(len(expected)) == expected
