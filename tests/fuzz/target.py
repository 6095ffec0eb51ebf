"""Definition of a fuzz target, and code common to all targets."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

BYTES: Final = re.compile(rb"(?s:.)")
TOKENS: Final = re.compile(rb'(?s:"(?:[^"\\]|\\.)*"|[\w.+-]+|\s+|.)')


@dataclass(frozen=True, slots=True)
class Target:
    """One way into the program for bytes that others wrote.

    Attributes:
        run: takes an input and raises, AssertionError included, where the invariant breaks.
        words: what mutation puts in.
        grain: the parts of an input that mutation drops, repeats and replaces.
    """

    run: Callable[[bytes], None]
    words: tuple[bytes, ...]
    grain: re.Pattern[bytes] = BYTES

    @property
    def invariant(self) -> str:
        """Return what holds for every input."""
        return (self.run.__doc__ or "").partition("\n")[0]


def pieces(data: bytes, unit: int = 1) -> Iterator[bytes]:
    """Cut data as a socket might: the first byte says into pieces of how many units."""
    size = unit * (data[0] + 1) if data else 1
    for start in range(1, len(data), size):
        yield data[start : start + size]


def text_of(data: bytes) -> str:
    """Return text that any bytes stand for, lone surrogates included."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def assert_readable(lines: Iterable[str]) -> None:
    """Check what a person will read: something, in one line, that a terminal can show."""
    found = tuple(lines)
    assert found, "an error without words"
    for line in found:
        line.encode()
        assert line.strip(), "an empty line"
        assert "\n" not in line, line
