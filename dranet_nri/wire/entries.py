"""How many messages a serialized one holds, told before it is decoded.

An empty entry is two bytes on the wire and some hundred once it is an object, so the length of a
message says little about what decoding it takes.
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
        for number, inner_start, inner_end in _delimited(data, start, end):
            inner = nested.get(number)
            if inner is None:
                continue
            found += 1
            if found > limit:
                break
            left.append((inner, inner_start, inner_end))
    return found


@cache
def _nested(descriptor: Descriptor) -> dict[int, Descriptor]:
    """Return the message types of the fields that hold messages, by number."""
    return {
        field.number: field.message_type
        for field in descriptor.fields
        if field.message_type is not None
    }


def _delimited(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of each field that has a length."""
    while at < end:
        tag, at = _varint(data, at, end)
        match tag & 7:
            case 2:
                size, at = _varint(data, at, end)
                yield tag >> 3, at, min(at + size, end)
                at += size
            case 0:
                _, at = _varint(data, at, end)
            case 1:
                at += 8
            case 5:
                at += 4
            case _:
                pass  # the begin or end of a group, which our messages don't have


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
