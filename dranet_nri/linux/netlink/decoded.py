"""Cache of the decoded messages of the last dump: the next one decodes only changed messages.

Each attach dumps the links, addresses and routes of the whole node, and few of them change.

Rules:
1. A cache has the messages of one dump only: those of pods that ended take no memory.
2. Long messages are not cached: a pod can make those of its links longer.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

CACHED: Final = 4096  # messages, those of a plain link with 1.5 KiB each
CACHED_LEN: Final = 4096


class DecodedMessages(Generic[T]):
    """Decoded messages of the last dump. Thread-safe, if `decode` is a pure function."""

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        """Start empty."""
        self._decode = decode
        self._last: dict[bytes, T] = {}

    def of(self, bodies: Iterable[bytes]) -> tuple[T, ...]:
        """Return the decoded messages of a dump, and cache them in place of those before."""
        last, current, found = self._last, dict[bytes, T](), list[T]()
        for body in bodies:
            value = last[body] if body in last else self._decode(body)
            if len(body) <= CACHED_LEN and len(current) < CACHED:
                current[body] = value
            found.append(value)
        self._last = current
        return tuple(found)
