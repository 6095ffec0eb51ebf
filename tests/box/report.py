"""What a failed test of the box shows, at once: its own report and what the node's parts said last.

A tier that runs into its limit prints no summary any more, so nothing waits for the end. The hook
is imported by name into the tiers' conftest.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from typing import Final

import pytest

from tests.box import containerd, plugin

LINES: Final = 40


def tails() -> Generator[tuple[str, str]]:
    """Return the end of each log of the node: title and text."""
    for title, log in (("containerd", containerd.LOG), ("dranet-nri", plugin.LOG)):
        if log.exists():
            yield (
                f"the end of what {title} said",
                "\n".join(log.read_text(errors="replace").splitlines()[-LINES:]),
            )
    said = subprocess.run(("dmesg",), capture_output=True, text=True, check=False).stdout
    yield "the end of what the kernel said", "\n".join(said.splitlines()[-LINES:])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Print the report of a phase that failed, with the ends of the logs."""
    report = yield
    if report.failed:
        terminal = item.config.pluginmanager.get_plugin("terminalreporter")
        assert terminal is not None
        took = f"{item.nodeid}, {report.when}, {report.duration:.0f} s"
        for title, text in ((took, report.longreprtext), *tails()):
            terminal.write_line(f"\n--- {title}\n{text}")
    return report
