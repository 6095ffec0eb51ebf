"""The RCU parameter: 0 during moves, and its own value after them, also after a crash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dranet_nri.component.files import FileSystem
from dranet_nri.kernel.grace_periods import PARAMETER, GracePeriods

pytestmark = pytest.mark.process

CRASH = """
import os, sys
from pathlib import Path
from dranet_nri.component.files import FileSystem
from dranet_nri.kernel.grace_periods import PARAMETER, GracePeriods
directory, stored, *changed = map(Path, sys.argv[1:])
periods = GracePeriods(directory, stored, FileSystem())
for value in changed:
    (directory / PARAMETER).write_text(str(value))
with periods.shortened():
    os._exit(9)
"""


class Parameter:
    """A directory with the parameter, and a path for its value."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stored = directory / "stored"
        self.set(b"3\n")

    def set(self, value: bytes) -> None:
        (self.directory / PARAMETER).write_bytes(value)

    @property
    def value(self) -> bytes:
        return (self.directory / PARAMETER).read_bytes().strip()

    def open(self) -> GracePeriods:
        return GracePeriods(self.directory, self.stored, FileSystem())

    def crash(self, *changed: str) -> None:
        """Let another process end during a move; it starts before the value is changed."""
        paths = (str(self.directory), str(self.stored))
        command = (sys.executable, "-c", CRASH, *paths, *changed)
        assert subprocess.run(command, check=False).returncode == 9


@pytest.fixture
def parameter(tmp_path: Path) -> Parameter:
    """Return a parameter of 3 jiffies."""
    return Parameter(tmp_path)


def test_parameter_is_0_during_a_move_and_has_its_value_after_it(parameter: Parameter) -> None:
    periods = parameter.open()

    for _ in range(2):
        with periods.shortened():
            assert parameter.value == b"0"
        assert parameter.value == b"3"


def test_value_returns_after_the_last_of_several_moves(parameter: Parameter) -> None:
    periods = parameter.open()

    with periods.shortened():
        with periods.shortened():
            assert parameter.value == b"0"
        assert parameter.value == b"0"
    assert parameter.value == b"3"


def test_value_returns_after_a_refused_move(parameter: Parameter) -> None:
    periods = parameter.open()

    with pytest.raises(ValueError, match="refused"), periods.shortened():
        raise ValueError("refused")
    assert parameter.value == b"3"


def test_next_start_restores_the_value_after_a_crash(parameter: Parameter) -> None:
    parameter.crash()
    assert parameter.value == b"0"

    periods = parameter.open()

    assert parameter.value == b"3"
    with periods.shortened():
        assert parameter.value == b"0"
    assert parameter.value == b"3"


def test_value_of_an_administrator_returns_after_a_move_and_after_a_crash(
    parameter: Parameter,
) -> None:
    periods = parameter.open()
    parameter.set(b"5\n")

    with periods.shortened():
        assert parameter.value == b"0"
    assert parameter.value == b"5"

    parameter.crash("7")
    assert parameter.value == b"0"
    parameter.open()
    assert parameter.value == b"7"


def test_0_of_an_administrator_stays(parameter: Parameter) -> None:
    parameter.set(b"0\n")
    periods = parameter.open()

    with periods.shortened():
        parameter.set(b"4\n")  # no value to return to: it is not written at the end
    assert parameter.value == b"4"
    assert not parameter.stored.exists()


@pytest.mark.parametrize("content", [b"", b"none", b"3" * 40])
def test_unusable_stored_value_is_not_written(parameter: Parameter, content: bytes) -> None:
    parameter.stored.write_bytes(content)
    parameter.set(b"0\n")

    parameter.open()

    assert parameter.value == b"0"


def test_absent_parameter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        GracePeriods(tmp_path, tmp_path / "stored", FileSystem())


def test_move_goes_on_if_the_parameter_cannot_be_written(
    parameter: Parameter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    periods = parameter.open()
    monkeypatch.setattr(os, "pwrite", refuse)

    with periods.shortened():
        assert parameter.value == b"3"
    assert parameter.value == b"3"
