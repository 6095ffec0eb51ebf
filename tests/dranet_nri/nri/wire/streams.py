"""Shorthands of the wire tests."""

from collections.abc import Iterable
from itertools import pairwise

from dranet_nri.nri.wire import mux, ttrpc


def frame(conn: int, payload: bytes) -> bytes:
    """Return one mux frame, of any size and for any connection."""
    return mux.HEADER.pack(conn, len(payload)) + payload


def frames(conn: int, payload: bytes, size: int) -> bytes:
    """Return payload in frames of size bytes."""
    return b"".join(
        frame(conn, payload[start : start + size]) for start in range(0, len(payload), size)
    )


def frame_sizes(data: bytes) -> list[int]:
    """Return the payload lengths of the frames in data."""
    sizes = []
    while data:
        _conn, length = mux.HEADER.unpack_from(data)
        sizes.append(length)
        data = data[mux.HEADER.size + length :]
    return sizes


def demultiplex(pieces: Iterable[bytes]) -> dict[int, bytes]:
    """Return the bytes of each logical connection."""
    decoder = mux.MuxDecoder()
    streams: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
    for piece in pieces:
        decoder.feed(piece)
        while (chunk := decoder.next_chunk()) is not None:
            streams[chunk.conn] += chunk.data
    return {conn: bytes(data) for conn, data in streams.items()}


def messages(stream: bytes) -> list[ttrpc.TtrpcMessage]:
    """Return the ttrpc messages of a whole stream."""
    decoder = ttrpc.MessageDecoder()
    decoder.feed(stream)
    found = []
    while (message := decoder.next_message()) is not None:
        found.append(message)
    decoder.close()
    return found


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """Return data cut at the given places."""
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]
