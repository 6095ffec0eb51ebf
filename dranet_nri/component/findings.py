"""Findings of `doctor`: the checked subject, a severity, and the remedy."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dranet_nri.component.output import Style, Styles, fields_of, show_document, show_table


class Severity(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `grade` is also the name in its JSON."""

    subject: str
    grade: Severity
    text: str


STYLES: Final[Styles] = {
    Severity.OK: Style.GOOD,
    Severity.WARNING: Style.WARNING,
    Severity.BAD: Style.BAD,
}
_COLUMNS: Final = ("GRADE", "SUBJECT", "FINDING")


def show_findings(form: str, found: Sequence[Finding], **more: object) -> int:
    """Print findings and return the exit status: 1 if one is bad.

    Args:
        form: value of --output.
        found: in the order in which they are shown.
        more: fields of the document beside the findings.
    """
    if not show_document(
        form, lambda: {"findings": [fields_of(finding) for finding in found], **more}
    ):
        rows = [(str(finding.grade), finding.subject, finding.text) for finding in found]
        show_table([_COLUMNS, *rows], STYLES)
    return 1 if any(finding.grade is Severity.BAD for finding in found) else 0
