"""Add up the reports of all tiers and print one closing line; exit 1 if CI must not accept it.

The argument is the directory of the reports: one JUnit file per tier, and NAME.broken for a tier
that ended without one.
"""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

directory = Path(sys.argv[1])
counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
for report in sorted(directory.glob("*.xml")):
    for suite in ET.parse(report).getroot().iter("testsuite"):
        for name in counts:
            counts[name] += int(suite.get(name, "0"))
failed = counts["failures"] + counts["errors"] + len(list(directory.glob("*.broken")))
skipped = counts["skipped"]
passed = counts["tests"] - counts["failures"] - counts["errors"] - skipped
print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
if counts["tests"] == 0:
    sys.exit("error: no test ran")
if skipped and os.environ.get("CI") == "true":
    sys.exit("error: tests were skipped, and CI lacks nothing that they may ask for")
sys.exit(1 if failed else 0)
