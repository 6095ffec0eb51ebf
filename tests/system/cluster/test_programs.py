"""The programs are those of the pinned release, and die with whoever started them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.box.waiting import wait_until
from tests.system.cluster.program import Program, ProgramError

PINNED = re.compile(r"\bk8s\.io/kubernetes (v\S+)")
LAUNCHER = """
import sys, time
from pathlib import Path
from tests.system.cluster.program import Program
program = Program(Path(sys.argv[1]), ("sleep", "600"))
program.start(lambda: True)
print(program.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("name", ["kube-controller-manager", "kube-scheduler", "kubelet"])
def test_program_has_the_pinned_version(programs: Path, name: str) -> None:
    pinned = PINNED.search(Path(__file__).with_name("go.mod").read_text())
    assert pinned is not None

    version = subprocess.run(
        (programs / name, "--version"), capture_output=True, text=True, check=True
    )

    assert version.stdout == f"Kubernetes {pinned[1]}\n"


def test_program_ends_with_its_tests(tmp_path: Path) -> None:
    command = (sys.executable, "-c", LAUNCHER, str(tmp_path / "sleep.log"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())

        launcher.kill()

    wait_until(f"process {pid} to end", lambda: not Path(f"/proc/{pid}").exists())


def test_program_that_fails_to_start_shows_its_log(tmp_path: Path) -> None:
    program = Program(tmp_path / "sh.log", ("sh", "-c", "echo no such flag; exit 3"))

    with pytest.raises(ProgramError, match=r"^sh ended with status 3\nno such flag$"):
        program.start(lambda: False)
