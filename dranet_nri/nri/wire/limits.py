"""Size limits of serialized messages: entries are counted before a message is decoded.

An empty entry takes two bytes on the wire and some hundred as an object, so that the length of a
message does not bound the memory of its decoding. The count takes microseconds per entry, so only
the entries of a list and those of large messages are counted.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

SMALLEST_ENTRY: Final = 2  # bytes: its tag and its length

_LONGEST_VARINT: Final = 10  # bytes


def count_entries(message: type[Message], data: bytes, limit: int) -> int:
    """Return the number of messages nested in data at any depth; about limit + 1 if more.

    Malformed bytes are left to the decoder.

    Args:
        message: type of the message.
        data: the serialized message (protobuf.dev, Encoding).
        limit: number at which counting ends.
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
    """Remove the entries of two fields from data, up to the first malformed entry.

    Args:
        data: a serialized message.
        kept: number of the field whose entries are returned.
        skipped: number of the field whose entries are dropped.
        limit: number of entries of both fields to read; the rest is dropped.

    Returns:
        The entries of `kept`, all other bytes as a message of the same type, and the number of
        entries read of both fields, at most limit + 1. The other bytes include everything from
        the first group or truncated entry, for the decoder to report.
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
    """Return the message types of a message's fields, by field number."""
    return {
        field.number: field.message_type
        for field in descriptor.fields
        if field.message_type is not None
    }


def _delimited(
    data: bytes, at: int, end: int, *, groups: bool = True
) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, begin of the tag, start and end of each length-delimited field.

    The end of a truncated field is beyond the end of data. Without `groups`, a group ends it.
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
            case _:  # the begin or end of a group, which NRI messages do not have
                if not groups:
                    return


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number and the position after it."""
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
