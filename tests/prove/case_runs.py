"""Runner of reported cases: prints case, expected and observed result. See hack/prove.

Rules:
1. The tests run in one pytest, in a network namespace of their own.
2. A case is as expected if each of its tests ran and passed. A skipped test has not passed.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from xml.etree import ElementTree

from tests.prove.cases import CASES, Case
from tests.prove.table import print_now

CHECKOUT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 1800
_OWN_NETWORK: Final = ("unshare", "--net", "--mount", "--propagation", "private", "sh", "-c")
_SETUP: Final = 'mount -t sysfs sysfs /sys; ip link set lo up; exec "$@"'

Outcomes = Mapping[str, Sequence[str]]  # pytest id without parameters: what is wrong, "" if nothing


def run(tests: Iterable[str]) -> Outcomes:
    """Return the outcomes of tests."""
    with TemporaryDirectory(prefix="cases-") as directory:
        report = Path(directory) / "report.xml"
        pytest = (
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"--junitxml={report}",
            *dict.fromkeys(tests),
        )
        subprocess.run(
            [*_OWN_NETWORK, _SETUP, "-", *pytest],
            cwd=CHECKOUT, env={**os.environ, "CI": "true"}, check=False, timeout=LIMIT_S,
            stdout=sys.stderr,
        )  # fmt: skip
        return outcomes_of(report.read_text()) if report.exists() else {}


def outcomes_of(report: str) -> Outcomes:
    """Return what a JUnit report says."""
    found: dict[str, list[str]] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        path = case.get("classname", "").replace(".", "/") + ".py"
        test = f"{path}::{case.get('name', '').partition('[')[0]}"
        bad = [entry for entry in case if entry.tag in {"failure", "error", "skipped"}]
        found.setdefault(test, []).append(
            f"{bad[0].tag}: {bad[0].get('message', '')}".partition("\n")[0] if bad else ""
        )
    return found


def observed(case: Case, outcomes: Outcomes) -> tuple[bool, str]:
    """Return whether a case is as expected, and what its tests saw."""
    count = 0
    for test in case.tests:
        found = [
            problem
            for name, problems in outcomes.items()
            if name == test or name.startswith(f"{test}::")
            for problem in problems
        ]
        if not found:
            return False, f"did not run: {test}"
        if wrong := next(filter(None, found), ""):
            return False, f"{test}: {wrong}"
        count += len(found)
    return True, f"as expected, {count} tests"


def main(arguments: Sequence[str]) -> int:
    """Run the cases that have one of the words, or all; 1 if one is not as expected."""
    chosen = [
        case for case in CASES if not arguments or any(word in case.name for word in arguments)
    ]
    print_now(f"cases: {len(chosen)}")
    outcomes = run(test for case in chosen for test in case.tests)
    verdicts = [(case, *observed(case, outcomes)) for case in chosen]
    rows = [f"| {case.name} | {case.expected} | {text} |" for case, _, text in verdicts]
    table = ["| case | expected | seen |", "|---|---|---|", *rows]
    sys.stdout.write("\n".join((*table, "")))
    return 0 if verdicts and all(well for _, well, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
