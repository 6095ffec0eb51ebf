"""The matrix of a verification as an SVG picture: a cell for each pair of NICs."""

from collections.abc import Sequence
from html import escape

from dra_shim.verify.types import Line, Outcome

CELL = 44
MARGIN = 170
COLOURS = {
    Outcome.FAILED: "#c62828",
    Outcome.NOT_MEASURED: "#bdbdbd",
    Outcome.PASSED: "#2e7d32",
}
UNMEASURED = "#f5f5f5"
SEVERITY = (Outcome.FAILED, Outcome.NOT_MEASURED, Outcome.PASSED)


def draw(lines: Sequence[Line]) -> str:
    """Return the picture: rows send, columns receive; the diagonal is the checks of one end.

    A cell has the colour of its worst check, and its failed checks as text; its title lists all.
    """
    names = sorted({name for line in lines for name in (line.source, line.target) if name})
    width = MARGIN + CELL * len(names) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{width + 30}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{width + 30}" fill="white"/>',
    ]
    for row, source in enumerate(names):
        y = MARGIN + row * CELL
        parts.append(_text(MARGIN - 8, y + CELL // 2 + 4, source, "end"))
        x = MARGIN + row * CELL + CELL // 2 + 4
        turned = f'transform="rotate(-90 {x} {MARGIN - 8})"'
        parts.append(_text(x, MARGIN - 8, source, "start", turned))
        for column, target in enumerate(names):
            found = [
                line
                for line in lines
                if line.source == source and (line.target or line.source) == target
            ]
            parts.append(_cell(MARGIN + column * CELL, y, found))
    parts += _legend(width)
    return "\n".join([*parts, "</svg>", ""])


def _cell(x: int, y: int, found: Sequence[Line]) -> str:
    outcomes = {line.outcome for line in found}
    worst = next((outcome for outcome in SEVERITY if outcome in outcomes), None)
    colour = UNMEASURED if worst is None else COLOURS[worst]
    title = "\n".join(f"{line.check}: {line.outcome} {line.value}".rstrip() for line in found)
    failures = [line.check for line in found if line.outcome is Outcome.FAILED]
    label = _text(x + CELL // 2, y + CELL // 2 + 4, failures[0][:7], "middle", 'fill="white"') if (
        failures
    ) else ""  # fmt: skip
    return (
        f'<g><title>{escape(title)}</title><rect x="{x}" y="{y}" width="{CELL - 2}" '
        f'height="{CELL - 2}" fill="{colour}"/>{label}</g>'
    )


def _legend(width: int) -> list[str]:
    parts = []
    for number, outcome in enumerate(SEVERITY):
        x = 10 + number * 110
        parts.append(f'<rect x="{x}" y="{width + 8}" width="12" height="12" '
                     f'fill="{COLOURS[outcome]}"/>')  # fmt: skip
        parts.append(_text(x + 18, width + 18, outcome.value, "start"))
    return parts


def _text(x: int, y: int, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
