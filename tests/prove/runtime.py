"""Crashes of the plugin on a real containerd: one row of the table for each class of crashes."""

from __future__ import annotations

import os
import time
from typing import Final

import pytest

from tests.prove.table import Tally, is_listed, keep

ROWS: Final = "tests/system/host/test_crash_containerd.py"


class _Results:
    """Counts the rows that pytest plays, and those that fail."""

    def __init__(self) -> None:
        self.rows: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one step of a row."""
        self.rows.add(report.nodeid)
        if not report.passed:
            self.failed.add(report.nodeid)


def run() -> bool:
    """Play the rows; keep the line; return whether all went well."""
    what = f"host containerd of {os.environ['BOX_IMAGE']}"
    if is_listed(what):
        return True
    begin, results = time.monotonic(), _Results()
    status = pytest.main(["-q", ROWS], plugins=[results])
    keep(
        Tally(
            what,
            rows=len(results.rows),
            other=len(results.failed) or int(status != 0),
            seconds=time.monotonic() - begin,
        )
    )
    return status == 0
