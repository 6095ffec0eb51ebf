"""SVG matrix of a verification, with a cell for each pair of NICs."""

import re
from collections.abc import Mapping, Sequence
from html import escape

from dra_shim.verify.types import Line, Outcome

CELL = 60  # pixels; the name of a check fits
SMALL_CELL = 16  # a name of a row fits
MOST_NAMES = 40  # with cells of full size
LETTER = 7  # pixels of a letter of a name, at most on average
LEGEND = 660
COLOURS = {
    Outcome.FAILED: "#c62828",
    Outcome.NOT_MEASURED: "#bdbdbd",
    Outcome.PASSED: "#2e7d32",
}
UNMEASURED = "#f5f5f5"
SEVERITY = (Outcome.FAILED, Outcome.NOT_MEASURED, Outcome.PASSED)


def draw(lines: Sequence[Line]) -> str:
    """Return the SVG text: rows send, columns receive; checks of one end are on the diagonal.

    A cell has the colour of its worst check and the name of its first failed one, or "x" where
    the name does not fit. Its title lists all checks.
    """
    names = {name for line in lines for name in (line.source, line.target) if name}
    cell = CELL if len(names) <= MOST_NAMES else SMALL_CELL
    margin = LETTER * max(map(len, names), default=0) + 20
    bottom = margin + cell * len(names) + 20
    width, height = max(bottom, LEGEND), bottom + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    side = cell * len(names)
    parts.append(
        f'<rect x="{margin}" y="{margin}" width="{side}" height="{side}" fill="{UNMEASURED}"/>'
    )
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault((line.source, line.target or line.source), []).append(line)
    # Most pairs of a large cluster are not measured: only the others have a cell.
    ordered = sorted(names, key=_by_number)
    places = {name: margin + cell * place for place, name in enumerate(ordered)}
    parts += [
        _cell(places[target], places[source], cell, checks)
        for (source, target), checks in found.items()
    ]
    parts += [*_names(places, margin - 8, cell), *_legend(bottom)]
    return "\n".join([*parts, "</svg>", ""])


def _by_number(name: str) -> list[tuple[str, int]]:
    """Return the key of an order with node-2 before node-10."""
    parts = re.findall(r"([^0-9]*)([0-9]*)", name)
    return [(text, int(digits or 0)) for text, digits in parts]


def _names(places: Mapping[str, int], end: int, cell: int) -> list[str]:
    """Return the names of the rows and of the columns, up to the matrix."""
    parts = []
    for name, place in places.items():
        middle = place + cell // 2 + 4
        turned = f'transform="rotate(-90 {middle} {end})"'
        parts += [
            _text(end, middle, name, "end"), _text(middle, end, name, "start", turned)
        ]  # fmt: skip
    return parts


def _cell(x: int, y: int, size: int, found: Sequence[Line]) -> str:
    outcomes = {line.outcome for line in found}
    colour = COLOURS[next(outcome for outcome in SEVERITY if outcome in outcomes)]
    title = "\n".join(f"{line.check}: {line.outcome} {line.value}".rstrip() for line in found)
    failures = [line.check for line in found if line.outcome is Outcome.FAILED]
    style = 'fill="white" font-size="10"'
    text = "".join(failures[:1]) if size == CELL else "x" * bool(failures)
    label = _text(x + size // 2, y + size // 2 + 4, text, "middle", style) if text else ""
    return (
        f'<g><title>{escape(title)}</title><rect x="{x}" y="{y}" width="{size - 2}" '
        f'height="{size - 2}" fill="{colour}"/>{label}</g>'
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
    axes = "rows send, columns receive; diagonal: one NIC"
    return [*parts, _text(10 + len(entries) * 110 - 20, y + 18, axes, "start")]


def _text(x: int, y: int, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
