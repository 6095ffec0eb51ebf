"""Size limits: the entries of a serialized message, counted before it is decoded.

An empty entry is two bytes on the wire and some hundred as an object, so the length of a message
hardly predicts the cost of its decoding. A walk takes microseconds per entry, so a list walks only
its own entries, and other messages are walked only where they are large.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

SMALLEST_ENTRY: Final = 2  # bytes: its tag and its length

_LONGEST_VARINT: Final = 10  # bytes


def count_entries(message: type[Message], data: bytes, limit: int) -> int:
    """Return how many messages are nested in data at any depth; about limit + 1 if more.

    What data holds beyond that is no business of this walk: bytes that are no such message are
    left to the decoder.

    Args:
        message: what data is.
        data: serialized, as protobuf's encoding has it (protobuf.dev, Encoding).
        limit: where counting may end.
    """
    found = 0
    left = [(cast("Descriptor", message.DESCRIPTOR), 0, len(data))]
    while left and found <= limit:
        outer, start, end = left.pop()
        nested = _nested(outer)
        for number, _, inner_start, inner_end in _delimited(data, start, end):
            inner = nested.get(number)
            if inner is None:
                continue
            found += 1
            if found > limit:
                break
            left.append((inner, inner_start, min(inner_end, end)))
    return found


def split_entries(
    data: bytes, kept: int, skipped: int, limit: int
) -> tuple[list[bytes], bytes, int]:
    """Take the entries of two fields out of data, as long as data is well-formed.

    Args:
        data: a serialized message.
        kept: number of the field whose entries are returned.
        skipped: number of the field whose entries are dropped.
        limit: how many entries of both are walked; what follows the first above it is dropped.

    Returns:
        The entries of kept, all other bytes as a message of the same type, and how many entries of
        both fields were walked, at most limit + 1. From the first group or the first entry that is
        cut off, everything is among the other bytes: the decoder judges it.
    """
    entries: list[bytes] = []
    others: list[bytes] = []
    found = done = 0
    for number, begin, start, end in _delimited(data, 0, len(data), groups=False):
        if number not in (kept, skipped):
            continue
        if end > len(data):
            break
        others.append(data[done:begin])
        done = end
        found += 1
        if found > limit:
            return entries, b"".join(others), found
        if number == kept:
            entries.append(data[start:end])
    return entries, b"".join((*others, data[done:])), found


@cache
def _nested(descriptor: Descriptor) -> dict[int, Descriptor]:
    """Return the message types of the fields that hold messages, by number."""
    return {
        field.number: field.message_type
        for field in descriptor.fields
        if field.message_type is not None
    }


def _delimited(
    data: bytes, at: int, end: int, *, groups: bool = True
) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, begin of the tag, start and end of each field that has a length.

    The end of one that is cut off is behind the end of data. Walking ends at a group unless groups.
    """
    while at < end:
        begin = at
        tag, at = _varint(data, at, end)
        match tag & 7:
            case 2:
                size, at = _varint(data, at, end)
                yield tag >> 3, begin, at, at + size
                at += size
            case 0:
                _, at = _varint(data, at, end)
            case 1:
                at += 8
            case 5:
                at += 4
            case _:  # the begin or end of a group, which our messages don't have
                if not groups:
                    return


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = shift = 0
    end = min(end, at + _LONGEST_VARINT)
    while at < end:
        byte = data[at]
        at += 1
        if byte < 0x80:
            return value | byte << shift, at
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, at
