"""Run fuzz targets for a while and print one table; hack/fuzz calls it.

Each target runs in a child process, because atheris ends the process that it runs in.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fuzz.child import engine
from tests.fuzz.inputs import TARGETS

GRACE_S: Final = 120  # for the start, and for one slow input at the end

_RUNS: Final = re.compile(r"number_of_executed_units: *(\d+)")
_SHOWN: Final = 4000  # characters of what a crashed child said, the last ones


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one target."""

    name: str
    runs: int
    seconds: float
    crashes: int


def main() -> int:
    """Run what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--findings", type=Path, help="folder for what crashes, and the corpora")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.targets if name not in TARGETS]:
        parser.error(f"no target {unknown[0]}; use some of: {', '.join(TARGETS)}")
    findings = arguments.findings or Path(tempfile.mkdtemp(prefix="fuzz-"))
    results = [
        _campaign(name, arguments.seconds, findings) for name in arguments.targets or TARGETS
    ]
    rows = [f"{'target':<10}{'runs':>10}{'seconds':>9}{'crashes':>9}  by {engine()}"]
    rows += [f"{r.name:<10}{r.runs:>10}{r.seconds:>9.0f}{r.crashes:>9}" for r in results]
    sys.stdout.write("\n".join(rows) + "\n")
    return int(any(result.crashes for result in results))


def _campaign(name: str, seconds: int, findings: Path) -> Result:
    own = findings / name
    own.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.child", name, str(seconds), str(own)]
    output = own / "output"
    started = time.monotonic()
    with output.open("w") as file:
        try:
            child = subprocess.run(
                command, stdout=file, stderr=file, check=False, timeout=seconds + GRACE_S
            )
            crashed = child.returncode != 0
        except subprocess.TimeoutExpired:
            crashed = True
    spent = time.monotonic() - started
    text = output.read_text(errors="replace")
    if crashed:
        sys.stderr.write(
            f"{text[-_SHOWN:]}\n{name}: broken: {TARGETS[name].invariant}\n"
            f"{name}: the input and the output are in {own}\n"
        )
    runs = _RUNS.findall(text)
    return Result(name, int(runs[-1]) if runs else 0, spent, int(crashed))


if __name__ == "__main__":
    sys.exit(main())
