"""Terminal output of the verbs: lines, tables, and the findings of `doctor`.

Names and reasons come from others: characters that a terminal would interpret, or cannot show, are
escaped.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO


class Grade(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    subject: str
    grade: Grade
    text: str


def shown(text: str) -> str:
    """Return text with every character escaped that is not printable, ends of lines included."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def say(*lines: str, to: TextIO | None = None) -> None:
    """Print lines, each of them as one; to standard output by default."""
    for line in lines:
        print(shown(line), file=to or sys.stdout)


def table(rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the rows as lines, their cells in columns."""
    cells = [[shown(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return tuple(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def lines_of(found: Sequence[Finding]) -> tuple[str, ...]:
    """Return a line for each finding, in columns."""
    width = max((len(finding.subject) for finding in found), default=0)
    return tuple(
        f"{finding.grade:7}  {finding.subject:{width}}  {finding.text}" for finding in found
    )
