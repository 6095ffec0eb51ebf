"""Report of a verification as text and as a document, ordered by severity."""

from collections.abc import Sequence
from typing import Any

from dra_shim.verify.types import Line, Outcome
from dranet_nri.component.output import table

ORDER = {Outcome.FAILED: 0, Outcome.NOT_MEASURED: 1, Outcome.PASSED: 2}


def ordered(lines: Sequence[Line]) -> list[Line]:
    """Return the lines, failures first, and of these those with the lowest ratio first."""
    return sorted(lines, key=lambda line: (ORDER[line.outcome], line.ratio))


def count_of(lines: Sequence[Line], outcome: Outcome) -> int:
    """Return the number of lines with an outcome."""
    return sum(line.outcome is outcome for line in lines)


def verdict_of(lines: Sequence[Line]) -> Outcome:
    """Return the result of all: it did not pass if no line between two NICs did."""
    if count_of(lines, Outcome.FAILED):
        return Outcome.FAILED
    between = any(line.target and line.outcome is Outcome.PASSED for line in lines)
    return Outcome.PASSED if between else Outcome.NOT_MEASURED


def as_text(lines: Sequence[Line], *, verbose: bool) -> list[str]:
    """Return the report for a terminal.

    Args:
        lines: the results.
        verbose: whether passed checks have rows too, and rows have the duration of the check.
    """
    shown = [line for line in ordered(lines) if verbose or line.outcome is not Outcome.PASSED]
    rows = [["RESULT", "CHECK", "FROM", "TO", "MEASURED", "THRESHOLD"]]
    rows += [
        [line.outcome.value, line.check, line.source, line.target, line.value, line.threshold]
        for line in shown
    ]
    if verbose:
        durations = [f"{line.seconds:.1f}" if line.seconds else "" for line in shown]
        rows = [[*row, text] for row, text in zip(rows, ["SECONDS", *durations], strict=True)]
    text = list(table(rows)) if shown else []
    causes: dict[tuple[str, str, str], int] = {}
    for line in shown:
        if line.outcome is Outcome.FAILED:
            key = (line.check, line.meaning, line.remedy)
            causes[key] = causes.get(key, 0) + 1
    for (check, meaning, remedy), number in causes.items():
        text += ["", f"{check} ({number} failed): {meaning}.", f"  Remedy: {remedy}."]
    reasons = {line.meaning for line in shown if line.outcome is Outcome.NOT_MEASURED}
    text += [f"Not measured: {reason}." for reason in sorted(reasons)]
    return [*text, *([""] if text else []), _summary(lines)]


def as_document(lines: Sequence[Line]) -> dict[str, Any]:
    """Return the report as a document with camelCase keys."""
    return {
        "passed": verdict_of(lines) is Outcome.PASSED,
        "counts": {
            "failed": count_of(lines, Outcome.FAILED),
            "notMeasured": count_of(lines, Outcome.NOT_MEASURED),
            "passed": count_of(lines, Outcome.PASSED),
        },
        "checks": [
            {
                "check": line.check,
                "source": line.source,
                "target": line.target,
                "result": line.outcome.value,
                "value": line.value,
                "threshold": line.threshold,
                "meaning": line.meaning,
                "remedy": line.remedy,
                "seconds": round(line.seconds, 1),
            }
            for line in ordered(lines)
        ],
    }


def _summary(lines: Sequence[Line]) -> str:
    numbers = [f"{count_of(lines, outcome)} {outcome.value}" for outcome in Outcome]
    return f"{verdict_of(lines).upper()}: {', '.join(numbers)}."
