"""Add up the reports of all tiers: what took the time, what went wrong, and one closing line.

Exits 1 if CI must not accept it.

The argument is the directory of the reports: NAME.xml is what a tier's tests said, by JUnit, and
NAME.status, only of a tier that failed, its exit status.
"""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

SLOWEST = 10
UNWELL = ("failure", "error", "skipped")


def why(found: ET.Element) -> str:
    """The first line of what a test said."""
    return (found.get("message") or "").partition("\n")[0]


directory = Path(sys.argv[1])
counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
cases: list[tuple[float, str]] = []
unwell: list[str] = []
explained: set[str] = set()
for report in sorted(directory.glob("*.xml")):
    for suite in ET.parse(report).getroot().iter("testsuite"):
        for name in counts:
            counts[name] += int(suite.get(name, "0"))
        print(f"{float(suite.get('time', '0')):7.0f} s {report.stem}, {suite.get('tests')} tests")
        for case in suite.iter("testcase"):
            test = f"{report.stem}: {case.get('classname')}::{case.get('name')}"
            cases.append((float(case.get("time", "0")), test))
            for found in (found for outcome in UNWELL for found in case.iter(outcome)):
                unwell.append(f"{found.tag} {test}: {why(found)}")
                if found.tag != "skipped":
                    explained.add(report.stem)
if len(cases) > SLOWEST:
    print("of them the slowest:")
    for seconds, test in sorted(cases, reverse=True)[:SLOWEST]:
        print(f"{seconds:7.0f} s {test}")
broken = [
    f"broken {status.stem}: exit status {status.read_text().strip()}, and no test of it failed"
    for status in sorted(directory.glob("*.status"))
    if status.stem not in explained
]
for line in unwell + broken:
    print(line)
failed = counts["failures"] + counts["errors"] + len(broken)
skipped = counts["skipped"]
passed = counts["tests"] - counts["failures"] - counts["errors"] - skipped
print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
if counts["tests"] == 0:
    sys.exit("error: no test ran")
if skipped and os.environ.get("CI") == "true":
    sys.exit("error: tests were skipped, and CI lacks nothing that they may ask for")
sys.exit(1 if failed else 0)
