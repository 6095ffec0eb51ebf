"""hack/box/boot: a machine that did not come to its command is started once more, no other is."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.process


BOOT = Path(__file__).parents[2] / "hack" / "box" / "boot"
LONG_S, SHORT_S = 60, 1
TOLD = "the machine did not come to its command"

COUNT = 'echo >>"$1/boots"; boots=$(wc -l <"$1/boots")\n'
STARTED = 'touch "$1/ctl/started"\n'


def boot(directory: Path, machine: str, limit: int = LONG_S) -> tuple[int, str, int]:
    """Run a machine; return the exit status, what is said, and the number of starts."""
    (directory / "ctl").mkdir()
    (directory / "serial.log").write_text("Kernel panic\r\n")
    ran = subprocess.run(
        (BOOT, str(limit), directory, "sh", "-c", COUNT + machine, "-", directory),
        stderr=subprocess.PIPE,
        text=True,
    )
    return ran.returncode, ran.stderr, (directory / "boots").read_text().count("\n")


@pytest.mark.parametrize("status", [0, 3])
def test_machine_is_not_restarted_after_its_command_started(tmp_path: Path, status: int) -> None:
    assert boot(tmp_path, f"{STARTED} exit {status}") == (status, "", 1)


def test_machine_that_ends_before_its_command_is_restarted_once(tmp_path: Path) -> None:
    status, output, boots = boot(tmp_path, f'[ "$boots" = 2 ] || exit 4\n{STARTED} exit 3')
    assert (status, boots) == (3, 2)
    assert f"{TOLD} (exit status 4)" in output
    assert "Kernel panic" in output


def test_machine_that_hangs_before_its_command_is_restarted_once(tmp_path: Path) -> None:
    """Not before the last process of the first boot ended: it may hold a lock or a device."""
    first = '{ (sleep 2; touch "$1/ended") & exec sleep 100; }'
    second = f'[ -e "$1/ended" ] || exit 9\n{STARTED} exit 3'
    status, output, boots = boot(tmp_path, f'[ "$boots" = 2 ] || {first}\n{second}', SHORT_S)
    assert (status, boots) == (3, 2)
    assert TOLD in output


def test_machine_that_never_boots_is_a_failure(tmp_path: Path) -> None:
    status, output, boots = boot(tmp_path, "exit 4")
    assert (status, boots) == (4, 2)
    assert output.count(TOLD) == 1


def test_boot_limit_does_not_apply_to_the_command(tmp_path: Path) -> None:
    """The command ends a second after the limit."""
    assert boot(tmp_path, f"{STARTED} sleep 2\nexit 3", SHORT_S) == (3, "", 1)
