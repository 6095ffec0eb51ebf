"""Report of a failed test: its own output and the last log lines of the node's processes.

The hook is imported by name into the tiers' conftest.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from typing import Final

import pytest

from tests.box import containerd, crio, plugin
from tests.reporting import reporting

LINES: Final = 40


def tails(_item: pytest.Item) -> Generator[tuple[str, str]]:
    """Return the end of each log of the node: title and text."""
    logs = {"containerd": containerd.LOG, "CRI-O": crio.LOG, "dranet-nri": plugin.LOG}
    for title, log in logs.items():
        if log.exists():
            yield (
                f"the end of what {title} said",
                "\n".join(log.read_text(errors="replace").splitlines()[-LINES:]),
            )
    output = subprocess.run(("dmesg",), capture_output=True, text=True, check=False).stdout
    yield "the end of what the kernel said", "\n".join(output.splitlines()[-LINES:])


pytest_runtest_makereport = reporting(tails)
