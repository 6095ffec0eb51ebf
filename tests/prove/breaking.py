"""Deliberate breaks of the program: each must make its test fail. See hack/prove.

Rules:
1. The checkout is copied and left alone.
2. Every test passes on the copy before anything is broken.
3. A test notices by an assertion of its own. One that cannot be collected, hangs, or meets an
   exception says nothing about the promise.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Final
from xml.etree import ElementTree

from tests.prove.breaks import BREAKS
from tests.prove.promise import Break
from tests.prove.table import print_now

CHECKOUT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 900  # of one run of tests
_LEFT_OUT: Final = ignore_patterns(".git", "__pycache__", ".*_cache", ".hypothesis", ".venv")
_ASSERTED: Final = ("AssertionError", "assert ", "Failed: DID NOT RAISE")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of tests found.

    Attributes:
        passed: how many tests did.
        failures: what each that failed says first; errors beside the tests included.
    """

    passed: int
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the test noticed; problem says why it did not, "" if it did."""

    broken: Break
    problem: str
    seconds: float


def prove(breaks: Sequence[Break], checkout: Path = CHECKOUT) -> Iterator[Verdict]:
    """Yield the verdict on each break.

    Raises:
        ValueError: a text is not where the table says, or a test fails without any break.
    """
    with TemporaryDirectory(prefix="breaks-") as directory:
        tree = Path(directory) / "tree"
        copytree(checkout, tree, ignore=_LEFT_OUT, symlinks=True)
        for breakage in breaks:
            breakage.apply((tree / breakage.file).read_text())
        tests = dict.fromkeys(breakage.test for breakage in breaks)
        _refuse_failures(run(tree, tests), len(tests))
        for breakage in breaks:
            begin = time.monotonic()
            with broken(tree, breakage):
                outcome = run(tree, [breakage.test])
            yield Verdict(breakage, problem_of(outcome), time.monotonic() - begin)


def _refuse_failures(outcome: Outcome, least: int) -> None:
    if outcome.failures or outcome.passed < least:
        found = "; ".join(outcome.failures) or f"{outcome.passed} of {least} ran"
        raise ValueError(f"before anything is broken: {found}")


@contextmanager
def broken(tree: Path, breakage: Break) -> Iterator[None]:
    """Break a file of the copy for a while."""
    path = tree / breakage.file
    whole, status = path.read_text(), path.stat()
    path.write_text(breakage.apply(whole))
    try:
        yield
    finally:
        path.write_text(whole)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def run(tree: Path, tests: Iterable[str]) -> Outcome:
    """Run tests in the copy; what pytest cannot even begin is a failure."""
    with TemporaryDirectory(prefix="breaks-") as directory:
        report = Path(directory) / "report.xml"
        # What Python compiled of the broken file must not be taken for the whole one, or reverse.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", f"--junitxml={report}", *tests],
            cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip
        if not report.exists():
            return Outcome(0, (f"pytest says {done.returncode}: {done.stdout[-500:]}",))
        return parse(report.read_text())


def parse(report: str) -> Outcome:
    """Return what a JUnit report says. A test that was skipped has not passed."""
    passed, failures = 0, []
    for case in ElementTree.fromstring(report).iter("testcase"):
        bad = [problem for problem in case if problem.tag in {"failure", "error", "skipped"}]
        passed += not bad
        failures += [
            problem.get("message", "")
            if problem.tag == "failure"
            else f"{problem.tag}: {problem.get('message')}"
            for problem in bad
        ]
    return Outcome(passed, tuple(failures))


def problem_of(outcome: Outcome) -> str:
    """Return why a run does not count as noticed, "" if it does."""
    if not outcome.failures:
        return "passes all the same" if outcome.passed else "no test ran"
    other = [text for text in outcome.failures if not text.startswith(_ASSERTED)]
    return f"no assertion: {other[0].splitlines()[0]}" if other else ""


def line(verdict: Verdict) -> str:
    """Return a row of the table."""
    path, _, name = verdict.broken.test.partition("::")
    noticed = f"NOT NOTICED, {verdict.problem}: " if verdict.problem else ""
    where = f"{Path(path).stem.removeprefix('test_')}: {name.removeprefix('test_')}"
    return f"| {verdict.broken.what} | {noticed}{where.replace('_', ' ')} |"


def main(arguments: Sequence[str]) -> int:
    """Prove the breaks that have one of the words, or all; 1 if one went unnoticed."""
    chosen = [
        breakage
        for breakage in BREAKS
        if not arguments or any(word in breakage.what for word in arguments)
    ]
    print_now(f"breaks: the {len(chosen)} tests without any, first")
    verdicts = []
    try:
        for number, verdict in enumerate(prove(chosen), 1):
            verdicts.append(verdict)
            found = f"{verdict.broken.what}: {verdict.problem or 'noticed'}"
            print_now(f"{number} of {len(chosen)}, {verdict.seconds:.1f} s: {found}")
    except ValueError as error:
        print_now(f"error: {error}; correct tests/prove/breaks.py")
        return 1
    table = ["| the program, broken | the test that fails |", "|---|---|", *map(line, verdicts)]
    sys.stdout.write("\n".join((*table, "")))
    return 1 if not verdicts or any(verdict.problem for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
