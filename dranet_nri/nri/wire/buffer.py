"""Byte queue between received chunks and the sizes that a decoder reads."""


class ByteBuffer:
    """Received bytes that are not decoded yet.

    Both ends take amortized constant time per byte, also for a message that arrives byte by byte.
    The caller checks announced lengths first.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._bytes = bytearray()

    def __len__(self) -> int:
        """Return the number of bytes in the queue."""
        return len(self._bytes)

    def append(self, data: bytes) -> None:
        """Add data at the end."""
        self._bytes += data

    def take(self, count: int) -> bytes:
        """Remove and return the next count bytes, or all if there are fewer."""
        with memoryview(self._bytes) as view:
            data = bytes(view[:count])
        del self._bytes[:count]
        return data

    def skip(self, count: int) -> int:
        """Remove up to count bytes without a copy; return the number removed."""
        skipped = min(count, len(self._bytes))
        del self._bytes[:skipped]
        return skipped
