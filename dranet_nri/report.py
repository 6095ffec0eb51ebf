"""What a doctor says: findings, and how people read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How good or bad a finding is."""

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


def lines_of(found: Sequence[Finding]) -> tuple[str, ...]:
    """Return a line for each finding, in columns."""
    width = max((len(each.subject) for each in found), default=0)
    return tuple(f"{each.grade:7}  {each.subject:{width}}  {each.text}" for each in found)
