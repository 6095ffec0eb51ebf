"""Table of the results: python3 -m tests.prove.table FILE..."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

RESULTS: Final = Path("/io/prove.jsonl")
_STARTED: Final = time.monotonic()
_HEADINGS: Final = (
    "what",
    "rows run",
    "lost",
    "misconfigured",
    "started without NIC",
    "other",
    "seconds",
    "rows a minute",
)


@dataclass(frozen=True, slots=True)
class Tally:
    """One line.

    Attributes:
        lost, misconfigured, unguarded, other: how many of the rows were.
    """

    what: str
    rows: int = 0
    lost: int = 0
    misconfigured: int = 0
    unguarded: int = 0
    other: int = 0
    seconds: float = 0.0

    @property
    def pace(self) -> float:
        """Return the rows a minute, 0 where no time was measured."""
        return 60 * self.rows / self.seconds if self.seconds else 0.0

    @property
    def failed(self) -> int:
        """Return how many rows found anything."""
        return self.lost + self.misconfigured + self.unguarded + self.other

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns."""
        numbers = (self.rows, self.lost, self.misconfigured, self.unguarded, self.other)
        return (
            self.what,
            *(str(number) for number in numbers),
            f"{self.seconds:.0f}",
            f"{self.pace:.0f}",
        )


def print_now(text: str) -> None:
    """Print the progress on standard error."""
    sys.stderr.write(f"[prove {time.monotonic() - _STARTED:4.0f}s] {text}\n")
    sys.stderr.flush()


def keep(tally: Tally) -> None:
    """Print the line, and write it to the file that hack/prove reads."""
    print_now(", ".join(f"{key} {value}" for key, value in asdict(tally).items()))
    try:
        with RESULTS.open("a") as file:
            file.write(json.dumps(asdict(tally)) + "\n")
    except OSError as error:  # a box without --io
        print_now(f"not kept: {error}")


def is_listed(what: str) -> bool:
    """Whether an earlier run that this one goes on from left such a line, and all went well."""
    found = RESULTS.exists() and any(
        result.what.startswith(what) and not result.failed for result in load((RESULTS,))
    )
    if found:
        print_now(f"{what}: known from before")
    return found


def load(paths: Iterable[Path]) -> tuple[Tally, ...]:
    """Return the lines of several runs."""
    lines = (line for path in paths for line in path.read_text().splitlines())
    return tuple(Tally(**json.loads(line)) for line in lines)


def summed(tallies: Sequence[Tally]) -> Tally:
    """Return the last line."""
    return Tally(
        "all",
        rows=sum(tally.rows for tally in tallies),
        lost=sum(tally.lost for tally in tallies),
        misconfigured=sum(tally.misconfigured for tally in tallies),
        unguarded=sum(tally.unguarded for tally in tallies),
        other=sum(tally.other for tally in tallies),
        seconds=sum(tally.seconds for tally in tallies),
    )


def render(tallies: Sequence[Tally]) -> str:
    """Return the table."""
    table = [_HEADINGS, *(row.cells() for row in (*tallies, summed(tallies)))]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(_HEADINGS))]
    lines = [
        "| "
        + " | ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))
        + " |"
        for cells in table
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join((*lines, ""))


def main(paths: Sequence[str]) -> int:
    """Print the table; fail if a row found anything, or if there is none."""
    tallies = load(Path(path) for path in paths)
    sys.stdout.write(render(tallies))
    return 1 if not tallies or summed(tallies).failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
