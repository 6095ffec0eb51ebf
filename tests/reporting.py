"""The immediate report of a failed test: its own report and the last log lines of its programs.

A tier that runs into its limit prints no summary any more, so nothing waits for the end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TypeAlias

import pytest

Report: TypeAlias = Generator[None, pytest.TestReport, pytest.TestReport]


def reporting(
    logs: Callable[[pytest.Item], Iterable[tuple[str, str]]],
) -> Callable[[pytest.Item, pytest.CallInfo[None]], Report]:
    """Return the hook that prints the report of a phase that failed, with the ends of the logs.

    It goes into a conftest.py under the name pytest_runtest_makereport.

    Args:
        logs: Returns the logs that belong to a test: the title and the end of each.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Report:
        report = yield
        if report.failed:
            terminal = item.config.pluginmanager.get_plugin("terminalreporter")
            assert terminal is not None
            took = f"{item.nodeid}, {report.when}, {report.duration:.0f} s"
            for title, text in ((took, report.longreprtext), *logs(item)):
                terminal.write_line(f"\n--- {title}\n{text}")
        return report

    return pytest_runtest_makereport
