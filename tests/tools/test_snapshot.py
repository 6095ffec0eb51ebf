"""hack/box/snapshot: what a node in a box gets of a checkout in which others work meanwhile.

And what hack/lib.sh adds to a script that stops where nobody wrote why, as that one once did.
"""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.process


HACK = Path(__file__).parents[2] / "hack"
SNAPSHOT = HACK / "box" / "snapshot"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout, with the script in its place."""
    root = tmp_path / "checkout"
    (root / "hack" / "box").mkdir(parents=True)
    shutil.copy(SNAPSHOT, root / "hack" / "box")
    (root / "tests").mkdir()
    (root / "tests" / "conftest.py").write_text("# kept\n")
    (root / ".mypy_cache").mkdir()
    return root


@pytest.fixture
def busy(checkout: Path) -> Iterator[None]:
    """Someone makes and removes a cache folder in the checkout, without a pause."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            (checkout / ".ruff_cache").mkdir()
            (checkout / ".ruff_cache").rmdir()

    worker = threading.Thread(target=work)
    worker.start()
    yield
    over.set()
    worker.join()


def snapshot(checkout: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [checkout / "hack" / "box" / "snapshot", target]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("busy")
def test_checkout_that_changes_during_the_copy_is_copied(checkout: Path, tmp_path: Path) -> None:
    for number in range(5):
        target = tmp_path / f"copy-{number}"
        assert snapshot(checkout, target).returncode == 0
        assert (target / "tests" / "conftest.py").read_text() == "# kept\n"
        assert not (target / ".mypy_cache").exists()


def test_failed_copy_is_a_failure(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("in the way")
    assert snapshot(checkout, tmp_path / "copy").returncode != 0


def test_unreadable_checkout_is_a_failure(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2 of tar is trouble, unlike 1, with which it tells that a file changed."""
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "tar"
    stand_in.write_text('#!/bin/sh\n[ "$1" = --extract ] || exit 2\ncat >/dev/null\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}:/usr/bin:/bin")
    assert snapshot(checkout, tmp_path / "copy").returncode != 0


def test_failed_script_prints_its_line(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"source {HACK}/lib.sh\nfalse || true\n[ 1 = 2 ]\n")
    ran = subprocess.run(("bash", script), capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == f"error: {script}, line 3: exit status 1 of: [ 1 = 2 ]\n"
