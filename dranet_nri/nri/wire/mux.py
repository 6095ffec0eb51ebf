"""The multiplexer of NRI: two logical connections in 8-byte frames over one socket.

Rules:
1. A frame is four bytes of connection id and four of payload length, big-endian, and the payload.
2. Payloads of one id are a byte stream; frame boundaries have no meaning in it.
3. The wire has no open or close of a logical connection; frames of other ids are dropped.
"""

import struct
from dataclasses import dataclass
from typing import Final

from dranet_nri.errors import ProtocolError
from dranet_nri.nri.wire.buffer import ByteBuffer

HEADER: Final = struct.Struct(">II")  # connection id, payload length

PLUGIN_CONN: Final = 1  # the plugin serves, the runtime calls
RUNTIME_CONN: Final = 2  # the runtime serves, the plugin calls

# A Go peer reads the start of each ttrpc message through a 4096-byte buffer and answers a larger
# frame with ENOMEM, which ends the connection. What follows it reads in full.
FIRST_FRAME: Final = 4096

# Up to NRI 0.6.1 a peer sends 16 MiB in one frame, newer ones a ttrpc header and 4 MiB. A length
# above both is not a frame, and waiting for that many bytes would wedge the connection.
MAX_PAYLOAD: Final = 10 + (16 << 20)


@dataclass(frozen=True, slots=True)
class MuxChunk:
    """Some bytes of a logical connection, in order."""

    conn: int
    data: bytes


def encode_message(conn: int, message: bytes) -> bytes:
    """Frame one whole ttrpc message as Go does: up to 4096 bytes, then the rest."""
    parts = (message[:FIRST_FRAME], message[FIRST_FRAME:])
    return b"".join(HEADER.pack(conn, len(part)) + part for part in parts if part)


class MuxDecoder:
    """Turn bytes of the socket into bytes of the logical connections. Never reads or waits.

    A payload is passed on as it comes, so nothing is held but an incomplete header.
    """

    def __init__(self) -> None:
        """Start at a frame's boundary."""
        self._buffer = ByteBuffer()
        self._conn = 0
        self._remaining = 0

    def feed(self, data: bytes) -> None:
        """Add what the socket gave; fetch all chunks before feeding again."""
        self._buffer.append(data)

    def next_chunk(self) -> MuxChunk | None:
        """Return the next bytes of one of the two connections, or None until more are fed.

        Raises:
            ProtocolError: a frame announces more than MAX_PAYLOAD bytes.
        """
        while self._buffer:
            if self._remaining == 0:
                if len(self._buffer) < HEADER.size:
                    return None
                self._read_header()
            elif self._conn in (PLUGIN_CONN, RUNTIME_CONN):
                data = self._buffer.take(self._remaining)
                self._remaining -= len(data)
                return MuxChunk(self._conn, data)
            else:
                self._remaining -= self._buffer.skip(self._remaining)
        return None

    def _read_header(self) -> None:
        self._conn, self._remaining = HEADER.unpack(self._buffer.take(HEADER.size))
        if self._remaining > MAX_PAYLOAD:
            facts = f"frame of {self._remaining} bytes, limit {MAX_PAYLOAD}"
            raise ProtocolError(f"mux connection {self._conn}: {facts}")

    def close(self) -> None:
        """Accept that no more bytes come.

        Raises:
            ProtocolError: they end inside a frame.
        """
        if self._remaining or self._buffer:
            where = (
                f"{self._remaining} bytes short of its end" if self._remaining else "in a header"
            )
            raise ProtocolError(f"mux connection {self._conn}: the stream ended {where}")
