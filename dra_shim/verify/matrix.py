"""SVG matrix of a verification, with a cell for each pair of NICs."""

from collections.abc import Sequence
from html import escape

from dra_shim.verify.types import Line, Outcome

CELL = 60  # pixels; the name of a check fits
LETTER = 7  # pixels of a letter of a name, at most on average
LEGEND = 420
COLOURS = {
    Outcome.FAILED: "#c62828",
    Outcome.NOT_MEASURED: "#bdbdbd",
    Outcome.PASSED: "#2e7d32",
}
UNMEASURED = "#f5f5f5"
SEVERITY = (Outcome.FAILED, Outcome.NOT_MEASURED, Outcome.PASSED)


def draw(lines: Sequence[Line]) -> str:
    """Return the SVG text: rows send, columns receive; checks of one end are on the diagonal.

    A cell has the colour of its worst check and the name of its first failed one. Its title lists
    all checks.
    """
    names = sorted({name for line in lines for name in (line.source, line.target) if name})
    margin = LETTER * max(map(len, names), default=0) + 20
    bottom = margin + CELL * len(names) + 20
    width, height = max(bottom, LEGEND), bottom + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    side = CELL * len(names)
    parts.append(
        f'<rect x="{margin}" y="{margin}" width="{side}" height="{side}" fill="{UNMEASURED}"/>'
    )
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault((line.source, line.target or line.source), []).append(line)
    # Most pairs of a large cluster are not measured: only the others have a cell.
    places = {name: margin + CELL * place for place, name in enumerate(names)}
    parts += [
        _cell(places[target], places[source], checks) for (source, target), checks in found.items()
    ]
    for source, y in places.items():
        parts.append(_text(margin - 8, y + CELL // 2 + 4, source, "end"))
        x = y + CELL // 2 + 4
        turned = f'transform="rotate(-90 {x} {margin - 8})"'
        parts.append(_text(x, margin - 8, source, "start", turned))
    parts += _legend(bottom)
    return "\n".join([*parts, "</svg>", ""])


def _cell(x: int, y: int, found: Sequence[Line]) -> str:
    outcomes = {line.outcome for line in found}
    colour = COLOURS[next(outcome for outcome in SEVERITY if outcome in outcomes)]
    title = "\n".join(f"{line.check}: {line.outcome} {line.value}".rstrip() for line in found)
    failures = [line.check for line in found if line.outcome is Outcome.FAILED]
    style = 'fill="white" font-size="10"'
    label = (
        _text(x + CELL // 2, y + CELL // 2 + 4, failures[0], "middle", style) if failures else ""
    )
    return (
        f'<g><title>{escape(title)}</title><rect x="{x}" y="{y}" width="{CELL - 2}" '
        f'height="{CELL - 2}" fill="{colour}"/>{label}</g>'
    )


def _legend(y: int) -> list[str]:
    parts = []
    entries = [
        *((outcome.value, COLOURS[outcome]) for outcome in SEVERITY),
        ("no pair", UNMEASURED),
    ]
    for number, (text, colour) in enumerate(entries):
        x = 10 + number * 110
        parts.append(
            f'<rect x="{x}" y="{y + 8}" width="12" height="12" fill="{colour}" stroke="#757575"/>'
        )
        parts.append(_text(x + 18, y + 18, text, "start"))
    return parts


def _text(x: int, y: int, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
