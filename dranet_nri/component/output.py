"""Terminal output of the commands: lines, tables, and documents for scripts.

Rules:
1. Names and reasons are untrusted: characters that a terminal interprets or cannot show are
   escaped.
2. Only a terminal gets colour, and NO_COLOR (no-color.org) turns it off.
3. A document is one JSON or YAML value with camelCase keys.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

STDOUT: Final = "standard output"
FORMS: Final = ("table", "json", "yaml")
WIDTH: Final = 100  # columns of text that is wrapped


class Style(StrEnum):
    """Colours, as SGR parameters (ECMA-48)."""

    BOLD = "1"
    GOOD = "32"
    WARNING = "33"
    BAD = "31"


Styles = Mapping[str, Style]
PLAIN: Final[Styles] = {}


def shown(text: str) -> str:
    """Return text with unprintable characters escaped, line breaks included."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def write(text: str) -> None:
    """Write text to standard output.

    Raises:
        OSError: it cannot be written; `filename` is STDOUT.
    """
    with naming(STDOUT):
        sys.stdout.write(text)


def flush() -> None:
    """Flush standard output; raises as `write` does."""
    with naming(STDOUT):
        sys.stdout.flush()


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Add the name of the file to an OSError in the block that has none, as that of a write."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or file
        raise


def print_lines(*lines: str, to: TextIO | None = None) -> None:
    """Print lines, escaped; to standard output by default."""
    text = "".join(f"{shown(line)}\n" for line in lines)
    if to is None:
        write(text)
    else:
        to.write(text)


def show_table(rows: Sequence[Sequence[str]], styles: Styles = PLAIN) -> None:
    """Print rows in columns; the first row is the header.

    Args:
        rows: header and cells.
        styles: style of a cell by its text.
    """
    if not _has_colour(sys.stdout):
        print_lines(*table(rows))
        return
    header, *lines = _columns(rows)
    write(_painted("  ".join(header).rstrip(), Style.BOLD) + "\n")
    for cells in lines:
        found = (_painted(cell, styles.get(cell.rstrip())) for cell in cells)
        write("  ".join(found).rstrip() + "\n")


def table(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the rows as lines, their cells in columns."""
    return tuple("  ".join(cells).rstrip() for cells in _columns(rows))


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    """Add --output, the same for all commands."""
    parser.add_argument(
        "-o",
        "--output",
        # "text" is the former name of "table" in `explain`.
        type=lambda text: "table" if text == "text" else text,
        choices=FORMS,
        default=FORMS[0],
        help="form of the output",
    )


def show_document(form: str, document: Callable[[], object]) -> bool:
    """Print a document if the form is JSON or YAML; return whether it was printed.

    Args:
        form: value of --output.
        document: returns plain JSON values.
    """
    if form == FORMS[0]:
        return False
    if form == "json":
        write(json.dumps(document(), indent=2) + "\n")
        return True
    import yaml  # late: probes and tables do not need it

    write(yaml.safe_dump(document(), sort_keys=False, allow_unicode=True, width=WIDTH))
    return True


def fields_of(value: "DataclassInstance") -> dict[str, object]:
    """Return the fields of a dataclass, nested ones included, for a document."""
    return asdict(value, dict_factory=_document)


def _document(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    return {
        _camel_case(name): str(value) if isinstance(value, StrEnum) else value
        for name, value in pairs
    }


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    cells = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]


def _painted(text: str, style: Style | None) -> str:
    return text if style is None else f"\x1b[{style}m{text}\x1b[0m"


def _has_colour(stream: TextIO) -> bool:
    environ = os.environ
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
