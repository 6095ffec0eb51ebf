"""Add up the reports of all tiers: what took the time, and one closing line.

Exits 1 if CI must not accept it.

The argument is the directory of the reports: one JUnit file per tier, and NAME.broken for a tier
that ended without one.
"""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

SLOWEST = 10

directory = Path(sys.argv[1])
counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
cases: list[tuple[float, str]] = []
for report in sorted(directory.glob("*.xml")):
    for suite in ET.parse(report).getroot().iter("testsuite"):
        for name in counts:
            counts[name] += int(suite.get(name, "0"))
        print(f"{float(suite.get('time', '0')):7.0f} s {report.stem}, {suite.get('tests')} tests")
        cases.extend(
            (float(case.get("time", "0")), f"{report.stem}: {case.get('name')}")
            for case in suite.iter("testcase")
        )
if len(cases) > SLOWEST:
    print("of them the slowest:")
    for seconds, name in sorted(cases, reverse=True)[:SLOWEST]:
        print(f"{seconds:7.0f} s {name}")
failed = counts["failures"] + counts["errors"] + len(list(directory.glob("*.broken")))
skipped = counts["skipped"]
passed = counts["tests"] - counts["failures"] - counts["errors"] - skipped
print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
if counts["tests"] == 0:
    sys.exit("error: no test ran")
if skipped and os.environ.get("CI") == "true":
    sys.exit("error: tests were skipped, and CI lacks nothing that they may ask for")
sys.exit(1 if failed else 0)
