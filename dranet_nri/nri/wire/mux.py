"""NRI multiplexer: two logical connections, in frames with 8-byte headers over one socket.

Rules:
1. A frame is a 4-byte connection id, a 4-byte payload length, both big-endian, and the payload.
2. The payloads of one id form a byte stream; frame boundaries have no meaning.
3. Logical connections are neither opened nor closed; frames of other ids are dropped.
"""

import struct
from dataclasses import dataclass
from typing import Final

from dranet_nri.errors import ProtocolError
from dranet_nri.nri.wire.buffer import ByteBuffer

HEADER: Final = struct.Struct(">II")  # connection id, payload length

PLUGIN_CONN: Final = 1  # the plugin serves, the runtime calls
RUNTIME_CONN: Final = 2  # the runtime serves, the plugin calls

# A Go peer reads the first frame of each ttrpc message into a 4096-byte buffer, and a larger one
# fails with ENOMEM, which ends the connection. Later frames have no such limit.
FIRST_FRAME: Final = 4096

# Up to NRI 0.6.1 a peer sends up to 16 MiB in one frame, later a ttrpc header and 4 MiB. A larger
# length is not a frame, and a wait for its bytes would block the connection.
MAX_PAYLOAD: Final = 10 + (16 << 20)


@dataclass(frozen=True, slots=True)
class MuxChunk:
    """Consecutive bytes of a logical connection."""

    conn: int
    data: bytes


def encode_message(conn: int, message: bytes) -> bytes:
    """Return one ttrpc message in frames as Go does: up to 4096 bytes, then the rest."""
    parts = (message[:FIRST_FRAME], message[FIRST_FRAME:])
    return b"".join(HEADER.pack(conn, len(part)) + part for part in parts if part)


class MuxDecoder:
    """Decoder of the socket's bytes into bytes of the logical connections; no I/O.

    A payload is passed on as it arrives; only an incomplete header is buffered.
    """

    def __init__(self) -> None:
        """Start at a frame boundary."""
        self._buffer = ByteBuffer()
        self._conn = 0
        self._remaining = 0

    def feed(self, data: bytes) -> None:
        """Add received bytes; call next_chunk until None before the next feed."""
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
            ProtocolError: the bytes end inside a frame.
        """
        if self._remaining or self._buffer:
            where = (
                f"{self._remaining} bytes short of its end" if self._remaining else "in a header"
            )
            raise ProtocolError(f"mux connection {self._conn}: the stream ended {where}")
