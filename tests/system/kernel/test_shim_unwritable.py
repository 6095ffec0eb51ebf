"""An unwritable state directory: reports and retries."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from dra_shim.settings.common import StatePaths
from tests.capability import lacking
from tests.dra_shim.commands.shim_bench import Shim
from tests.dra_shim.prepare.prepare_bench import Bench
from tests.unwritable import full, readonly


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Return a directory whose `state` is a small file system of its own."""
    state = tmp_path / "state"
    state.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=64k", "records", str(state))
    if subprocess.run(mount, check=False).returncode:
        lacking("a file system of our own", "run as root, in a mount namespace")
    yield tmp_path
    subprocess.run(("umount", str(state)), check=True)


UNWRITABLE = pytest.mark.parametrize(
    ("unwritable", "reason", "remedy"),
    [
        (full, "No space left on device", "make room there"),
        (readonly, "Read-only file system", "make it writable"),
    ],
    ids=["full", "read-only"],
)
Unwritable = Callable[[Path], AbstractContextManager[None]]


def assert_reported(text: str, state: Path, reason: str, remedy: str) -> None:
    """Assert that the text names the directory, the reason and the remedy."""
    assert text.startswith(f"state directory {state}: cannot be written: {reason}")
    assert text.endswith(f"; {remedy}")


@UNWRITABLE
def test_unwritable_state_directory_is_reported_and_retried(
    directory: Path, unwritable: Unwritable, reason: str, remedy: str
) -> None:
    state = directory / "state"
    with closing(Bench(StatePaths(state, directory / "run"))) as bench:
        first, second = (bench.cluster.add(name, f"u-{name}", name) for name in "ab")
        bench.prepare(first)
        with unwritable(state):
            assert_reported(bench.error(second), state, reason, remedy)
        assert bench.prepare(second)[0].error == ""
        assert bench.record(second) is not None

        with readonly(state):
            (reported,) = asyncio.run(bench.preparer.unprepare([first])).values()
            assert_reported(reported, state, "Read-only file system", "make it writable")
        assert asyncio.run(bench.preparer.unprepare([first])) == {first.uid: ""}


@UNWRITABLE
def test_allocate_reports_an_unwritable_directory_in_one_line(
    directory: Path, unwritable: Unwritable, reason: str, remedy: str
) -> None:
    shim = Shim(directory)
    with unwritable(directory / "state"):
        done = shim.allocate()

        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert_reported(
            done.stderr.strip().removeprefix("dra-shim: "), Path("state"), reason, remedy
        )
    assert shim.allocate().returncode == 0
