"""A byte queue: received chunks in, the pieces that a decoder needs out."""


class ByteBuffer:
    """Bytes that arrived and are not used yet.

    Both ends cost amortised constant time per byte, so a message that arrives byte by byte is no
    more than a slow message. The caller checks announced lengths first.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._bytes = bytearray()

    def __len__(self) -> int:
        """Return how many bytes wait."""
        return len(self._bytes)

    def append(self, data: bytes) -> None:
        """Add data behind what waits."""
        self._bytes += data

    def take(self, count: int) -> bytes:
        """Remove and return the next count bytes, or all there are if they are fewer."""
        with memoryview(self._bytes) as view:
            data = bytes(view[:count])
        del self._bytes[:count]
        return data

    def skip(self, count: int) -> int:
        """Remove up to count bytes without copying them; return how many there were."""
        skipped = min(count, len(self._bytes))
        del self._bytes[:skipped]
        return skipped
