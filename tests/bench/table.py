"""Results of the benchmarks, and the table that shows them."""

import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_STARTED: Final = time.monotonic()
_HEADINGS: Final = ("what", "measured", "floor or baseline", "ratio", "budget", "met")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        what: was measured.
        measured: with its unit.
        floor: what it is compared with, with its unit; "" for nothing.
        ratio: of measured to floor; None where there is no floor.
        budget: of the design, "" if it sets none.
        met: whether the budget is kept, None without one.
    """

    what: str
    measured: str
    floor: str = ""
    ratio: float | None = None
    budget: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns."""
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        met = "-" if self.met is None else "yes" if self.met else "NO"
        return self.what, self.measured, self.floor or "-", ratio, self.budget or "-", met


def print_now(text: str) -> None:
    """Print the progress on standard error."""
    sys.stderr.write(f"[bench {time.monotonic() - _STARTED:4.0f}s] {text}\n")
    sys.stderr.flush()


def ms(seconds: float) -> str:
    """Return a duration for a cell, in milliseconds."""
    return f"{seconds * 1e3:.3f} ms" if abs(seconds) < 0.001 else f"{seconds * 1e3:.2f} ms"


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of the values, 0 to 1, does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def spread(values: Sequence[float]) -> str:
    """Return the middle half of the values in milliseconds: what a median is worth."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low * 1e3:.1f} to {high * 1e3:.1f} ms"


def machine() -> str:
    """Return what the numbers were measured on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    load = os.getloadavg()[0]
    return (
        f"machine: {os.cpu_count()} cores {model}, Linux {platform.release()},"
        f" Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC,"
        f" load {load:.1f}"
    )


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a path of procfs
        return file.read().splitlines()


def render(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """Return the table with its notes below."""
    table = [_HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(_HEADINGS))]
    lines = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        + " |"
        for cells in table
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join((*lines, "", *(f"- {note}" for note in notes), ""))
