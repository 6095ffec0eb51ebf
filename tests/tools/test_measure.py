"""The measured cost of a command covers all of its processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process


SCRIPT = Path(__file__).parents[2] / "hack/box/measure.py"
BURNED_S = 0.2
BURN = f"import time\nwhile time.process_time() < {BURNED_S}: pass"
WITH_A_CHILD = ("sh", "-c", '"$0" -c "$1"; true')
WITH_AN_ORPHAN = ("sh", "-c", '("$0" -c "$1" &) | cat')  # cat ends when the orphan does


def measure(file: Path, *command: str) -> tuple[int, float]:
    """Return the exit status and the CPU time of the command."""
    ran = subprocess.run((sys.executable, SCRIPT, file, *command), check=False)
    wall, cpu = map(float, file.read_text().split())
    assert wall >= 0
    return ran.returncode, cpu


@pytest.mark.parametrize("command", [WITH_A_CHILD, WITH_AN_ORPHAN], ids=["child", "orphan"])
def test_cpu_time_of_all_processes_is_counted(tmp_path: Path, command: tuple[str, ...]) -> None:
    code, cpu = measure(tmp_path / "cost", *command, sys.executable, BURN)

    assert code == 0
    assert cpu >= BURNED_S


@pytest.mark.parametrize(("script", "expected"), [("exit 7", 7), ("kill -KILL $$", 137)])
def test_exit_status_is_that_of_the_command(tmp_path: Path, script: str, expected: int) -> None:
    assert measure(tmp_path / "cost", "sh", "-c", script)[0] == expected
