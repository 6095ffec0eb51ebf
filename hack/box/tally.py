"""Sum of the reports of all tiers: time, failures and one closing line.

Usage: tally.py [--budgets FILE] DIRECTORY

DIRECTORY has, of each tier, NAME.xml, the JUnit report; NAME.cost, wall time and CPU time
(hack/box/measure.py); and NAME.status, the exit status, only if the tier failed. FILE is a table of
CPU seconds on the reference machine: a tier that takes half as much again fails. A machine whose
cores are shared with other guests takes more CPU seconds for everything, so the table is scaled by
the median of all tiers. Wall time depends on the machine's load, so it is shown only. Exits 1 if CI
must not accept the run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

SLOWEST = 10
OUTCOMES = ("failure", "error", "skipped")
LEEWAY = 1.5  # of a budget
TIERS_FOR_MEDIAN = 5  # of fewer tiers, one slow tier would raise the median itself


@dataclass
class Tally:
    """The reports, summed up.

    Attributes:
        tests: The number of tests of each tier.
        counts: The numbers of failures, errors and skipped tests, of all tiers.
        cases: Seconds and name of each test.
        lines: A line for each test that did not pass.
        explained: The tiers with a test that failed.
    """

    tests: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    cases: list[tuple[float, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    explained: set[str] = field(default_factory=set)

    def read(self, report: Path) -> None:
        """Add the JUnit report of one tier."""
        tier = report.stem
        for suite in ET.parse(report).getroot().iter("testsuite"):
            self.tests[tier] = self.tests.get(tier, 0) + int(suite.get("tests", "0"))
            for outcome, name in zip(OUTCOMES, ("failures", "errors", "skipped"), strict=True):
                self.counts[outcome] += int(suite.get(name, "0"))
            for case in suite.iter("testcase"):
                self._add(tier, case)

    def _add(self, tier: str, case: ET.Element) -> None:
        test = f"{tier}: {case.get('classname')}::{case.get('name')}"
        self.cases.append((float(case.get("time", "0")), test))
        for found in (found for outcome in OUTCOMES for found in case.iter(outcome)):
            reason = (found.get("message") or "").partition("\n")[0]
            self.lines.append(f"{found.tag} {test}: {reason}")
            if found.tag != "skipped":
                self.explained.add(tier)


def read_costs(directory: Path) -> dict[str, tuple[float, float]]:
    """Return wall time and CPU time of each tier."""
    costs = {}
    for file in sorted(directory.glob("*.cost")):
        wall, cpu = map(float, file.read_text().split())
        costs[file.stem] = (wall, cpu)
    return costs


def show_tiers(
    tests: dict[str, int], costs: dict[str, tuple[float, float]], budgets: dict[str, float]
) -> None:
    """Print what each tier took, and which tiers of the table were not run."""
    print("   wall     CPU  budget")
    for tier in sorted({*tests, *costs}):
        wall, cpu = costs.get(tier, (0, 0))
        budget = f"{budgets[tier]:4.0f} s" if tier in budgets else "     -"
        count = f", {tests[tier]} tests" if tier in tests else ""
        print(f"{wall:5.0f} s {cpu:5.0f} s  {budget}  {tier}{count}")
    if left_out := sorted(budgets.keys() - tests.keys() - costs.keys()):
        print(f"not run: {', '.join(left_out)}")


def slowness(costs: dict[str, tuple[float, float]], budgets: dict[str, float]) -> float:
    """Return how many times slower than the reference machine this one is: at least 1.

    The same commit took 1,463 s in one CI run, and 2,131 s in another, with 1.7 times the CPU time
    in all tiers.
    """
    ratios = [cpu / budgets[tier] for tier, (_, cpu) in costs.items() if tier in budgets]
    return max(1.0, statistics.median(ratios)) if len(ratios) >= TIERS_FOR_MEDIAN else 1.0


def over_budget(costs: dict[str, tuple[float, float]], budgets: dict[str, float]) -> list[str]:
    """Return a line for each tier that takes too much CPU time, or has no budget."""
    lines = []
    slower = slowness(costs, budgets)
    for tier, (_, cpu) in costs.items():
        if tier not in budgets:
            lines.append(f"over budget {tier}: the table has no budget for it")
        elif cpu > LEEWAY * slower * budgets[tier]:
            lines.append(
                f"over budget {tier}: {cpu:.0f} s of CPU, more than {LEEWAY} times its budget of "
                f"{budgets[tier]:.0f} s (this machine is {slower:.2f} times slower)"
            )
    return lines


def main() -> str | int:
    """Print the sum; return the exit status, or the reason why the run does not count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--budgets", type=Path)
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    directory: Path = arguments.directory
    budgets: dict[str, float] = (
        tomllib.loads(arguments.budgets.read_text()) if arguments.budgets else {}
    )
    tally = Tally()
    for report in sorted(directory.glob("*.xml")):
        tally.read(report)
    costs = read_costs(directory)
    show_tiers(tally.tests, costs, budgets)
    if len(tally.cases) > SLOWEST:
        print("the slowest tests:")
        for seconds, test in sorted(tally.cases, reverse=True)[:SLOWEST]:
            print(f"{seconds:5.0f} s {test}")
    broken = [
        f"broken {status.stem}: exit status {status.read_text().strip()}, and no test of it failed"
        for status in sorted(directory.glob("*.status"))
        if status.stem not in tally.explained
    ]
    if arguments.budgets:
        broken += over_budget(costs, budgets)
    for line in tally.lines + broken:
        print(line)
    tests, skipped = sum(tally.tests.values()), tally.counts["skipped"]
    not_passed = tally.counts["failure"] + tally.counts["error"]
    failed = not_passed + len(broken)
    print(f"{tests - not_passed - skipped} passed, {failed} failed, {skipped} skipped", flush=True)
    if tests == 0:
        return "error: no test ran"
    if skipped and os.environ.get("CI") == "true":
        return "error: tests were skipped, and CI lacks nothing that they may ask for"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
